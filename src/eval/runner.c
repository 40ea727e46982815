/* Tasks, batches, answers. */
#include "eval/runner.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "eval/agreement.h"
#include "eval/grade.h"
#include "eval/results.h"

#define PATH_BYTES   4096
#define MOST_BATCH   4096
#define MOST_ANSWERS 1000000 // of one batch

/* One task in progress. */
struct run {
    struct mt_context *ctx;
    const struct mt_eval_options *options;
    const struct mt_task *task;
    struct mt_task_data *data;
    struct mt_grader grader;
    struct mt_results *file;
    struct mt_outcome *outcomes; // [outcome_capacity]
    size_t outcome_count, outcome_capacity;
    // A batch: samples that wait for their answers.
    struct mt_sample *samples; // [batch]
    size_t *numbers;           // [batch]
    struct mt_question *questions;
    struct mt_byte_list *answers; // [batch · samples]
    struct mt_byte_list *found;   // the same
    struct mt_text *texts;        // [2 · samples]
    size_t batch, waiting, answer_count;
    size_t kept;
    struct mt_progress progress;
};

static struct mt_text text_of(const struct mt_byte_list *list)
{
    return (struct mt_text){.text = list->count > 0 ? (const char *)list->data : "", .bytes = list->count};
}

static enum mt_status add_outcome(struct run *run, const struct mt_outcome *outcome)
{
    void *memory = run->outcomes;
    enum mt_status status = mt_list_reserve(run->ctx, &memory, &run->outcome_capacity, sizeof *run->outcomes,
                                            run->outcome_count + 1);
    run->outcomes = memory;
    if (status == MT_OK) run->outcomes[run->outcome_count++] = *outcome;
    return status;
}

// ------------------------------------------------------------------ judging

static enum mt_status record(struct run *run, size_t i, const struct mt_outcome *outcome, size_t count)
{
    const struct mt_sample *sample = &run->samples[i];
    size_t first = i * (size_t)run->task->samples;
    for (size_t k = 0; k < count; k++) {
        run->texts[k] = text_of(&run->answers[first + k]);
        run->texts[count + k] = text_of(&run->found[first + k]);
    }
    struct mt_result_record line = {.number = run->numbers[i],
                                    .id = sample->id,
                                    .prompt = text_of(&sample->prompt),
                                    .target = text_of(&sample->answer),
                                    .answers = run->texts,
                                    .found = run->texts + count,
                                    .count = count,
                                    .outcome = *outcome};
    enum mt_status status = mt_results_add(run->file, &line);
    return status == MT_OK ? add_outcome(run, outcome) : status;
}

/* All answers to one question: the first one's score counts, all count for pass@k. */
static enum mt_status judge_written(struct run *run, size_t i)
{
    struct mt_outcome total = {0};
    size_t samples = (size_t)run->task->samples;
    enum mt_status status = MT_OK;
    for (size_t k = 0; k < samples && status == MT_OK; k++) {
        struct mt_byte_list *answer = &run->answers[i * samples + k];
        struct mt_outcome one;
        status = mt_grade(&run->grader, &run->samples[i], answer->count > 0 ? (const char *)answer->data : "",
                          answer->count, &run->found[i * samples + k], &one);
        if (k == 0) total = one;
        if (k > 0) total.passed += one.passed;
    }
    total.tries = (int64_t)samples;
    return status == MT_OK ? record(run, i, &total, samples) : status;
}

static enum mt_status ask_to_write(struct run *run)
{
    const struct mt_answer_options options = {.max_tokens = run->task->max_tokens,
                                              .stop = run->task->stop,
                                              .samples = run->task->samples,
                                              .seed = run->task->seed};
    for (size_t i = 0; i < run->waiting; i++) {
        run->questions[i] = (struct mt_question){
            .task = run->task->name, .id = run->samples[i].id, .prompt = text_of(&run->samples[i].prompt)};
    }
    for (size_t i = 0; i < run->answer_count; i++) run->answers[i].count = 0;
    const struct mt_answerer *answerer = run->options->answerer;
    enum mt_status status =
        answerer->generate(answerer->self, run->questions, run->waiting, &options, run->answers);
    for (size_t i = 0; i < run->waiting && status == MT_OK; i++) status = judge_written(run, i);
    return status;
}

