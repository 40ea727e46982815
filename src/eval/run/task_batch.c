/* A batch of samples: asking, judging, writing down. */
#include "eval/run/task_batch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/files/folder_lock.h"
#include "eval/run/prefixes.h"

#define ARENA_BYTES   ((size_t)1 << 16)
#define MOST_BATCH    4096
#define MOST_LARGE    64      // samples whose rows are megabytes
#define MOST_ANSWERS  1000000 // of one batch
#define MOST_FAILURES 20      // before the first answer: then something is wrong with all of them

enum mt_status mt_task_run_check_folder(struct mt_context *ctx, const struct mt_eval_options *options)
{
    return options->held != NULL ? mt_folder_check(ctx, options->out, *options->held) : MT_OK;
}

static void show(struct task_run *run)
{
    char rate[64];
    double seconds = mt_clock_seconds() - run->start;
    double tokens = mt_rank_progress_work(run->ranks);
    int64_t done = mt_comm_size(run->comm) == 1 ? (int64_t)(run->done_count - run->kept)
                                                : mt_rank_progress_done(run->ranks);
    mt_amount_rate(rate, sizeof rate, seconds > 0.0 ? tokens / seconds : 0.0, "tok");
    mt_progress_note(&run->progress, "%s", rate);
    mt_progress_update(&run->progress, (int64_t)run->kept + done);
    if (run->options->progressed != NULL)
        run->options->progressed(run->options->self, run->kept + (size_t)done, run->count);
}

bool mt_task_run_beat(struct task_run *run, bool finished, bool failed)
{
    const struct mt_eval_options *options = run->options;
    const struct mt_rank_progress_state mine = {.done = (int64_t)(run->done_count - run->kept),
                                                .work = (double)(run->tokens + run->latest),
                                                .finished = finished,
                                                .failed = failed,
                                                .stop =
                                                    options->stop != NULL && options->stop(options->self)};
    bool over = mt_rank_progress_update(run->ranks, &mine);
    show(run);
    return !over;
}

// ------------------------------------------------------------------ the batch

/* Lists that can grow: empty, with their context. */
static struct mt_byte_list *take_lists(struct mt_arena *arena, size_t count, enum mt_status *status)
{
    struct mt_byte_list *lists = mt_arena_array(arena, count, sizeof *lists, status);
    for (size_t i = 0; lists != NULL && i < count; i++) lists[i].ctx = arena->ctx;
    return lists;
}

static void free_lists(struct mt_byte_list *lists, size_t count)
{
    for (size_t i = 0; lists != NULL && i < count; i++) mt_byte_list_free(&lists[i]);
}

/* True where answers wait until the call is over, and are judged side by side. */
static bool judges_later(const struct task_run *run)
{
    return mt_grader_runs_programs(&run->grader) || mt_grader_asks_command(&run->grader);
}

enum mt_status mt_task_batch_open(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    struct mt_arena *arena = &batch->arena;
    size_t tries = run->chooses ? 1 : (size_t)run->task->samples;
    size_t capacity = run->options->answerer->batch;
    enum mt_status status = MT_OK;
    if (capacity < 1) capacity = 1;
    size_t most = run->task->compare == MT_COMPARE_LIVECODEBENCH ? MOST_LARGE : MOST_BATCH;
    if (capacity > most) capacity = most;
    while (capacity > 1 && capacity * tries > MOST_ANSWERS) capacity /= 2;
    size_t answers = capacity * tries;
    *batch =
        (struct task_batch){.capacity = capacity, .tries = tries, .continuation_bytes = {.ctx = run->ctx}};
    mt_arena_init(arena, run->ctx, ARENA_BYTES);
    batch->samples = mt_arena_array(arena, capacity, sizeof *batch->samples, &status);
    for (size_t i = 0; status == MT_OK && i < capacity; i++) mt_sample_init(run->ctx, &batch->samples[i]);
    batch->numbers = mt_arena_array(arena, capacity, sizeof *batch->numbers, &status);
    batch->answered = mt_arena_array(arena, capacity, sizeof *batch->answered, &status);
    batch->texts = mt_arena_array(arena, 3 * tries, sizeof *batch->texts, &status);
    batch->answers = take_lists(arena, answers, &status);
    batch->found = take_lists(arena, answers, &status);
    for (size_t i = 0; i < MT_MOST_FILTERS - 1; i++) batch->other[i].ctx = run->ctx;
    if (run->chooses) {
        size_t choices = capacity * MT_SAMPLE_MOST_CHOICES;
        batch->choosing = mt_arena_array(arena, capacity, sizeof *batch->choosing, &status);
        batch->continuations = mt_arena_array(arena, choices, sizeof *batch->continuations, &status);
        batch->scores = mt_arena_array(arena, choices, sizeof *batch->scores, &status);
        return status;
    }
    batch->questions = mt_arena_array(arena, capacity, sizeof *batch->questions, &status);
    batch->ends = mt_arena_array(arena, answers, sizeof *batch->ends, &status);
    if (!judges_later(run)) return status;
    batch->verdicts = mt_arena_array(arena, answers, sizeof *batch->verdicts, &status);
    if (!mt_grader_runs_programs(&run->grader)) return status;
    batch->programs = take_lists(arena, answers * MT_TRIAL_PARTS, &status);
    batch->trials = mt_arena_array(arena, answers, sizeof *batch->trials, &status);
    batch->unjudged = mt_arena_array(arena, capacity, sizeof *batch->unjudged, &status);
    return status;
}

