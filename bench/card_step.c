/*
 * How much longer a LoRA training step of a full-size model takes when gradients and values go over NCCL.
 *
 *     card_step DEVICE CONFIG.json FOLDER [tokens] [length] [rank] [rounds]
 *
 * FOLDER exists and may be empty: the weights are not needed (hollow_model.h). Steps are made in turns, alone
 * and with the one card sending to itself all that it would share with others: gradients while backward goes
 * on, values after the update. Before that gradients that were sent are held against those that were not, bit
 * by bit. METIER_NCCL names the library where it is not found.
 *
 * Started as several ranks (tests/comm/start-ranks), each with a FOLDER of its own, it does so with the cards
 * of all.
 *
 * With METIER_NCCL=.../nccl_double.so METIER_DOUBLE_LINK=GB/s this is rank 0 of 8 and the library stands in
 * for the others, behind links of that speed each way. What they send has no meaning: values are put back
 * after each step. Then the timeline says how many bytes of gradients were over when backward was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "comm/group.h"
#include "hollow_model.h"
#include "lora_step.h"
#include "median.h"
#include "metier/buffer.h"
#include "ops/streams.h"
#include "train/gradient_sum.h"
#include "train/optimizer.h"

enum { MOST_ROUNDS = 64, MOST_SPANS = 65536, RANKS = 8 };

/* One way of making a step: alone, or with what is sent. */
struct way {
    struct mt_optimizer optimizer;
    struct mt_gradient_sum *sum;
    double seconds[MOST_ROUNDS];
};

struct bench {
    struct mt_context *ctx;
    struct mt_device *device, *sender;
    struct mt_comm *comm;
    struct mt_model *model;
    struct step_batch packed;
    struct way alone, cards;
    struct way *now; // whose step it is
    struct mt_timeline *timeline;
    struct mt_buffer values; // of the masters at the beginning; empty: they stay as steps leave them
};

// ------------------------------------------------------------------ ranks that are not there

/* They say what this rank says, and nothing is sent but by the cards. */
static size_t no_bytes(int ranks)
{
    (void)ranks;
    return 1;
}

static int open_nothing(struct mt_context *ctx, int timeout, void *group)
{
    (void)ctx;
    (void)timeout;
    (void)group;
    return MT_OK;
}

static void close_nothing(void *group, bool all)
{
    (void)group;
    (void)all;
}

static int first(const void *group)
{
    (void)group;
    return 0;
}

static int all_ranks(const void *group)
{
    (void)group;
    return RANKS;
}

static void keep(void *group, void *data, size_t bytes, int root)
{
    (void)group;
    (void)data;
    (void)bytes;
    (void)root;
}

static void repeat(void *group, const void *mine, size_t bytes, void *all)
{
    (void)group;
    for (size_t r = 0; r < RANKS; r++) memmove((char *)all + r * bytes, mine, bytes);
}

static void pass(void *group)
{
    (void)group;
}

static void give_up(void *group, int exit_status)
{
    (void)group;
    _Exit(exit_status);
}

static const struct mt_transport absent = {.name = "nobody",
                                           .group_bytes = no_bytes,
                                           .request_bytes = no_bytes,
                                           .open = open_nothing,
                                           .close = close_nothing,
                                           .rank = first,
                                           .size = all_ranks,
                                           .host_ranks = all_ranks,
                                           .barrier = pass,
                                           .broadcast = keep,
                                           .gather = repeat,
                                           .abort = give_up};

static bool stands_in(void)
{
    return getenv("METIER_DOUBLE_LINK") != NULL;
}

static enum mt_status open_comm(struct bench *bench)
{
    enum mt_status status = stands_in() ? mt_comm_open_over(bench->ctx, &absent, &bench->comm)
                                        : mt_comm_open(bench->ctx, &bench->comm);
    return status == MT_OK ? mt_timeline_create(bench->ctx, MOST_SPANS, &bench->timeline) : status;
}

// ------------------------------------------------------------------ opening and closing

static enum mt_status layer_done(void *self, int64_t layer)
{
    const struct bench *bench = self;
    return mt_gradient_sum_layer_done(bench->now->sum, layer);
}

static enum mt_status bucket_moved(void *self, size_t bucket)
{
    return mt_gradient_sum_hand_round(self, bucket);
}

