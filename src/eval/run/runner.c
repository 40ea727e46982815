/* Tasks from their first sample to their figures. */
#include "eval/run/runner.h"

#include <math.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/files/folder_lock.h"
#include "eval/judges/agreement.h"
#include "eval/run/runner_parts.h"

struct mt_text eval_text_of(const struct mt_byte_list *list)
{
    return (struct mt_text){.text = list->count > 0 ? (const char *)list->data : "", .bytes = list->count};
}

enum mt_status eval_check_folder(struct mt_context *ctx, const struct mt_eval_options *options)
{
    return options->held != NULL ? mt_folder_check(ctx, options->out, *options->held) : MT_OK;
}

enum mt_status eval_record(struct eval_run *run, size_t i, size_t answers, const struct mt_outcome *outcome)
{
    struct eval_batch *batch = &run->batch;
    const struct mt_sample *sample = &batch->samples[i];
    size_t first = i * batch->tries;
    for (size_t k = 0; k < answers; k++) {
        batch->texts[k] = eval_text_of(&batch->answers[first + k]);
        batch->texts[answers + k] = eval_text_of(&batch->found[first + k]);
    }
    struct mt_result_record line = {.number = batch->numbers[i],
                                    .id = sample->id,
                                    .prompt = eval_text_of(&sample->prompt),
                                    .target = eval_text_of(&sample->answer),
                                    .answers = batch->texts,
                                    .found = batch->texts + answers,
                                    .count = answers,
                                    .choosing = run->chooses ? &batch->choosing[i] : NULL,
                                    .outcome = *outcome};
    enum mt_status status = eval_check_folder(run->ctx, run->options);
    if (status == MT_OK) status = mt_sample_sum(run->ctx, sample, &line.content);
    if (status == MT_OK) status = mt_results_add(run->file, &line);
    if (status != MT_OK) return status;
    run->outcomes[batch->numbers[i]] = *outcome;
    run->done[batch->numbers[i]] = true;
    run->done_count++;
    return MT_OK;
}

// ------------------------------------------------------------------ one task

static enum mt_status open_run(struct eval_run *run)
{
    const struct mt_eval_options *options = run->options;
    void *memory[3] = {NULL};
    enum mt_status status = eval_check_folder(run->ctx, options);
    if (status == MT_OK) status = mt_task_data_open(run->ctx, run->task, options->data, &run->data);
    if (status == MT_OK) status = mt_grader_open(run->ctx, run->task, options->judge, &run->grader);
    if (status == MT_OK) status = mt_rank_progress_create(run->comm, run->ctx, &run->pulse);
    if (status != MT_OK) return status;
    run->count = mt_task_data_count(run->data);
    if (options->limit > 0 && (uint64_t)options->limit < run->count) run->count = (size_t)options->limit;
    status = mt_allocate_array(run->ctx, run->count, sizeof *run->outcomes, &memory[0]);
    if (status == MT_OK) status = mt_allocate_array(run->ctx, run->count, sizeof *run->done, &memory[1]);
    if (status == MT_OK) status = mt_allocate_array(run->ctx, run->count, sizeof *run->owner, &memory[2]);
    run->outcomes = memory[0];
    run->done = memory[1];
    run->owner = memory[2];
    return status == MT_OK ? eval_batch_open(run) : status;
}

static enum mt_status close_run(struct eval_run *run)
{
    enum mt_status status = mt_results_close(run->file);
    eval_batch_free(run);
    mt_release(run->ctx, run->outcomes, run->count * sizeof *run->outcomes);
    mt_release(run->ctx, run->done, run->count * sizeof *run->done);
    mt_release(run->ctx, run->owner, run->count * sizeof *run->owner);
    mt_rank_progress_free(run->pulse);
    mt_grader_free(&run->grader);
    mt_task_data_close(run->data);
    return status;
}

enum mt_status eval_take_over(struct eval_run *run)
{
    enum mt_status status = MT_OK;
    int64_t tries = run->chooses ? 1 : run->task->samples;
    if (mt_results_empty(run->file)) return MT_OK;
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        struct mt_sample *sample = &run->batch.samples[0];
        struct mt_digest_text content;
        struct mt_outcome outcome;
        if (run->done[i]) continue;
        status = mt_task_data_sample(run->data, i, sample);
        if (status == MT_OK) status = mt_sample_sum(run->ctx, sample, &content);
        if (status != MT_OK) break;
        bool found =
            mt_results_find(run->file, sample->id, eval_text_of(&sample->prompt), &content, &outcome);
        if (!found || outcome.tries != tries) continue;
        run->outcomes[i] = outcome;
        run->done[i] = true;
        run->done_count++;
    }
    return status;
}