void mt_task_batch_free(struct task_batch *batch)
{
    size_t answers = batch->capacity * batch->tries;
    for (size_t i = 0; batch->samples != NULL && i < batch->capacity; i++) mt_sample_free(&batch->samples[i]);
    free_lists(batch->answers, answers);
    free_lists(batch->found, answers);
    free_lists(batch->other, MT_MOST_FILTERS - 1);
    free_lists(batch->programs, answers * MT_TRIAL_PARTS);
    mt_byte_list_free(&batch->continuation_bytes);
    if (batch->capacity > 0) mt_arena_free(&batch->arena);
}

/* Counts how the sample's answers ended. What is behind a model's thoughts is what it says. */
static void count_ends(const struct task_batch *batch, size_t i, struct mt_outcome *outcome)
{
    outcome->cut = outcome->empty = outcome->unclosed = outcome->cut_prompts = 0;
    for (size_t k = i * batch->tries; k < (i + 1) * batch->tries; k++) {
        const struct mt_answer_end *end = &batch->ends[k];
        struct mt_text text = mt_text_in(&batch->answers[k]);
        size_t thought = mt_text_find(text, 0, "</think>");
        bool thinking = mt_text_is_thinking(text) || (end->opened && thought == text.bytes);
        if (end->cut) outcome->cut++;
        if (end->prompt_cut) outcome->cut_prompts = 1;
        if (thinking) outcome->unclosed++;
        for (; thought < text.bytes; thought = mt_text_find(text, 0, "</think>"))
            text = mt_text_from(text, thought + sizeof "</think>" - 1);
        if (!thinking && mt_text_trimmed(text).bytes == 0) outcome->empty++;
    }
}

static void count_scores(const struct mt_choice_question *question, struct mt_outcome *outcome)
{
    for (size_t k = 0; k < question->count; k++) {
        if (!isfinite(question->scores[k].log_likelihood)) outcome->not_finite++;
        if (question->scores[k].prompt_cut) outcome->cut_prompts = 1;
    }
}

/*
 * Sample i of the batch is done: its line goes to the file. Answers: the first `answers` of the sample's;
 * their verdicts, where they are programs, else NULL.
 */
static enum mt_status record(struct task_run *run, size_t i, size_t answers,
                             const struct mt_code_verdict *verdicts, const struct mt_outcome *outcome)
{
    struct task_batch *batch = &run->batch;
    const struct mt_task_sample *sample = &batch->samples[i];
    size_t first = i * batch->tries;
    for (size_t k = 0; k < answers; k++) {
        batch->texts[k] = mt_text_in(&batch->answers[first + k]);
        batch->texts[answers + k] = mt_text_in(&batch->found[first + k]);
        batch->texts[2 * answers + k] = mt_text_of(verdicts != NULL ? verdicts[k].why : NULL);
    }
    bool failed = verdicts != NULL && (outcome->passed < outcome->tries || verdicts[0].why[0] != '\0');
    struct mt_text other[MT_MOST_FILTERS - 1];
    for (size_t k = 0; k < MT_MOST_FILTERS - 1; k++) other[k] = mt_text_in(&batch->other[k]);
    struct mt_outcome counted = *outcome;
    if (!run->chooses) count_ends(batch, i, &counted);
    if (run->chooses) count_scores(&batch->choosing[i], &counted);
    struct mt_result_record line = {.number = batch->numbers[i],
                                    .id = sample->id,
                                    .prompt = mt_text_in(&sample->prompt),
                                    .target = mt_text_in(&sample->answer),
                                    .answers = batch->texts,
                                    .found = batch->texts + answers,
                                    .count = answers,
                                    .filters = run->task->filters,
                                    .filter_count = run->chooses ? 1 : run->task->filter_count,
                                    .other = other,
                                    .why = failed ? batch->texts + 2 * answers : NULL,
                                    .choosing = run->chooses ? &batch->choosing[i] : NULL,
                                    .form = run->form,
                                    .outcome = counted};
    enum mt_status status = mt_task_run_check_folder(run->ctx, run->options);
    if (status == MT_OK) status = mt_sample_sum(run->ctx, sample, &line.content);
    if (status == MT_OK) status = mt_results_add(run->file, &line);
    if (status != MT_OK) return status;
    run->outcomes[batch->numbers[i]] = counted;
    run->done[batch->numbers[i]] = true;
    run->done_count++;
    return MT_OK;
}

