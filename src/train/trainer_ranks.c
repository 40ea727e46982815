/* A run on many ranks: who takes which micro-batch, and what is added up when. */
#include "train/trainer_internal.h"

#include <inttypes.h>
#include <math.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "model/params/shards.h"
#include "ops/streams.h"

#define MOST_SPANS 131072 // of a timeline, on each rank: 3 MB

static enum mt_status check_experts(struct mt_trainer *trainer)
{
    int64_t sharing = trainer->settings->expert_ranks;
    int ranks = mt_comm_size(trainer->comm);
    if (sharing == 0 || ranks % sharing == 0) return MT_OK;
    return mt_fail(trainer->ctx, MT_ERR_USAGE,
                   "parallel.experts is %" PRId64 ", which does not divide the %s of this run", sharing,
                   mt_counted((uint64_t)ranks, "rank", "ranks").text);
}

/* Neighbours share the experts: ranks 0 … E-1, E … 2E-1, and so on. */
enum mt_status mt_trainer_split_experts(struct mt_trainer *trainer)
{
    int sharing = (int)trainer->settings->expert_ranks;
    int rank = mt_comm_rank(trainer->comm);
    if (sharing == 1) return MT_OK;
    enum mt_status status = mt_comm_split(trainer->comm, rank / sharing, &trainer->expert_comm);
    if (status != MT_OK) return status;
    return mt_comm_split(trainer->comm, rank % sharing, &trainer->copies_comm);
}

enum mt_status mt_trainer_open_ranks(struct mt_trainer *trainer)
{
    enum mt_status status = MT_OK;
    trainer->comm = trainer->options.comm;
    if (trainer->comm == NULL) {
        status = mt_comm_open_alone(trainer->ctx, &trainer->own_comm);
        trainer->comm = trainer->own_comm;
    }
    if (status != MT_OK) return status;
    size_t ranks = (size_t)mt_comm_size(trainer->comm);
    trainer->losses = mt_arena_array(&trainer->arena, ranks, sizeof *trainer->losses, &status);
    if (status == MT_OK) status = check_experts(trainer);
    if (status != MT_OK) return status;
    for (int kind = 0; kind < MT_COMM_KINDS; kind++)
        trainer->sent_before[kind] = mt_comm_sent_of(trainer->comm, (enum mt_comm_kind)kind);
    trainer->threads = (int)mt_comm_threads(trainer->comm, trainer->settings->threads);
    return MT_OK;
}

struct mt_gradient_groups mt_trainer_groups(const struct mt_trainer *trainer)
{
    return (struct mt_gradient_groups){.all = trainer->comm, .copies = trainer->copies_comm};
}

static bool is_alone(const struct mt_trainer *trainer)
{
    return mt_comm_size(trainer->comm) == 1;
}

static bool has_global_terms(const struct mt_trainer *trainer)
{
    return trainer->tensors.objective != NULL && trainer->settings->statistics == MT_STATISTICS_GLOBAL;
}

static enum mt_status sum_numbers(void *self, double *numbers, size_t count)
{
    mt_comm_sum_f64(self, numbers, count);
    return MT_OK;
}

static enum mt_status layer_done(void *self, int64_t layer)
{
    struct mt_trainer *trainer = self;
    if (trainer->backward != NULL) trainer->backward->number = (int32_t)layer;
    enum mt_status status = mt_device_end_span(trainer->device, trainer->backward);
    if (status == MT_OK && trainer->sends) status = mt_gradient_sum_layer_done(trainer->gradient_sum, layer);
    trainer->backward = mt_timeline_reserve(trainer->timeline, MT_SPAN_BACKWARD, -1);
    return status == MT_OK ? mt_device_begin_span(trainer->device, trainer->backward) : status;
}

static enum mt_status bucket_moved(void *self, size_t bucket)
{
    return mt_gradient_sum_hand_round(self, bucket);
}

static enum mt_status open_timeline(struct mt_trainer *trainer)
{
    static const char nothing_yet[] = "[]\n";
    const char *path = trainer->options.timeline;
    if (path == NULL || trainer->options.plan_only) return MT_OK;
    enum mt_status status = mt_timeline_create(trainer->ctx, MOST_SPANS, &trainer->timeline);
    if (status != MT_OK || !mt_trainer_writes(trainer)) return status;
    // A place that cannot be written to is found out before the run, not after it.
    return mt_file_write_all(trainer->ctx, path, nothing_yet, sizeof nothing_yet - 1);
}

void mt_trainer_begin_timeline(struct mt_trainer *trainer)
{
    if (trainer->timeline == NULL) return;
    // So that all ranks' times begin at the same moment.
    mt_comm_barrier(trainer->comm);
    mt_timeline_begin(trainer->timeline);
    mt_comm_set_timeline(trainer->comm, trainer->timeline);
}

