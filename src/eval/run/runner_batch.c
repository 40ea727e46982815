/* Samples that wait for their answers: asking, judging. */
#include <math.h>
#include <string.h>

#include "eval/run/runner_parts.h"

#define MOST_BATCH   4096
#define MOST_ANSWERS 1000000 // of one batch

// ------------------------------------------------------------------ memory

static enum mt_status take(struct mt_context *ctx, size_t count, size_t bytes, enum mt_status before,
                           void **memory)
{
    *memory = NULL;
    return before == MT_OK ? mt_allocate_array(ctx, count, bytes, memory) : before;
}

/* Lists that can grow: empty, with their context. */
static enum mt_status take_lists(struct mt_context *ctx, size_t count, enum mt_status before,
                                 struct mt_byte_list **lists)
{
    void *memory = NULL;
    enum mt_status status = take(ctx, count, sizeof **lists, before, &memory);
    *lists = memory;
    for (size_t i = 0; memory != NULL && i < count; i++) (*lists)[i].ctx = ctx;
    return status;
}

static enum mt_status open_writing(struct eval_run *run, struct eval_batch *batch)
{
    struct mt_context *ctx = run->ctx;
    size_t answers = batch->capacity * batch->tries;
    void *memory[2];
    enum mt_status status = take(ctx, batch->capacity, sizeof *batch->questions, MT_OK, &memory[0]);
    batch->questions = memory[0];
    if (!mt_grader_runs_programs(&run->grader)) return status;
    status = take_lists(ctx, answers * MT_TRIAL_PARTS, status, &batch->programs);
    status = take(ctx, answers, sizeof *batch->trials, status, &memory[0]);
    status = take(ctx, answers, sizeof *batch->passed, status, &memory[1]);
    batch->trials = memory[0];
    batch->passed = memory[1];
    status = take(ctx, batch->capacity, sizeof *batch->unjudged, status, &memory[0]);
    batch->unjudged = memory[0];
    return status;
}

static enum mt_status open_choosing(struct eval_run *run, struct eval_batch *batch)
{
    struct mt_context *ctx = run->ctx;
    size_t choices = batch->capacity * MT_SAMPLE_MOST_CHOICES;
    void *memory[3];
    enum mt_status status = take(ctx, batch->capacity, sizeof *batch->choosing, MT_OK, &memory[0]);
    status = take(ctx, choices, sizeof *batch->continuations, status, &memory[1]);
    status = take(ctx, choices, sizeof *batch->scores, status, &memory[2]);
    batch->choosing = memory[0];
    batch->continuations = memory[1];
    batch->scores = memory[2];
    return status;
}

enum mt_status eval_batch_open(struct eval_run *run)
{
    struct mt_context *ctx = run->ctx;
    struct eval_batch *batch = &run->batch;
    size_t tries = run->chooses ? 1 : (size_t)run->task->samples;
    size_t capacity = run->options->answerer->batch;
    void *memory[3];
    if (capacity < 1) capacity = 1;
    if (capacity > MOST_BATCH) capacity = MOST_BATCH;
    while (capacity > 1 && capacity * tries > MOST_ANSWERS) capacity /= 2;
    *batch =
        (struct eval_batch){.capacity = capacity, .tries = tries, .continuation_bytes = {.ctx = run->ctx}};
    enum mt_status status = take(ctx, capacity, sizeof *batch->samples, MT_OK, &memory[0]);
    batch->samples = memory[0];
    for (size_t i = 0; batch->samples != NULL && i < capacity; i++) mt_sample_init(ctx, &batch->samples[i]);
    status = take(ctx, capacity, sizeof *batch->numbers, status, &memory[0]);
    status = take(ctx, capacity, sizeof *batch->answered, status, &memory[1]);
    status = take(ctx, 2 * tries, sizeof *batch->texts, status, &memory[2]);
    batch->numbers = memory[0];
    batch->answered = memory[1];
    batch->texts = memory[2];
    status = take_lists(ctx, capacity * tries, status, &batch->answers);
    status = take_lists(ctx, capacity * tries, status, &batch->found);
    if (status != MT_OK) return status;
    return run->chooses ? open_choosing(run, batch) : open_writing(run, batch);
}

static void free_lists(struct mt_context *ctx, struct mt_byte_list *lists, size_t count)
{
    for (size_t i = 0; lists != NULL && i < count; i++) mt_byte_list_free(&lists[i]);
    mt_release(ctx, lists, count * sizeof *lists);
}