static bool go_on(void *self, int64_t tokens)
{
    struct task_run *run = self;
    run->latest = tokens;
    run->stopped = !mt_task_run_beat(run, false, false);
    return !run->stopped;
}

/* All answers to one question: the first one's score counts. */
static enum mt_status judge_written(struct task_run *run, size_t i)
{
    struct task_batch *batch = &run->batch;
    struct mt_outcome total = {0};
    enum mt_status status = MT_OK;
    for (size_t k = 0; k < batch->tries && status == MT_OK; k++) {
        size_t at = i * batch->tries + k;
        struct mt_outcome one;
        status = mt_grade(&run->grader, &batch->samples[i], mt_text_in(&batch->answers[at]),
                          &batch->found[at], &one);
        if (k == 0) total = one;
        if (k > 0) total.passed += one.passed;
        if (k > 0) total.unjudged += one.unjudged;
    }
    total.tries = (int64_t)batch->tries;
    for (size_t f = 1; f < run->task->filter_count && status == MT_OK; f++) {
        struct mt_outcome one;
        status = mt_grade_filter(&run->grader, f, &batch->samples[i],
                                 mt_text_in(&batch->answers[i * batch->tries]), &batch->other[f - 1], &one);
        total.other[f - 1] = one.score;
        total.found |= one.found << f;
        total.unjudged += one.unjudged;
    }
    return status == MT_OK ? record(run, i, batch->tries, NULL, &total) : status;
}

static enum mt_status judge_choice(struct task_run *run, size_t i)
{
    struct task_batch *batch = &run->batch;
    const struct mt_choice_question *question = &batch->choosing[i];
    struct mt_outcome outcome;
    int best = mt_grade_likeliest(run->task, &batch->samples[i], question, &outcome);
    batch->answers[i].count = 0;
    batch->found[i].count = 0;
    enum mt_status status = MT_OK;
    if (best >= 0)
        status = mt_byte_list_append(&batch->answers[i], question->continuations[best].text,
                                     question->continuations[best].bytes);
    return status == MT_OK ? record(run, i, 1, NULL, &outcome) : status;
}

static enum mt_status answered(void *self, size_t i)
{
    struct task_run *run = self;
    run->batch.answered[i] = true;
    run->any = true;
    if (run->chooses) return judge_choice(run, i);
    return judges_later(run) ? MT_OK : judge_written(run, i);
}

/* A sample without an answer: not recorded, so that the next start asks it again. */
static enum mt_status failed(void *self, size_t i, const char *why)
{
    struct task_run *run = self;
    if (run->failed == 0)
        (void)snprintf(run->why, sizeof run->why, "sample %.64s: %.400s", run->batch.samples[i].id, why);
    run->failed++;
    if (run->failed < MOST_FAILURES || run->any) return MT_OK;
    return mt_fail(run->ctx, MT_ERR_IO, "task %s: none of the first %zu questions got an answer (%s)",
                   run->task->name, run->failed, run->why);
}

/* The samples whose answers were judged side by side. */
static enum mt_status record_judged(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    const struct mt_code_verdict *verdicts = batch->verdicts;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        if (!batch->answered[i]) continue;
        struct mt_outcome outcome;
        if (batch->unjudged == NULL) {
            mt_grade_command(verdicts, batch->tries, &outcome);
        } else {
            mt_grade_passed(verdicts, batch->tries, &outcome);
            outcome.unjudged = batch->unjudged[i];
        }
        status = record(run, i, batch->tries, verdicts, &outcome);
        verdicts += batch->tries;
    }
    return status;
}

