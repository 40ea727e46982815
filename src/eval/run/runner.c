/*
 * Tasks from their first sample to their figures: samples go through batches (task_batch.h); ranks share a
 * task's samples, tell each other how they are getting on, and bring what they wrote into one file.
 */
#include "eval/run/runner.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/folder_lock.h"
#include "eval/judges/agreement.h"
#include "eval/run/sample_parts.h"
#include "eval/run/task_batch.h"

#define ARENA_BYTES   ((size_t)1 << 16)
#define BYTES_A_TOKEN 4 // of an answer to come, beside the bytes of its prompt

static bool is_alone(const struct task_run *run)
{
    return mt_comm_size(run->comm) == 1;
}

/* After a rank's last answer: waits for the others. Agreed on; nobody has failed when it is MT_OK. */
static enum mt_status wait_for_ranks(struct task_run *run, enum mt_status status)
{
    bool failed = status != MT_OK;
    while (mt_task_run_beat(run, !failed && !run->stopped, failed)) mt_rank_progress_rest();
    return mt_comm_agree(run->comm, run->ctx, status);
}

// ------------------------------------------------------------------ among ranks

/* Marks samples that are in the file (`judged`: with a verdict); outcomes of those not marked yet. */
static enum mt_status take_over(struct task_run *run, bool judged)
{
    enum mt_status status = MT_OK;
    int64_t tries = run->chooses ? 1 : run->task->samples;
    if (mt_results_empty(run->file)) return MT_OK;
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        struct mt_task_sample *sample = &run->batch.samples[0];
        struct mt_digest_text content;
        struct mt_outcome outcome;
        if (run->done[i]) continue;
        status = mt_task_data_sample(run->data, i, sample);
        if (status == MT_OK) status = mt_sample_sum(run->ctx, sample, &content);
        if (status != MT_OK) break;
        bool found = mt_results_find(run->file, sample->id, mt_text_in(&sample->prompt), &content, &outcome);
        // A question whose judge gave no verdict is asked again; what nobody can judge here is done.
        bool unjudged = judged && isnan(outcome.score) && outcome.marks.count == 0;
        if (!found || outcome.tries != tries || unjudged) continue;
        struct mt_old_answers old;
        run->outcomes[i] = outcome;
        run->old[i] = mt_results_old(run->file, sample->id, mt_text_in(&sample->prompt), &old);
        if (run->old[i]) continue;
        run->done[i] = true;
        run->done_count++;
    }
    return status;
}

/* Opens what this rank writes to: the task's file, with what is in it, or a part that is not there yet. */
static enum mt_status open_file(struct task_run *run)
{
    const char *out = run->options->out;
    char path[MT_SAMPLE_PATH_BYTES];
    enum mt_status status = mt_sample_part_path(run->ctx, out, run->task->name, run->rank, path);
    return status == MT_OK ? mt_results_open(run->ctx, path, &run->by, &run->file) : status;
}

/* What is there already. Looked for first, so that the time left is that of the others. */
static enum mt_status find_old(struct task_run *run)
{
    if (run->rank != 0) return MT_OK;
    enum mt_status status = mt_sample_parts_collect(run->ctx, run->options->out, run->task->name);
    if (status == MT_OK) status = open_file(run);
    if (status == MT_OK) status = take_over(run, true);
    return status == MT_OK ? mt_task_batch_judge_again(run) : status;
}

/* About how long a sample takes, in bytes of text. */
static uint64_t size_of(const struct task_run *run, const struct mt_task_sample *sample)
{
    uint64_t size = sample->prompt.count + 1;
    if (run->chooses) return size + sample->choice_text.count;
    return size * (uint64_t)run->task->samples +
           BYTES_A_TOKEN * (uint64_t)run->task->max_tokens * (uint64_t)run->task->samples;
}

static enum mt_status make_shares(struct task_run *run)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(run->ctx, run->count, sizeof(uint64_t), &memory);
    uint64_t *sizes = memory;
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        struct mt_task_sample *sample = &run->batch.samples[0];
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
static enum mt_status compare_counts(struct task_run *run)
{
    int64_t of_first = (int64_t)run->count;
    mt_comm_broadcast(run->comm, &of_first, sizeof of_first, 0);
    if (of_first == (int64_t)run->count) return MT_OK;
    return mt_fail(run->ctx, MT_ERR_USAGE,
                   "task %s has %zu samples here and %" PRId64 " on rank 0: ranks must see the same data",
                   run->task->name, run->count, of_first);
}