/* The choice with the highest log-likelihood of sample i. */
static enum mt_status choose(struct run *run, size_t i)
{
    const struct mt_answerer *answerer = run->options->answerer;
    const struct mt_sample *sample = &run->samples[i];
    struct mt_scoring requests[MT_SAMPLE_MOST_CHOICES];
    struct mt_byte_list texts[MT_SAMPLE_MOST_CHOICES];
    double scores[MT_SAMPLE_MOST_CHOICES] = {0};
    enum mt_status status = MT_OK;
    for (size_t k = 0; k < sample->choice_count; k++) texts[k] = (struct mt_byte_list){.ctx = run->ctx};
    for (size_t k = 0; k < sample->choice_count && status == MT_OK; k++) {
        struct mt_prompt_names names = mt_sample_names(run->task, sample);
        names.choice = (int)k;
        status = mt_prompt_render(run->task->continuation, &sample->row, &names, &texts[k]);
        requests[k] = (struct mt_scoring){.task = run->task->name,
                                          .id = sample->id,
                                          .prefix = text_of(&sample->prompt),
                                          .continuation = text_of(&texts[k])};
    }
    if (status == MT_OK) status = answerer->score(answerer->self, requests, sample->choice_count, scores);
    int best = -1;
    for (size_t k = 0; k < sample->choice_count; k++) {
        if (!isnan(scores[k]) && (best < 0 || scores[k] > scores[best])) best = (int)k;
    }
    struct mt_outcome outcome;
    mt_grade_choice(sample, best, &outcome);
    size_t slot = i * (size_t)run->task->samples;
    run->answers[slot].count = run->found[slot].count = 0;
    if (status == MT_OK && best >= 0)
        status = mt_byte_list_append(&run->answers[slot], texts[best].data, texts[best].count);
    if (status == MT_OK) status = record(run, i, &outcome, 1);
    for (size_t k = 0; k < sample->choice_count; k++) mt_byte_list_free(&texts[k]);
    return status;
}

static enum mt_status ask(struct run *run)
{
    const struct mt_answerer *answerer = run->options->answerer;
    enum mt_status status = MT_OK;
    if (run->waiting == 0) return MT_OK;
    if (run->task->kind == MT_TASK_CHOOSE && answerer->score != NULL) {
        for (size_t i = 0; i < run->waiting && status == MT_OK; i++) status = choose(run, i);
    } else if (answerer->generate != NULL) {
        status = ask_to_write(run);
    } else {
        status =
            mt_fail(run->ctx, MT_ERR_UNSUPPORTED, "task %s wants answers in writing, which %s cannot give",
                    run->task->name, answerer->name);
    }
    run->waiting = 0;
    mt_progress_update(&run->progress, (int64_t)run->outcome_count);
    return status;
}

// ------------------------------------------------------------------ one task

static enum mt_status open_batch(struct run *run)
{
    size_t samples = (size_t)run->task->samples;
    size_t batch = run->options->answerer->batch;
    if (batch < 1) batch = 1;
    if (batch > MOST_BATCH) batch = MOST_BATCH;
    while (batch > 1 && batch * samples > MOST_ANSWERS) batch /= 2;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(run->ctx, batch, sizeof *run->samples, &memory);
    if (status != MT_OK) return status;
    run->samples = memory;
    run->batch = batch;
    for (size_t i = 0; i < batch; i++) mt_sample_init(run->ctx, &run->samples[i]);
    status = mt_allocate_array(run->ctx, batch, sizeof *run->numbers, &memory);
    if (status != MT_OK) return status;
    run->numbers = memory;
    status = mt_allocate_array(run->ctx, batch, sizeof *run->questions, &memory);
    if (status != MT_OK) return status;
    run->questions = memory;
    status = mt_allocate_array(run->ctx, 2 * samples, sizeof *run->texts, &memory);
    if (status != MT_OK) return status;
    run->texts = memory;
    status = mt_allocate_array(run->ctx, 2 * batch * samples, sizeof *run->answers, &memory);
    if (status != MT_OK) return status;
    run->answers = memory;
    run->answer_count = batch * samples;
    run->found = run->answers + run->answer_count;
    for (size_t i = 0; i < 2 * run->answer_count; i++) run->answers[i].ctx = run->ctx;
    return MT_OK;
}