/* The programs of one sample, written out as trials. */
static enum mt_status make_trials(struct task_run *run, size_t i, size_t *count)
{
    struct task_batch *batch = &run->batch;
    enum mt_status status = MT_OK;
    batch->unjudged[i] = 0;
    for (size_t k = 0; k < batch->tries && status == MT_OK; k++) {
        size_t at = i * batch->tries + k;
        struct mt_byte_list *parts = batch->programs + *count * MT_TRIAL_PARTS;
        int64_t unjudged = 0;
        for (int part = 0; part < MT_TRIAL_PARTS; part++) parts[part].count = 0;
        status = mt_grade_program(&run->grader, &batch->samples[i], mt_text_in(&batch->answers[at]),
                                  &batch->found[at], parts, &batch->trials[*count], &unjudged);
        batch->unjudged[i] += unjudged;
        ++*count;
    }
    return status;
}

static enum mt_status judge_programs(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    const struct mt_code_judge *judge = run->grader.judge;
    enum mt_status status = MT_OK;
    size_t count = 0;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        if (batch->answered[i]) status = make_trials(run, i, &count);
    }
    if (status == MT_OK && count > 0) status = judge->run(judge->self, batch->trials, count, batch->verdicts);
    return status == MT_OK ? record_judged(run) : status;
}

/* Hands the answers to the task's own judge, a program. */
static enum mt_status judge_by_command(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    const struct mt_answers_to_judge answers = {.grader = &run->grader,
                                                .samples = batch->samples,
                                                .answered = batch->answered,
                                                .count = batch->count,
                                                .tries = batch->tries,
                                                .answers = batch->answers,
                                                .found = batch->found,
                                                .verdicts = batch->verdicts};
    enum mt_status status = mt_task_judge_by_command(run->ctx, &answers, run->problem);
    return status == MT_OK ? record_judged(run) : status;
}

/* What waits for a judge of programs, or for the task's own. */
static enum mt_status judge_later(struct task_run *run)
{
    return mt_grader_asks_command(&run->grader) ? judge_by_command(run) : judge_programs(run);
}

// ------------------------------------------------------------------ asking

static enum mt_status ask_to_write(struct task_run *run, const struct mt_answer_listener *listener)
{
    struct task_batch *batch = &run->batch;
    const struct mt_answerer *answerer = run->options->answerer;
    const struct mt_answer_options options = {.max_tokens = run->task->max_tokens,
                                              .stop = run->task->stop,
                                              .samples = run->task->samples,
                                              .seed = run->task->seed};
    if (answerer->generate == NULL)
        return mt_fail(run->ctx, MT_ERR_UNSUPPORTED, "task %s needs written answers, which %s cannot give",
                       run->task->name, answerer->name);
    for (size_t i = 0; i < batch->count; i++) {
        batch->questions[i] = (struct mt_question){.task = run->task->name,
                                                   .id = batch->samples[i].id,
                                                   .number = batch->numbers[i],
                                                   .prompt = mt_text_in(&batch->samples[i].prompt),
                                                   .shared = batch->samples[i].shared,
                                                   .ends = batch->ends + i * batch->tries};
    }
    memset(batch->ends, 0, batch->capacity * batch->tries * sizeof *batch->ends);
    for (size_t i = 0; i < batch->capacity * batch->tries; i++) batch->answers[i].count = 0;
    enum mt_status status = answerer->generate(answerer->self, batch->questions, batch->count, &options,
                                               listener, batch->answers);
    if (!judges_later(run) || (status != MT_OK && status != MT_ERR_IO)) return status;
    // An endpoint that is gone has answered some: they are judged, and not asked again.
    char why[sizeof run->ctx->message];
    memcpy(why, run->ctx->message, sizeof why);
    enum mt_status judged = judge_later(run);
    if (judged != MT_OK || status == MT_OK) return judged;
    return mt_fail(run->ctx, status, "%s", why);
}

/* Writes out the continuations of sample i, which end up in continuation_bytes; texts get their sizes only.
 */