/*
 * Between opening and the first question: what was done before, who does what, a file for every rank. Freed
 * with the run. Agreed on.
 */
static enum mt_status share_samples(struct task_run *run)
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

/* Outcomes of the other ranks, read from what they wrote. */
static enum mt_status learn_outcomes(struct task_run *run, size_t done_by_all)
{
    enum mt_status status = open_file(run);
    if (status == MT_OK) status = take_over(run, false);
    if (status != MT_OK || run->done_count == done_by_all) return status;
    return mt_fail(run->ctx, MT_ERR_IO,
                   "%s: ranks wrote %zu samples of task %s, but %zu are there: all ranks must see this "
                   "folder under the same path",
                   run->options->out, done_by_all, run->task->name, run->done_count);
}

/* Closes the files and brings them together; rank 0 then knows all outcomes. Agreed on. */
static enum mt_status join_samples(struct task_run *run)
{
    int64_t now = (int64_t)(run->done_count - run->kept);
    enum mt_status status = mt_results_close(run->file);
    run->file = NULL;
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status != MT_OK) return status;
    mt_comm_sum_i64(run->comm, &now, 1);
    size_t done_by_all = run->kept + (size_t)now;
    int64_t lost = (int64_t)run->failed;
    mt_comm_sum_i64(run->comm, &lost, 1);
    run->failed = (size_t)lost;
    if (run->rank == 0) status = mt_sample_parts_collect(run->ctx, run->options->out, run->task->name);
    if (status == MT_OK && run->rank == 0 && !is_alone(run)) status = learn_outcomes(run, done_by_all);
    run->done_count = done_by_all;
    return mt_comm_agree(run->comm, run->ctx, status);
}

// ------------------------------------------------------------------ one task

static enum mt_status open_run(struct task_run *run)
{
    const struct mt_eval_options *options = run->options;
    enum mt_status status = mt_task_run_check_folder(run->ctx, options);
    if (status == MT_OK) status = mt_task_data_open(run->ctx, run->task, options->data, &run->data);
    if (status == MT_OK) status = mt_grader_open(run->ctx, run->task, options->judge, &run->grader);
    if (status == MT_OK) status = mt_judged_by_find(run->ctx, run->task, run->chooses, &run->by);
    if (status == MT_OK) status = mt_rank_progress_create(run->comm, run->ctx, &run->ranks);
    if (status != MT_OK) return status;
    run->count = mt_task_data_count(run->data);
    if (run->rank == 0) status = mt_task_data_warn(run->data, options->log);
    if (status != MT_OK) return status;
    if (options->limit > 0 && (uint64_t)options->limit < run->count) run->count = (size_t)options->limit;
    if (run->task->most > 0 && (uint64_t)run->task->most < run->count) run->count = (size_t)run->task->most;
    run->outcomes = mt_arena_array(&run->arena, run->count, sizeof *run->outcomes, &status);
    run->done = mt_arena_array(&run->arena, run->count, sizeof *run->done, &status);
    run->old = mt_arena_array(&run->arena, run->count, sizeof *run->old, &status);
    run->owner = mt_arena_array(&run->arena, run->count, sizeof *run->owner, &status);
    return status == MT_OK ? mt_task_batch_open(run) : status;
}

static enum mt_status close_run(struct task_run *run)
{
    enum mt_status status = mt_results_close(run->file);
    mt_task_batch_free(&run->batch);
    mt_arena_free(&run->arena);
    mt_rank_progress_free(run->ranks);
    mt_grader_free(&run->grader);
    mt_task_data_close(run->data);
    return status;
}

