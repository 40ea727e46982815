/* A task among ranks: who asks which samples, how all are getting on, and what they wrote as one file. */
#include <inttypes.h>

#include "base/amount.h"
#include "base/clock.h"
#include "eval/run/runner_parts.h"
#include "eval/run/sample_parts.h"
#include "eval/run/shares.h"

#define BYTES_A_TOKEN 4 // of an answer to come, beside the bytes of its prompt

static bool is_alone(const struct eval_run *run)
{
    return mt_comm_size(run->comm) == 1;
}

// ------------------------------------------------------------------ who asks what

bool eval_is_own(const struct eval_run *run, size_t sample)
{
    return !run->done[sample] && (is_alone(run) || run->owner[sample] == run->rank);
}

/* Opens what this rank writes to: the task's file, with what is in it, or a part that is not there yet. */
static enum mt_status open_file(struct eval_run *run)
{
    const char *out = run->options->out;
    char path[MT_SAMPLE_PATH_BYTES];
    enum mt_status status = mt_sample_part_path(run->ctx, out, run->task->name, run->rank, path);
    return status == MT_OK ? mt_results_open(run->ctx, path, &run->file) : status;
}

/* What is there already. Looked for first, so that the time left is that of the others. */
static enum mt_status find_old(struct eval_run *run)
{
    if (run->rank != 0) return MT_OK;
    enum mt_status status = mt_sample_parts_collect(run->ctx, run->options->out, run->task->name);
    if (status == MT_OK) status = open_file(run);
    return status == MT_OK ? eval_take_over(run) : status;
}

/* About how long a sample takes, in bytes of text. */
static uint64_t size_of(const struct eval_run *run, const struct mt_sample *sample)
{
    uint64_t size = sample->prompt.count + 1;
    if (run->chooses) return size + sample->choice_text.count;
    return size * (uint64_t)run->task->samples +
           BYTES_A_TOKEN * (uint64_t)run->task->max_tokens * (uint64_t)run->task->samples;
}

static enum mt_status make_shares(struct eval_run *run)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(run->ctx, run->count, sizeof(uint64_t), &memory);
    uint64_t *sizes = memory;
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        struct mt_sample *sample = &run->batch.samples[0];
        if (run->done[i]) continue;
        status = mt_task_data_sample(run->data, i, sample);
        if (status == MT_OK) sizes[i] = size_of(run, sample);
    }
    if (status == MT_OK)
        status = mt_shares_make(run->ctx, sizes, run->count, mt_comm_size(run->comm), run->owner);
    mt_release(run->ctx, memory, run->count * sizeof(uint64_t));
    return status;
}

/* Ranks that read other data would leave samples out, or ask them twice. */
static enum mt_status compare_counts(struct eval_run *run)
{
    int64_t of_first = (int64_t)run->count;
    mt_comm_broadcast(run->comm, &of_first, sizeof of_first, 0);
    if (of_first == (int64_t)run->count) return MT_OK;
    return mt_fail(run->ctx, MT_ERR_USAGE,
                   "task %s has %zu samples here and %" PRId64 " on rank 0: ranks must see the same data",
                   run->task->name, run->count, of_first);
}

enum mt_status eval_share_samples(struct eval_run *run)
{
    enum mt_status status = mt_comm_agree(run->comm, run->ctx, find_old(run));
    if (status == MT_OK) status = mt_comm_agree(run->comm, run->ctx, compare_counts(run));
    if (status != MT_OK) return status;
    int64_t kept = (int64_t)run->done_count;
    mt_comm_broadcast(run->comm, &kept, sizeof kept, 0);
    mt_comm_broadcast(run->comm, run->done, run->count * sizeof *run->done, 0);
    run->kept = (size_t)kept;
    run->done_count = run->kept;
    if (is_alone(run)) return MT_OK;
    status = make_shares(run);
    if (status == MT_OK && run->rank != 0) status = open_file(run);
    return mt_comm_agree(run->comm, run->ctx, status);
}

// ------------------------------------------------------------------ while it is answered

static void show(struct eval_run *run)
{
    char rate[64];
    double seconds = mt_clock_seconds() - run->start;
    double tokens = mt_rank_progress_work(run->pulse);
    int64_t done = is_alone(run) ? (int64_t)(run->done_count - run->kept) : mt_rank_progress_done(run->pulse);
    mt_amount_rate(rate, sizeof rate, seconds > 0.0 ? tokens / seconds : 0.0, "tok");
    mt_progress_note(&run->progress, "%s", rate);
    mt_progress_update(&run->progress, (int64_t)run->kept + done);
}

bool eval_beat(struct eval_run *run, bool finished, bool failed)
{
    const struct mt_eval_options *options = run->options;
    const struct mt_rank_progress_state mine = {.done = (int64_t)(run->done_count - run->kept),
                                                .work = (double)(run->tokens + run->latest),
                                                .finished = finished,
                                                .failed = failed,
                                                .stop = options->stop != NULL &&
                                                        options->stop(options->stop_self)};
    bool over = mt_rank_progress_update(run->pulse, &mine);
    show(run);
    return !over;
}

enum mt_status eval_wait_for_ranks(struct eval_run *run, enum mt_status status)
{
    bool failed = status != MT_OK;
    while (eval_beat(run, !failed && !run->stopped, failed)) mt_rank_progress_rest();
    return mt_comm_agree(run->comm, run->ctx, status);
}

// ------------------------------------------------------------------ one file

/* Outcomes of the other ranks, read from what they wrote. */
static enum mt_status learn_outcomes(struct eval_run *run, size_t done_by_all)
{
    enum mt_status status = open_file(run);
    if (status == MT_OK) status = eval_take_over(run);
    if (status != MT_OK || run->done_count == done_by_all) return status;
    return mt_fail(run->ctx, MT_ERR_IO,
                   "%s: ranks have written %zu samples of task %s, %zu are there: all ranks must see this "
                   "folder under the same path",
                   run->options->out, done_by_all, run->task->name, run->done_count);
}

enum mt_status eval_join_samples(struct eval_run *run)
{
    int64_t now = (int64_t)(run->done_count - run->kept);
    enum mt_status status = mt_results_close(run->file);
    run->file = NULL;
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status != MT_OK) return status;
    mt_comm_sum_i64(run->comm, &now, 1);
    size_t done_by_all = run->kept + (size_t)now;
    if (run->rank == 0) status = mt_sample_parts_collect(run->ctx, run->options->out, run->task->name);
    if (status == MT_OK && run->rank == 0 && !is_alone(run)) status = learn_outcomes(run, done_by_all);
    run->done_count = done_by_all;
    return mt_comm_agree(run->comm, run->ctx, status);
}