static enum mt_status render_choices(struct task_run *run, size_t i, struct mt_text *texts)
{
    struct task_batch *batch = &run->batch;
    const struct mt_task_sample *sample = &batch->samples[i];
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

/* The choices of the batch's samples, without scores. */
static enum mt_status set_choices(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    enum mt_status status = MT_OK;
    size_t used = 0;
    batch->continuation_bytes.count = 0;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        const struct mt_task_sample *sample = &batch->samples[i];
        batch->choosing[i] =
            (struct mt_choice_question){.task = run->task->name,
                                        .id = sample->id,
                                        .number = batch->numbers[i],
                                        .prefix = mt_text_in(&sample->prompt),
                                        .prefixes = sample->input_count > 0 ? sample->inputs : NULL,
                                        .shared = sample->shared,
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
    return status;
}

static enum mt_status ask_to_choose(struct task_run *run, const struct mt_answer_listener *listener)
{
    enum mt_status status = set_choices(run);
    if (status != MT_OK) return status;
    return mt_score_choices(run->ctx, run->options->answerer, run->batch.choosing, run->batch.count,
                            listener);
}

enum mt_status mt_task_batch_ask(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    const struct mt_answer_listener listener = {
        .self = run, .answered = answered, .failed = failed, .go_on = go_on};
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
    status = mt_task_run_check_folder(run->ctx, run->options);
    if (status != MT_OK) return status;
    return watcher->rested(watcher->self, asked);
}

// ------------------------------------------------------------------ answers that are there already

/* Puts the stored answers of sample i of the batch where new ones would be; false: they are not all there. */
static enum mt_status take_old_answers(struct task_run *run, size_t i, bool *whole)
{
    struct task_batch *batch = &run->batch;
    const struct mt_task_sample *sample = &batch->samples[i];
    const struct mt_outcome *before = &run->outcomes[batch->numbers[i]];
    struct mt_old_answers old;
    size_t wanted = run->chooses ? sample->choice_count : batch->tries;
    enum mt_status status = MT_OK;
    *whole = mt_results_old(run->file, sample->id, mt_text_in(&sample->prompt), &old) &&
             (run->chooses ? old.scores : old.answers) == wanted;
    for (size_t k = 0; *whole && k < wanted && status == MT_OK; k++) {
        size_t at = i * batch->tries + k;
        if (run->chooses) {
            batch->choosing[i].scores[k] = mt_old_score(&old, k);
            batch->choosing[i].scores[k].prompt_cut = before->cut_prompts > 0;
            continue;
        }
        const struct mt_text text = mt_old_answer(&old, k);
        batch->answers[at].count = 0;
        batch->ends[at].cut = (int64_t)k < before->cut;
        batch->ends[at].opened = (int64_t)k < before->unclosed;
        batch->ends[at].prompt_cut = before->cut_prompts > 0;
        status = mt_byte_list_append(&batch->answers[at], text.text, text.bytes);
    }
    return status;
}

/* The samples of the batch, from the answers the folder has. */
static enum mt_status judge_batch_again(struct task_run *run, size_t *judged)
{
    struct task_batch *batch = &run->batch;
    enum mt_status status = run->chooses ? set_choices(run) : MT_OK;
    memset(batch->answered, 0, batch->capacity * sizeof *batch->answered);
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        status = take_old_answers(run, i, &batch->answered[i]);
        if (status != MT_OK || !batch->answered[i]) continue;
        ++*judged;
        if (run->chooses) status = judge_choice(run, i);
        if (!run->chooses && !judges_later(run)) status = judge_written(run, i);
    }
    if (status == MT_OK && !run->chooses && judges_later(run)) status = judge_later(run);
    batch->count = 0;
    return status;
}

enum mt_status mt_task_batch_judge_again(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    enum mt_status status = MT_OK;
    size_t judged = 0;
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        if (!run->old[i]) continue;
        status = mt_task_data_sample(run->data, i, &batch->samples[batch->count]);
        batch->numbers[batch->count++] = i;
        if (status == MT_OK && batch->count == batch->capacity) status = judge_batch_again(run, &judged);
    }
    if (status == MT_OK && batch->count > 0) status = judge_batch_again(run, &judged);
    const char *before = mt_results_old_judge(run->file);
    size_t otherwise = mt_results_asked_otherwise(run->file);
    if (judged > 0)
        mt_log_warning(run->options->log, "task %s: the answers to %s are judged again, as %s (before: %s)",
                       run->task->name, mt_counted(judged, "question", "questions").text, run->by.judge,
                       before[0] != '\0' ? before : "nobody noted who judged them");
    if (otherwise > 0)
        mt_log_warning(run->options->log,
                       "task %s: %s in %s to another limit of tokens, other stop texts or other choices and "
                       "%s asked again",
                       run->task->name, mt_counted(otherwise, "answer was given", "answers were given").text,
                       run->options->out, otherwise == 1 ? "is" : "are");
    return status;
}