static enum mt_status go_through(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < run->count && status == MT_OK && !run->stopped; i++) {
        bool own = !run->done[i] && (is_alone(run) || run->owner[i] == run->rank);
        if (!own) continue;
        status = mt_task_data_sample(run->data, i, &batch->samples[batch->count]);
        if (status != MT_OK) break;
        batch->numbers[batch->count++] = i;
        if (batch->count == batch->capacity) status = mt_task_batch_ask(run);
    }
    return status == MT_OK && !run->stopped ? mt_task_batch_ask(run) : status;
}

/* All of this rank's samples, then until the other ranks have theirs. */
static enum mt_status run_samples(struct task_run *run)
{
    const struct mt_task_watcher *watcher = run->options->watcher;
    size_t samples = mt_task_data_count(run->data);
    enum mt_status status =
        watcher != NULL ? watcher->began(watcher->self, run->task, samples, run->kept) : MT_OK;
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status != MT_OK) return status;
    const struct mt_progress_options shown = {.stream = run->options->terminal,
                                              .label = run->task->name,
                                              .unit = "samples",
                                              .total = (int64_t)run->count,
                                              .done = (int64_t)run->kept};
    run->start = mt_clock_seconds();
    mt_progress_start(&run->progress, &shown);
    status = go_through(run);
    if (run->options->answerer->rest != NULL)
        status = run->options->answerer->rest(run->options->answerer->self, status);
    status = wait_for_ranks(run, status);
    mt_progress_finish(&run->progress);
    return status;
}

/* The outcomes become those by another filter. */
static void take_filter(struct task_run *run, size_t count, size_t filter)
{
    for (size_t i = 0; i < count; i++) run->outcomes[i].score = run->outcomes[i].other[filter - 1];
}

static void count_answers(const struct task_run *run, const struct mt_outcome *outcome,
                          struct mt_task_result *result)
{
    if (!run->chooses) result->answers += (size_t)outcome->tries;
    result->cut += (size_t)outcome->cut;
    result->empty += (size_t)outcome->empty;
    result->unclosed += (size_t)outcome->unclosed;
    result->unjudged += (size_t)outcome->unjudged;
    result->cut_prompts += (size_t)outcome->cut_prompts;
    result->not_finite += (size_t)outcome->not_finite;
    result->unscored += outcome->not_finite > 0 && isnan(outcome->predicted) ? 1 : 0;
    for (size_t f = 0; f < MT_MOST_FILTERS; f++) result->in_form[f] += outcome->found >> f & 1u;
}

/* Of the samples that were answered. */
static enum mt_status compute_metrics(struct task_run *run, struct mt_task_result *result)
{
    enum mt_status status = MT_OK;
    size_t count = 0;
    if (run->rank != 0 || result->stopped) return MT_OK;
    for (size_t i = 0; i < run->count; i++) {
        if (!run->done[i]) continue;
        const struct mt_outcome *one = &run->outcomes[i];
        count_answers(run, one, result);
        if (!isnan(one->score) || one->marks.count > 0) run->outcomes[count++] = *one;
    }
    mt_eval_warn_of_answers(run->options->log, result, run->why, run->problem);
    for (size_t i = 0; i < mt_task_figures(run->task) && status == MT_OK; i++) {
        size_t metric = i % run->task->metric_count;
        if (i > 0 && metric == 0) take_filter(run, count, i / run->task->metric_count);
        status = mt_metric_compute(run->ctx, run->task->metrics[metric], mt_task_metric_k(run->task, metric),
                                   run->outcomes, count, &result->metrics[i]);
    }
    return status;
}

/* True when no data of the task is there, as rank 0 sees it. */
static bool is_missing(const struct mt_eval_options *options, struct mt_comm *comm,
                       const struct mt_task *task)
{
    unsigned char missing = options->skip_missing && !mt_task_data_exists(task, options->data);
    mt_comm_broadcast(comm, &missing, sizeof missing, 0);
    return missing != 0;
}