void eval_batch_free(struct eval_run *run)
{
    struct mt_context *ctx = run->ctx;
    struct eval_batch *batch = &run->batch;
    size_t answers = batch->capacity * batch->tries;
    size_t choices = batch->capacity * MT_SAMPLE_MOST_CHOICES;
    if (batch->capacity == 0) return;
    for (size_t i = 0; batch->samples != NULL && i < batch->capacity; i++) mt_sample_free(&batch->samples[i]);
    mt_release(ctx, batch->samples, batch->capacity * sizeof *batch->samples);
    mt_release(ctx, batch->numbers, batch->capacity * sizeof *batch->numbers);
    mt_release(ctx, batch->answered, batch->capacity * sizeof *batch->answered);
    mt_release(ctx, batch->texts, 2 * batch->tries * sizeof *batch->texts);
    free_lists(ctx, batch->answers, answers);
    free_lists(ctx, batch->found, answers);
    free_lists(ctx, batch->programs, answers * MT_TRIAL_PARTS);
    mt_release(ctx, batch->questions, batch->capacity * sizeof *batch->questions);
    mt_release(ctx, batch->trials, answers * sizeof *batch->trials);
    mt_release(ctx, batch->passed, answers * sizeof *batch->passed);
    mt_release(ctx, batch->unjudged, batch->capacity * sizeof *batch->unjudged);
    mt_release(ctx, batch->choosing, batch->capacity * sizeof *batch->choosing);
    mt_release(ctx, batch->continuations, choices * sizeof *batch->continuations);
    mt_release(ctx, batch->scores, choices * sizeof *batch->scores);
    mt_byte_list_free(&batch->continuation_bytes);
    *batch = (struct eval_batch){0};
}

// ------------------------------------------------------------------ while it is answered

static bool go_on(void *self, int64_t tokens)
{
    struct eval_run *run = self;
    run->latest = tokens;
    run->stopped = !eval_beat(run, false, false);
    return !run->stopped;
}

/* All answers to one question: the first one's score counts. */
static enum mt_status judge_written(struct eval_run *run, size_t i)
{
    struct eval_batch *batch = &run->batch;
    struct mt_outcome total = {0};
    enum mt_status status = MT_OK;
    for (size_t k = 0; k < batch->tries && status == MT_OK; k++) {
        size_t at = i * batch->tries + k;
        struct mt_text answer = eval_text_of(&batch->answers[at]);
        struct mt_outcome one;
        status =
            mt_grade(&run->grader, &batch->samples[i], answer.text, answer.bytes, &batch->found[at], &one);
        if (k == 0) total = one;
        if (k > 0) total.passed += one.passed;
        if (k > 0) total.unjudged += one.unjudged;
    }
    total.tries = (int64_t)batch->tries;
    return status == MT_OK ? eval_record(run, i, batch->tries, &total) : status;
}

static enum mt_status judge_choice(struct eval_run *run, size_t i)
{
    struct eval_batch *batch = &run->batch;
    const struct mt_choice_question *question = &batch->choosing[i];
    int best = -1;
    for (size_t k = 0; k < question->count; k++) {
        double score = question->scores[k].log_likelihood;
        if (!isnan(score) && (best < 0 || score > question->scores[best].log_likelihood)) best = (int)k;
    }
    struct mt_outcome outcome;
    mt_grade_choice(&batch->samples[i], best, &outcome);
    batch->answers[i].count = 0;
    batch->found[i].count = 0;
    enum mt_status status = MT_OK;
    if (best >= 0)
        status = mt_byte_list_append(&batch->answers[i], question->continuations[best].text,
                                     question->continuations[best].bytes);
    return status == MT_OK ? eval_record(run, i, 1, &outcome) : status;
}

/* Programs wait until the call is over: they then run side by side. */
static enum mt_status answered(void *self, size_t i)
{
    struct eval_run *run = self;
    run->batch.answered[i] = true;
    if (run->chooses) return judge_choice(run, i);
    return mt_grader_runs_programs(&run->grader) ? MT_OK : judge_written(run, i);
}

/* The programs of one sample, written out as trials. */
static enum mt_status make_trials(struct eval_run *run, size_t i, size_t *count)
{
    struct eval_batch *batch = &run->batch;
    enum mt_status status = MT_OK;
    batch->unjudged[i] = 0;
    for (size_t k = 0; k < batch->tries && status == MT_OK; k++) {
        size_t at = i * batch->tries + k;
        struct mt_text answer = eval_text_of(&batch->answers[at]);
        struct mt_byte_list *parts = batch->programs + *count * MT_TRIAL_PARTS;
        int64_t unjudged = 0;
        for (int part = 0; part < MT_TRIAL_PARTS; part++) parts[part].count = 0;
        status = mt_grade_program(&run->grader, &batch->samples[i], answer.text, answer.bytes,
                                  &batch->found[at], parts, &unjudged);
        for (int part = 0; part < MT_TRIAL_PARTS; part++)
            batch->trials[*count].part[part] = eval_text_of(&parts[part]);
        batch->unjudged[i] += unjudged;
        ++*count;
    }
    return status;
}