static enum mt_status go_through(struct eval_run *run)
{
    struct eval_batch *batch = &run->batch;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < run->count && status == MT_OK && !run->stopped; i++) {
        if (!eval_is_own(run, i)) continue;
        status = mt_task_data_sample(run->data, i, &batch->samples[batch->count]);
        if (status != MT_OK) break;
        batch->numbers[batch->count++] = i;
        if (batch->count == batch->capacity) status = eval_batch_ask(run);
    }
    return status == MT_OK && !run->stopped ? eval_batch_ask(run) : status;
}

/* All of this rank's samples, then until the other ranks have theirs. */
static enum mt_status run_samples(struct eval_run *run)
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
    status = eval_wait_for_ranks(run, go_through(run));
    mt_progress_finish(&run->progress);
    return status;
}

static enum mt_status compute_metrics(const struct eval_run *run, struct mt_task_result *result)
{
    enum mt_status status = MT_OK;
    if (run->rank != 0 || result->stopped) return MT_OK;
    for (size_t i = 0; i < run->count; i++) result->unjudged += (size_t)run->outcomes[i].unjudged;
    if (result->unjudged > 0)
        mt_log_warning(run->options->log,
                       "task %s: %s as wrong, unjudged: a pattern of the task needs too much work on them",
                       run->task->name, mt_counted(result->unjudged, "answer counts", "answers count").text);
    for (size_t i = 0; i < run->task->metric_count && status == MT_OK; i++) {
        status = mt_metric_compute(run->ctx, run->task->metrics[i], mt_task_metric_k(run->task, i),
                                   run->outcomes, run->count, &result->metrics[i]);
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
    struct eval_run run = {
        .ctx = ctx, .options = options, .task = task, .comm = comm, .rank = mt_comm_rank(comm)};
    run.chooses = task->kind == MT_TASK_CHOOSE && options->answerer->score != NULL;
    result->skipped = is_missing(options, comm, task);
    if (result->skipped) return MT_OK;
    enum mt_status status = mt_comm_agree(comm, ctx, open_run(&run));
    if (status == MT_OK) status = eval_share_samples(&run);
    if (status == MT_OK) status = run_samples(&run);
    if (status == MT_OK) status = eval_join_samples(&run);
    if (status == MT_OK) {
        result->total = mt_task_data_count(run.data);
        result->done = run.done_count;
        result->kept = run.kept;
        result->stopped = run.done_count < run.count;
        status = mt_comm_agree(comm, ctx, compute_metrics(&run, result));
    }
    if (status == MT_OK) status = mt_comm_agree(comm, ctx, eval_check_folder(ctx, options));
    if (status == MT_OK && options->watcher != NULL)
        status = options->watcher->ended(options->watcher->self, result);
    enum mt_status closed = close_run(&run);
    return status == MT_OK ? closed : status;
}

/* One line: a family may lack most of its tasks. */
static void warn_of_missing(const struct mt_eval_options *options, const struct mt_task_result *results)
{
    size_t missing = 0;
    const char *first = "";
    for (size_t i = 0; i < options->task_count; i++) {
        if (!results[i].skipped) continue;
        if (missing == 0) first = options->tasks[i].name;
        missing++;
    }
    if (missing == 1) mt_log_warning(options->log, "task %s: no data, left out", first);
    if (missing > 1)
        mt_log_warning(options->log, "%zu tasks have no data and are left out: %s, ...", missing, first);
}

static enum mt_status write_summary(struct mt_context *ctx, const struct mt_eval_options *options,
                                    const struct mt_task_result *results, double seconds)
{
    enum mt_status status = eval_check_folder(ctx, options);
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
        results[i] =
            (struct mt_task_result){.task = &options->tasks[i], .stopped = true, .max_vio = (double)NAN};
    }
    for (size_t i = 0; i < options->task_count && status == MT_OK && !stopped; i++) {
        results[i].stopped = false;
        status = run_task(ctx, options, comm, &options->tasks[i], &results[i]);
        stopped = results[i].stopped;
    }
    if (status == MT_OK) warn_of_missing(options, results);
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