static enum mt_status run_task(struct mt_context *ctx, const struct mt_eval_options *options,
                               struct mt_comm *comm, const struct mt_task *task,
                               struct mt_task_result *result)
{
    struct task_run run = {
        .ctx = ctx, .options = options, .task = task, .comm = comm, .rank = mt_comm_rank(comm)};
    mt_arena_init(&run.arena, ctx, ARENA_BYTES);
    if (result->form != NULL) run.form = result->form->name;
    run.chooses = task->kind == MT_TASK_CHOOSE && options->answerer->score != NULL;
    result->skipped = is_missing(options, comm, task);
    if (result->skipped) return MT_OK;
    enum mt_status status = mt_comm_agree(comm, ctx, open_run(&run));
    if (status == MT_OK) status = share_samples(&run);
    if (status == MT_OK) status = run_samples(&run);
    if (status == MT_OK) status = join_samples(&run);
    if (status == MT_OK) {
        result->total = mt_task_data_count(run.data);
        result->dropped = (size_t)mt_task_data_dropped(run.data, false)->count;
        result->unanswered_rows = (size_t)mt_task_data_dropped(run.data, false)->unanswered;
        result->dropped_examples = (size_t)mt_task_data_dropped(run.data, true)->count;
        result->done = run.done_count;
        result->kept = run.kept;
        result->failed = run.failed;
        result->stopped = run.done_count + run.failed < run.count;
        status = mt_comm_agree(comm, ctx, compute_metrics(&run, result));
    }
    if (status == MT_OK) status = mt_comm_agree(comm, ctx, mt_task_run_check_folder(ctx, options));
    if (status == MT_OK && options->watcher != NULL)
        status = options->watcher->ended(options->watcher->self, result);
    enum mt_status closed = close_run(&run);
    return status == MT_OK ? closed : status;
}

/* One line: a family may lack most of its tasks. Without any data there is nothing to report. */
static enum mt_status warn_of_missing(struct mt_context *ctx, const struct mt_eval_options *options,
                                      const struct mt_task_result *results)
{
    size_t missing = 0;
    const char *first = "";
    for (size_t i = 0; i < options->task_count; i++) {
        if (!results[i].skipped) continue;
        if (missing == 0) first = options->tasks[i].name;
        missing++;
    }
    if (missing == options->task_count)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: has no data for %s%s; no question was asked", options->data,
                       first, missing > 1 ? ", nor for any other of the tasks" : "");
    if (missing == 1) mt_log_warning(options->log, "task %s: no data, left out", first);
    if (missing > 1)
        mt_log_warning(options->log, "%zu tasks have no data and are left out: %s, ...", missing, first);
    return MT_OK;
}

static enum mt_status write_summary(struct mt_context *ctx, const struct mt_eval_options *options,
                                    const struct mt_task_result *results, double seconds)
{
    enum mt_status status = mt_task_run_check_folder(ctx, options);
    if (status == MT_OK) status = mt_eval_write_summary(ctx, options, results, seconds);
    return status == MT_OK ? mt_agreement_refresh(ctx, options->out) : status;
}

static enum mt_status run_tasks(struct mt_context *ctx, const struct mt_eval_options *options,
                                struct mt_comm *comm, struct mt_task_result *results)
{
    double start = mt_clock_seconds();
    enum mt_status status = MT_OK;
    bool stopped = false;
    for (size_t i = 0; i < options->task_count; i++) {
        results[i] = (struct mt_task_result){.task = &options->tasks[i],
                                             .form = options->forms != NULL ? &options->forms[i] : NULL,
                                             .stopped = true,
                                             .max_vio = (double)NAN};
    }
    for (size_t i = 0; i < options->task_count && status == MT_OK && !stopped; i++) {
        results[i].stopped = false;
        status = run_task(ctx, options, comm, &options->tasks[i], &results[i]);
        stopped = results[i].stopped;
    }
    if (status == MT_OK && !stopped) status = warn_of_missing(ctx, options, results);
    if (status != MT_OK || stopped) return status;
    if (mt_comm_rank(comm) == 0) status = write_summary(ctx, options, results, mt_clock_seconds() - start);
    return mt_comm_agree(comm, ctx, status);
}

enum mt_status mt_eval_run(struct mt_context *ctx, const struct mt_eval_options *options,
                           struct mt_task_result *results)
{
    struct mt_comm *own = NULL;
    if (options->comm != NULL) return run_tasks(ctx, options, options->comm, results);
    enum mt_status status = mt_comm_open_alone(ctx, &own);
    if (status == MT_OK) status = run_tasks(ctx, options, own, results);
    mt_comm_close(own);
    return status;
}