enum mt_status mt_trainer_end_timeline(struct mt_trainer *trainer, struct mt_timeline_summary *summary)
{
    *summary = (struct mt_timeline_summary){0};
    if (trainer->timeline == NULL) return MT_OK;
    mt_comm_set_timeline(trainer->comm, NULL);
    enum mt_status status = mt_trainer_fail_alone(trainer, mt_device_synchronise(trainer->device));
    if (status != MT_OK) return status;
    return mt_timeline_write(trainer->comm, trainer->timeline, trainer->options.timeline, summary);
}

enum mt_status mt_trainer_join_ranks(struct mt_trainer *trainer)
{
    enum mt_status status = open_timeline(trainer);
    if (status != MT_OK) return status;
    mt_model_set_layer_hook(trainer->model,
                            &(struct mt_layer_hook){.layer_done = layer_done, .self = trainer});
    status = mt_gradient_sum_create(&trainer->optimizer.buckets, trainer->sender, &trainer->gradient_sum);
    if (status != MT_OK || is_alone(trainer)) return status;
    trainer->optimizer.hook = (struct mt_bucket_hook){.moved = bucket_moved, .self = trainer->gradient_sum};
    // A term of all ranks' tokens does not depend on which rank has which.
    if (trainer->settings->statistics == MT_STATISTICS_GLOBAL)
        mt_batches_share(trainer->corpus.training, (size_t)mt_comm_size(trainer->comm));
    if (has_global_terms(trainer)) {
        mt_objective_set_reduction(
            trainer->tensors.objective,
            &(struct mt_objective_reduction){.sum = sum_numbers, .self = trainer->comm});
    }
    return MT_OK;
}

void mt_trainer_close_ranks(struct mt_trainer *trainer)
{
    if (trainer->timeline != NULL) mt_comm_set_timeline(trainer->comm, NULL);
    mt_timeline_free(trainer->timeline);
    mt_comm_close(trainer->copies_comm);
    mt_comm_close(trainer->expert_comm);
    mt_comm_close(trainer->own_comm);
}

enum mt_status mt_trainer_find_transfer(struct mt_trainer *trainer, bool *direct)
{
    enum mt_row_transfer asked = trainer->settings->transfer;
    *direct = false;
    if (trainer->expert_comm == NULL || mt_device_on_host(trainer->device) || asked == MT_TRANSFER_STAGED)
        return MT_OK;
    *direct = mt_device_shares_addresses(trainer->device) && mt_comm_reads_devices(trainer->expert_comm);
    if (*direct || asked == MT_TRANSFER_AUTO) return MT_OK;
    return mt_fail(
        trainer->ctx, MT_ERR_UNSUPPORTED,
        "parallel.transfer is direct, but this MPI cannot read the memory of the device %s: use one "
        "that is CUDA-aware, or parallel.transfer: auto",
        mt_device_name(trainer->device));
}

uint64_t mt_trainer_sent(const struct mt_trainer *trainer)
{
    uint64_t before = 0;
    for (int kind = 0; kind < MT_COMM_KINDS; kind++) before += trainer->sent_before[kind];
    return mt_comm_sent_bytes(trainer->comm) - before;
}

enum mt_status mt_trainer_tell_ranks(struct mt_trainer *trainer)
{
    char text[512];
    if (is_alone(trainer)) return MT_OK;
    uint64_t sent[MT_COMM_KINDS];
    for (int kind = 0; kind < MT_COMM_KINDS; kind++)
        sent[kind] = mt_comm_sent_of(trainer->comm, (enum mt_comm_kind)kind) - trainer->sent_before[kind];
    uint64_t rest = sent[MT_COMM_BROADCAST] + sent[MT_COMM_HAND_OVER]; // saving, more than anything
    int64_t steps = (int64_t)(sent[MT_COMM_SUM] + sent[MT_COMM_EXCHANGE] + sent[MT_COMM_GATHER]);
    mt_comm_sum_i64(trainer->comm, &steps, 1);
    (void)snprintf(
        text, sizeof text,
        "%d ranks, experts over %" PRId64 "; rank 0 holds %zu bytes of what is trainable, sent sums of "
        "%" PRIu64 " bytes, exchanges of %" PRIu64 ", gatherings of %" PRIu64 " (of all ranks %" PRId64
        ") and %" PRIu64 " besides, and waited %.3f s for gradients and values",
        mt_comm_size(trainer->comm), trainer->settings->expert_ranks, trainer->tensors.params->masters.bytes,
        sent[MT_COMM_SUM], sent[MT_COMM_EXCHANGE], sent[MT_COMM_GATHER], steps, rest,
        mt_gradient_sum_waited(trainer->gradient_sum));
    return mt_run_log_event(trainer->run_log, trainer->numbers.step, "ranks", text);
}

bool mt_trainer_writes(const struct mt_trainer *trainer)
{
    return mt_comm_rank(trainer->comm) == 0;
}