static enum mt_status open_way(struct bench *bench, struct mt_comm *comm, struct mt_device *sender,
                               struct way *way)
{
    const struct mt_optimizer_options adamw = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = 1.0};
    enum mt_status status = mt_optimizer_create(
        mt_model_params(bench->model), &(struct mt_gradient_groups){.all = comm}, &adamw, &way->optimizer);
    if (status == MT_OK) status = mt_gradient_sum_create(&way->optimizer.buckets, sender, &way->sum);
    way->optimizer.hook = (struct mt_bucket_hook){.moved = bucket_moved, .self = way->sum};
    return status;
}

static enum mt_status open_bench(struct bench *bench, const char *device, const char *config,
                                 const char *folder, const struct lora_step *step)
{
    bool shared = false;
    struct mt_objective_config method;
    enum mt_status status = open_comm(bench);
    if (status == MT_OK) status = hollow_model_write(bench->ctx, config, folder, &shared);
    const char *const adapted[] = {"attention", "router", "routed_experts", shared ? "shared_experts" : NULL,
                                   NULL};
    struct mt_model_options options = lora_step_options(step, adapted, &method);
    options.selection.lora_alpha = 4.0 * step->rank;
    if (status == MT_OK) status = mt_objective_config_method(bench->ctx, "paper", &method);
    if (status == MT_OK) status = mt_device_create(bench->ctx, device, 0, &bench->device);
    if (status != MT_OK) return status;
    options.activations = mt_device_activations(bench->device);
    status = mt_device_create_beside(bench->device, &bench->sender);
    if (status == MT_OK) status = mt_comm_use_cards_alone(bench->comm, mt_device_on_host(bench->device));
    if (status == MT_OK) status = mt_model_open(bench->device, folder, &options, &bench->model);
    if (status == MT_OK) status = hollow_model_fill(bench->model);
    if (status == MT_OK) status = open_way(bench, NULL, NULL, &bench->alone);
    if (status == MT_OK) status = open_way(bench, bench->comm, bench->sender, &bench->cards);
    if (status != MT_OK) return status;
    mt_model_set_layer_hook(bench->model, &(struct mt_layer_hook){.layer_done = layer_done, .self = bench});
    return step_batch_open(bench->ctx, step, &bench->packed);
}

static void close_way(struct way *way)
{
    mt_gradient_sum_free(way->sum);
    mt_optimizer_free(&way->optimizer);
}

static void close_bench(struct bench *bench)
{
    close_way(&bench->alone);
    close_way(&bench->cards);
    mt_buffer_release(&bench->values);
    mt_model_close(bench->model);
    mt_comm_close(bench->comm);
    mt_timeline_free(bench->timeline);
    mt_device_destroy(bench->sender);
    mt_device_destroy(bench->device);
    step_batch_close(bench->ctx, &bench->packed);
}

// ------------------------------------------------------------------ steps

static enum mt_status train(struct bench *bench, struct way *way)
{
    struct mt_model_loss loss;
    bench->now = way;
    enum mt_status status = mt_params_zero_gradients(mt_model_params(bench->model));
    if (status == MT_OK) status = mt_model_forward(bench->model, &bench->packed.batch, &loss);
    if (status == MT_OK) status = mt_model_backward(bench->model);
    struct mt_span *span = mt_timeline_reserve(mt_comm_timeline(bench->comm), MT_SPAN_WAIT, -1);
    if (status == MT_OK) status = mt_device_begin_span(bench->device, span);
    if (status == MT_OK) status = mt_gradient_sum_finish(way->sum);
    return status == MT_OK ? mt_device_end_span(bench->device, span) : status;
}

/* Values as they were. */
static enum mt_status put_back(struct bench *bench)
{
    struct mt_params *params = mt_model_params(bench->model);
    int64_t count = (int64_t)(bench->values.bytes / sizeof(float));
    if (count == 0) return MT_OK;
    enum mt_status status = mt_copy(
        bench->device, &(struct mt_copy_args){.x = mt_tensor_1d(bench->values.data, MT_F32, count),
                                              .y = mt_tensor_1d(params->masters.data, MT_F32, count)});
    if (status == MT_OK) status = mt_params_round(params);
    return status == MT_OK ? mt_device_synchronise(bench->device) : status;
}