static enum mt_status judge_programs(struct eval_run *run)
{
    struct eval_batch *batch = &run->batch;
    const struct mt_code_judge *judge = run->grader.judge;
    enum mt_status status = MT_OK;
    size_t count = 0;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        if (batch->answered[i]) status = make_trials(run, i, &count);
    }
    if (status == MT_OK && count > 0) status = judge->run(judge->self, batch->trials, count, batch->passed);
    const bool *passed = batch->passed;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        if (!batch->answered[i]) continue;
        struct mt_outcome outcome;
        mt_grade_passed(passed, batch->tries, &outcome);
        outcome.unjudged = batch->unjudged[i];
        passed += batch->tries;
        status = eval_record(run, i, batch->tries, &outcome);
    }
    return status;
}

// ------------------------------------------------------------------ asking

static enum mt_status ask_to_write(struct eval_run *run, const struct mt_answer_listener *listener)
{
    struct eval_batch *batch = &run->batch;
    const struct mt_answerer *answerer = run->options->answerer;
    const struct mt_answer_options options = {.max_tokens = run->task->max_tokens,
                                              .stop = run->task->stop,
                                              .samples = run->task->samples,
                                              .seed = run->task->seed};
    if (answerer->generate == NULL)
        return mt_fail(run->ctx, MT_ERR_UNSUPPORTED, "task %s wants answers in writing, which %s cannot give",
                       run->task->name, answerer->name);
    for (size_t i = 0; i < batch->count; i++) {
        batch->questions[i] = (struct mt_question){.task = run->task->name,
                                                   .id = batch->samples[i].id,
                                                   .number = batch->numbers[i],
                                                   .prompt = eval_text_of(&batch->samples[i].prompt)};
    }
    for (size_t i = 0; i < batch->capacity * batch->tries; i++) batch->answers[i].count = 0;
    enum mt_status status = answerer->generate(answerer->self, batch->questions, batch->count, &options,
                                               listener, batch->answers);
    if (status == MT_OK && mt_grader_runs_programs(&run->grader)) status = judge_programs(run);
    return status;
}

/* Writes out the continuations of sample i, which end up in continuation_bytes; texts get their sizes only.
 */
static enum mt_status render_choices(struct eval_run *run, size_t i, struct mt_text *texts)
{
    struct eval_batch *batch = &run->batch;
    const struct mt_sample *sample = &batch->samples[i];
    enum mt_status status = MT_OK;
    for (size_t k = 0; k < sample->choice_count && status == MT_OK; k++) {
        struct mt_prompt_names names = mt_sample_names(run->task, sample);
        names.choice = (int)k;
        size_t before = batch->continuation_bytes.count;
        status = mt_prompt_render(run->task->continuation, &sample->row, &names, &batch->continuation_bytes);
        texts[k] = (struct mt_text){.text = "", .bytes = batch->continuation_bytes.count - before};
    }
    return status;
}

static enum mt_status ask_to_choose(struct eval_run *run, const struct mt_answer_listener *listener)
{
    struct eval_batch *batch = &run->batch;
    const struct mt_answerer *answerer = run->options->answerer;
    enum mt_status status = MT_OK;
    size_t used = 0;
    batch->continuation_bytes.count = 0;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        const struct mt_sample *sample = &batch->samples[i];
        batch->choosing[i] = (struct mt_choice_question){.task = run->task->name,
                                                         .id = sample->id,
                                                         .number = batch->numbers[i],
                                                         .prefix = eval_text_of(&sample->prompt),
                                                         .continuations = batch->continuations + used,
                                                         .count = sample->choice_count,
                                                         .scores = batch->scores + used};
        status = render_choices(run, i, batch->continuations + used);
        used += sample->choice_count;
    }
    // The bytes no longer move.
    const char *at = (const char *)batch->continuation_bytes.data;
    for (size_t i = 0; i < used && status == MT_OK; i++) {
        batch->scores[i] = (struct mt_choice_score){.log_likelihood = NAN};
        if (batch->continuations[i].bytes == 0) continue;
        batch->continuations[i].text = at;
        at += batch->continuations[i].bytes;
    }
    if (status == MT_OK) status = answerer->score(answerer->self, batch->choosing, batch->count, listener);
    return status;
}

enum mt_status eval_batch_ask(struct eval_run *run)
{
    struct eval_batch *batch = &run->batch;
    const struct mt_answer_listener listener = {.self = run, .answered = answered, .go_on = go_on};
    if (batch->count == 0) return MT_OK;
    memset(batch->answered, 0, batch->capacity * sizeof *batch->answered);
    run->latest = 0;
    enum mt_status status = run->chooses ? ask_to_choose(run, &listener) : ask_to_write(run, &listener);
    run->tokens += run->latest;
    run->latest = 0;
    size_t asked = batch->count;
    batch->count = 0;
    const struct mt_task_watcher *watcher = run->options->watcher;
    if (status != MT_OK || run->stopped || watcher == NULL) return status;
    status = eval_check_folder(run->ctx, run->options);
    if (status != MT_OK) return status;
    return watcher->rested(watcher->self, asked);
}