/* Asks and answers are many and short: together they are one span. */
static enum mt_status write_or_serve(struct mt_trainer *trainer, mt_trainer_writer *writer, const void *self)
{
    const struct mt_run_tensors *tensors = &trainer->tensors;
    if (mt_trainer_writes(trainer)) {
        enum mt_status status = writer(trainer, self);
        mt_shards_release(tensors->params);
        return status;
    }
    // The neighbours of the rank that writes have the other experts; whoever else shares some, the same.
    bool asked =
        trainer->expert_comm != NULL && mt_comm_rank(trainer->comm) == mt_comm_rank(trainer->expert_comm);
    if (!asked) return MT_OK;
    return mt_trainer_fail_alone(trainer, mt_shards_serve(tensors->params));
}

enum mt_status mt_trainer_write(struct mt_trainer *trainer, mt_trainer_writer *writer, const void *self)
{
    double began = mt_timeline_now(trainer->timeline);
    mt_comm_set_timeline(trainer->comm, NULL);
    enum mt_status status = write_or_serve(trainer, writer, self);
    mt_comm_set_timeline(trainer->comm, trainer->timeline);
    mt_timeline_add(trainer->timeline, MT_SPAN_SAVE, -1, began);
    return status;
}

size_t mt_trainer_rounds(const struct mt_trainer *trainer, const struct mt_step *step)
{
    size_t ranks = (size_t)mt_comm_size(trainer->comm);
    return (step->micro_batches + ranks - 1) / ranks;
}

/* One token of padding: nothing is learned from it, but every layer is run. */
static void take_nothing(struct mt_batch *batch)
{
    static const int32_t zero[1] = {0};
    static const int32_t offsets[2] = {0, 1};
    batch->tokens = 1;
    batch->sequences = 1;
    batch->ids = zero;
    batch->labels = zero;
    batch->mask = zero;
    batch->offsets = offsets;
}

struct mt_round mt_trainer_round(const struct mt_trainer *trainer, const struct mt_batches *batches,
                                 const struct mt_step *step, size_t index, struct mt_batch *batch)
{
    size_t ranks = (size_t)mt_comm_size(trainer->comm);
    size_t rank = (size_t)mt_comm_rank(trainer->comm);
    struct mt_round round = {.first = index * ranks};
    round.count = step->micro_batches - round.first;
    if (round.count > ranks) round.count = ranks;
    round.last = round.first + round.count == step->micro_batches;
    round.idle = rank >= round.count;
    for (size_t i = 0; i < round.count; i++) {
        struct mt_batch other = {0};
        mt_batches_micro(batches, round.first + i, &other);
        round.tokens += other.tokens;
    }
    if (round.idle) take_nothing(batch);
    if (!round.idle) mt_batches_micro(batches, round.first + rank, batch);
    return round;
}

bool mt_trainer_takes_part(const struct mt_trainer *trainer, const struct mt_round *round)
{
    return !round->idle || has_global_terms(trainer) || trainer->expert_comm != NULL;
}

enum mt_status mt_trainer_share_losses(struct mt_trainer *trainer, const struct mt_rank_loss *own,
                                       enum mt_status status)
{
    struct mt_rank_loss mine = *own;
    mine.failed = status == MT_OK ? 0.0 : 1.0;
    mt_comm_gather(trainer->comm, &mine, sizeof mine, trainer->losses);
    bool failed = false;
    bool met = false; // somebody's own loss is not a number
    for (int r = 0; r < mt_comm_size(trainer->comm); r++) {
        failed = failed || trainer->losses[r].failed != 0.0;
        met = met || !isfinite(trainer->losses[r].task);
    }
    if (!failed) return MT_OK;
    // Statistics carry it to every rank: the one that met it knows best.
    bool knows = !met || !isfinite(mine.task);
    return mt_comm_agree(trainer->comm, trainer->ctx, knows ? status : MT_OK);
}

enum mt_status mt_trainer_fail_alone(struct mt_trainer *trainer, enum mt_status status)
{
    return status == MT_OK ? MT_OK : mt_comm_abort(trainer->comm, trainer->ctx, status, stderr);
}

void mt_trainer_share_state(struct mt_trainer *trainer, const struct mt_round *round)
{
    size_t count = 0;
    if (is_alone(trainer) || trainer->tensors.objective == NULL || has_global_terms(trainer)) return;
    double *state = mt_objective_state(trainer->tensors.objective, &count);
    // What selection rules keep comes last, and is everybody's already.
    count -= (size_t)trainer->moe_layers *
             mt_selection_memory(&trainer->settings->objective, trainer->desc.experts);
    for (size_t i = 0; round->idle && i < count; i++) state[i] = 0.0;
    mt_comm_sum_f64(trainer->comm, state, count);
    for (size_t i = 0; i < count; i++) state[i] /= (double)round->count;
}

enum mt_status mt_trainer_share_watch(struct mt_trainer *trainer)
{
    if (is_alone(trainer)) return MT_OK;
    const struct mt_objective_reduction reduction = {.sum = sum_numbers, .self = trainer->comm};
    bool shared = has_global_terms(trainer);
    return mt_watch_share(trainer->watch, &reduction, shared, mt_comm_rank(trainer->comm) == 0);
}