static enum mt_status one_step(struct bench *bench, struct way *way, double *seconds)
{
    double norm = 0.0;
    bool clipped = false;
    mt_comm_barrier(bench->comm);
    double began = mt_clock_seconds();
    bench->packed.batch.step++;
    enum mt_status status = train(bench, way);
    if (status == MT_OK) status = mt_optimizer_norm(&way->optimizer, &norm);
    if (status == MT_OK)
        status = mt_optimizer_step(&way->optimizer, bench->packed.batch.step, 1e-5, norm, &clipped);
    if (status == MT_OK) status = mt_gradient_sum_take_values(way->sum);
    if (status == MT_OK) status = mt_device_synchronise(bench->device);
    *seconds = mt_clock_seconds() - began;
    return status == MT_OK ? put_back(bench) : status;
}

/* The same pass in both ways: what was sent is what was there. */
static enum mt_status compare_ways(struct bench *bench)
{
    const struct mt_buffer *gradients = &mt_model_params(bench->model)->gradients;
    struct mt_buffer alone = {0};
    struct mt_buffer sent = {0};
    enum mt_status status = mt_buffer_create(bench->ctx, gradients->bytes, &alone);
    if (status == MT_OK) status = mt_buffer_create(bench->ctx, gradients->bytes, &sent);
    if (status == MT_OK) status = train(bench, &bench->alone);
    if (status == MT_OK)
        status = mt_device_download(bench->device, alone.data, gradients->data, gradients->bytes);
    if (status == MT_OK) status = train(bench, &bench->cards);
    if (status == MT_OK)
        status = mt_device_download(bench->device, sent.data, gradients->data, gradients->bytes);
    if (status == MT_OK && memcmp(alone.data, sent.data, gradients->bytes) != 0)
        status = mt_fail(bench->ctx, MT_ERR_NUMERIC, "gradients that were sent are not what they were");
    if (status == MT_OK) printf("%zu bytes of gradients, the same when sent\n", gradients->bytes);
    mt_buffer_release(&alone);
    mt_buffer_release(&sent);
    return status;
}

/* Before anything has moved the values. */
static enum mt_status keep_values(struct bench *bench)
{
    const struct mt_buffer *masters = &mt_model_params(bench->model)->masters;
    if (!stands_in()) return MT_OK;
    enum mt_status status = mt_device_buffer_create(bench->device, masters->bytes, &bench->values);
    if (status != MT_OK) return status;
    int64_t count = (int64_t)(masters->bytes / sizeof(float));
    return mt_copy(bench->device,
                   &(struct mt_copy_args){.x = mt_tensor_1d(masters->data, MT_F32, count),
                                          .y = mt_tensor_1d(bench->values.data, MT_F32, count)});
}

/* Of the gradients' bytes, those whose sums were there when backward was over. */
static double share_in_time(const struct bench *bench)
{
    const struct mt_buckets *buckets = &bench->cards.optimizer.buckets;
    const struct mt_timeline *timeline = bench->timeline;
    double over = 0.0;
    size_t in_time = 0;
    for (size_t i = 0; i < timeline->count; i++)
        if (timeline->spans[i].kind == MT_SPAN_WAIT) over = timeline->spans[i].begin;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct mt_span *span = &timeline->spans[i];
        if (span->kind == MT_SPAN_SUM && span->end <= over) in_time += buckets->list[span->number].count;
    }
    return (double)in_time / (double)buckets->summed;
}

/* Steps with a timeline, which costs a little itself. */
static enum mt_status measure_overlap(struct bench *bench, int rounds)
{
    double shares[MOST_ROUNDS];
    double seconds[MOST_ROUNDS];
    struct mt_overlap last = {0};
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < rounds; i++) {
        mt_timeline_begin(bench->timeline);
        mt_comm_set_timeline(bench->comm, bench->timeline);
        status = one_step(bench, &bench->cards, &seconds[i]);
        mt_comm_set_timeline(bench->comm, NULL);
        shares[i] = share_in_time(bench);
        last = mt_timeline_overlap(bench->timeline->spans, bench->timeline->count);
    }
    if (status != MT_OK) return status;
    double share = bench_median(shares, rounds);
    if (mt_device_on_host(bench->device))
        printf("on the host every op is over when the next begins, so this is no measure:\n");
    printf(
        "timeline: %.2f %% of the gradients' bytes were added up before backward was over (the least of %d "
        "steps: %.2f %%); in the last step sums were under way for %.4f s, and waited for %.4f s; a step "
        "took %.4f s\n",
        100.0 * share, rounds, 100.0 * shares[0], last.under_way, last.waited, bench_median(seconds, rounds));
    return MT_OK;
}