static void close_batch(struct run *run)
{
    size_t samples = (size_t)run->task->samples;
    for (size_t i = 0; i < 2 * run->answer_count; i++) mt_byte_list_free(&run->answers[i]);
    mt_release(run->ctx, run->answers, 2 * run->answer_count * sizeof *run->answers);
    mt_release(run->ctx, run->texts, 2 * samples * sizeof *run->texts);
    mt_release(run->ctx, run->questions, run->batch * sizeof *run->questions);
    mt_release(run->ctx, run->numbers, run->batch * sizeof *run->numbers);
    for (size_t i = 0; run->samples != NULL && i < run->batch; i++) mt_sample_free(&run->samples[i]);
    mt_release(run->ctx, run->samples, run->batch * sizeof *run->samples);
}

static enum mt_status open_run(struct run *run)
{
    char path[PATH_BYTES];
    int written = snprintf(path, sizeof path, "%s/samples_%s.jsonl", run->options->out, run->task->name);
    if (written < 0 || (size_t)written >= sizeof path)
        return mt_fail(run->ctx, MT_ERR_USAGE, "the path of the results is too long");
    enum mt_status status = mt_task_data_open(run->ctx, run->task, run->options->data, &run->data);
    if (status == MT_OK) status = mt_grader_open(run->ctx, run->task, run->options->judge, &run->grader);
    if (status == MT_OK) status = mt_results_open(run->ctx, path, &run->file);
    return status == MT_OK ? open_batch(run) : status;
}

/* Every sample in order: done before, or into the batch. */
static enum mt_status go_through(struct run *run, size_t count)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_sample *sample = &run->samples[run->waiting];
        struct mt_outcome outcome;
        status = mt_task_data_sample(run->data, i, sample);
        if (status != MT_OK) break;
        if (mt_results_find(run->file, sample->id, text_of(&sample->prompt), &outcome)) {
            run->kept++;
            status = add_outcome(run, &outcome);
            continue;
        }
        run->numbers[run->waiting++] = i;
        if (run->waiting == run->batch) status = ask(run);
    }
    return status == MT_OK ? ask(run) : status;
}

static enum mt_status run_task(struct mt_context *ctx, const struct mt_eval_options *options,
                               const struct mt_task *task, struct mt_task_result *result)
{
    struct run run = {.ctx = ctx, .options = options, .task = task};
    *result = (struct mt_task_result){.task = task};
    if (options->skip_missing && !mt_task_data_exists(task, options->data)) {
        result->skipped = true;
        return MT_OK;
    }
    enum mt_status status = open_run(&run);
    if (status == MT_OK) {
        size_t count = mt_task_data_count(run.data);
        result->total = count;
        if (options->limit > 0 && (uint64_t)options->limit < count) count = (size_t)options->limit;
        const struct mt_progress_options shown = {
            .stream = options->terminal, .label = task->name, .unit = "samples", .total = (int64_t)count};
        mt_progress_start(&run.progress, &shown);
        status = go_through(&run, count);
        mt_progress_update(&run.progress, (int64_t)run.outcome_count);
        mt_progress_finish(&run.progress);
    }
    result->done = run.outcome_count;
    result->kept = run.kept;
    for (size_t i = 0; i < task->metric_count && status == MT_OK; i++) {
        status = mt_metric_compute(ctx, task->metrics[i], task->pass_k, run.outcomes, run.outcome_count,
                                   &result->metrics[i]);
    }
    enum mt_status closed = mt_results_close(run.file);
    if (status == MT_OK) status = closed;
    close_batch(&run);
    mt_release(ctx, run.outcomes, run.outcome_capacity * sizeof *run.outcomes);
    mt_grader_free(&run.grader);
    mt_task_data_close(run.data);
    return status;
}

enum mt_status mt_eval_run(struct mt_context *ctx, const struct mt_eval_options *options,
                           struct mt_task_result *results)
{
    double start = mt_clock_seconds();
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < options->task_count && status == MT_OK; i++) {
        status = run_task(ctx, options, &options->tasks[i], &results[i]);
        if (status == MT_OK && results[i].skipped)
            mt_log_warning(options->log, "task %s: no data, left out", options->tasks[i].name);
    }
    if (status == MT_OK) status = mt_eval_write_summary(ctx, options, results, mt_clock_seconds() - start);
    if (status == MT_OK) status = mt_agreement_refresh(ctx, options->out);
    return status;
}