static enum mt_status time_turns(struct bench *bench, const struct lora_step *step)
{
    double ratios[MOST_ROUNDS];
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < step->rounds; i++) {
        status = one_step(bench, &bench->alone, &bench->alone.seconds[i]);
        if (status == MT_OK) status = one_step(bench, &bench->cards, &bench->cards.seconds[i]);
        ratios[i] = bench->cards.seconds[i] / bench->alone.seconds[i];
    }
    if (status != MT_OK) return status;
    double alone = bench_median(bench->alone.seconds, step->rounds);
    double sent = bench_median(bench->cards.seconds, step->rounds);
    double tokens = (double)step->tokens * mt_comm_size(bench->comm);
    printf("a step of %" PRId64 " tokens: alone %.4f s, over NCCL %.4f s; the median ratio is %.4f\n",
           step->tokens, alone, sent, bench_median(ratios, step->rounds));
    if (!stands_in())
        printf("all ranks: alone %.0f tokens/s, over NCCL %.0f tokens/s\n", tokens / alone, tokens / sent);
    return MT_OK;
}

static enum mt_status run(struct bench *bench, const struct lora_step *step)
{
    uint64_t vocabulary = (uint64_t)mt_model_description(bench->model)->vocabulary;
    uint64_t stream = 3 + (uint64_t)mt_comm_rank(bench->comm);
    double warm = 0.0;
    for (int64_t i = 0; i < 2 * step->tokens; i++)
        bench->packed.ids[i] = (int32_t)mt_rng_below(1, stream, (uint64_t)i, vocabulary);
    // Rank 0 speaks for all.
    if (mt_comm_rank(bench->comm) > 0 && freopen("/dev/null", "w", stdout) == NULL)
        return mt_fail(bench->ctx, MT_ERR_IO, "cannot be silent");
    printf("%s; rank 0 of %d; %zu buckets\n", mt_device_description(bench->device), mt_comm_size(bench->comm),
           bench->cards.optimizer.buckets.count);
    enum mt_status status = keep_values(bench);
    if (status == MT_OK) status = one_step(bench, &bench->alone, &warm); // libraries start, memory is touched
    if (status == MT_OK) status = one_step(bench, &bench->cards, &warm);
    if (status == MT_OK && mt_comm_size(bench->comm) == 1) status = compare_ways(bench);
    if (status == MT_OK) status = time_turns(bench, step);
    return status == MT_OK ? measure_overlap(bench, step->rounds) : status;
}

static int64_t number_at(int argc, char *const *argv, int place, int64_t otherwise)
{
    return argc > place ? strtoll(argv[place], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct bench bench = {.ctx = &ctx};
    if (argc < 4) {
        (void)fprintf(stderr,
                      "usage: card_step DEVICE CONFIG.json FOLDER [tokens] [length] [rank] [rounds]\n");
        return 2;
    }
    const struct lora_step step = {.tokens = number_at(argc, argv, 4, 16384),
                                   .length = number_at(argc, argv, 5, 512),
                                   .rank = (int)number_at(argc, argv, 6, 32),
                                   .rounds = (int)number_at(argc, argv, 7, 5)};
    if (step.rounds < 1 || step.rounds > MOST_ROUNDS || step.length < 1) return 2;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    mt_context_init(&ctx, NULL);
    enum mt_status status = open_bench(&bench, argv[1], argv[2], argv[3], &step);
    if (status == MT_OK) status = run(&bench, &step);
    if (status != MT_OK && bench.comm != NULL) status = mt_comm_abort(bench.comm, &ctx, status, stderr);
    if (status != MT_OK) (void)fprintf(stderr, "card_step: %s\n", ctx.message);
    close_bench(&bench);
    return status == MT_OK ? 0 : 1;
}
