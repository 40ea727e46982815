/*
 * Tasks from their first sample to their figures: a batch of samples is asked and judged; ranks share a
 * task's samples, tell each other how they are getting on, and bring what they wrote into one file.
 */
#include "eval/run/runner.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/amount.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/files/folder_lock.h"
#include "base/progress.h"
#include "comm/rank_progress.h"
#include "eval/answers/grade.h"
#include "eval/judges/agreement.h"
#include "eval/run/results.h"
#include "eval/run/sample_parts.h"
#include "eval/tasks/task_data.h"

#define ARENA_BYTES   ((size_t)1 << 16)
#define MOST_BATCH    4096
#define MOST_ANSWERS  1000000 // of one batch
#define MOST_FAILURES 20      // before the first answer: then something is wrong with all of them
#define FEW_ANSWERS   0.03    // a share of answers that end early which nobody is warned of
#define WHY_BYTES     512
#define BYTES_A_TOKEN 4 // of an answer to come, beside the bytes of its prompt

/* Samples that are asked together. Arrays that the task's kind has no use for are NULL. */
struct task_batch {
    struct mt_arena arena;          // of the arrays
    size_t capacity;                // samples
    size_t count;                   // that wait
    struct mt_task_sample *samples; // [capacity]
    size_t *numbers;                // [capacity]: of the samples in their task
    bool *answered;                 // [capacity]
    // Answers in writing; `tries` for each sample.
    size_t tries;
    struct mt_question *questions; // [capacity]
    struct mt_answer_end *ends;    // [capacity · tries]
    struct mt_byte_list *answers;  // [capacity · tries]
    struct mt_byte_list *found;    // [capacity · tries]: what was extracted
    struct mt_text *texts;         // [3 · tries]
    // Programs; only of the samples that were answered.
    struct mt_byte_list *programs;    // [capacity · tries · MT_TRIAL_PARTS]
    struct mt_code_trial *trials;     // [capacity · tries]
    struct mt_code_verdict *verdicts; // [capacity · tries]
    int64_t *unjudged; // [capacity]: of a sample's programs, those that could not be looked for
    // Choices.
    struct mt_choice_question *choosing;    // [capacity]
    struct mt_byte_list continuation_bytes; // of all samples, one after the other
    struct mt_text *continuations;          // [capacity · MT_SAMPLE_MOST_CHOICES]
    struct mt_choice_score *scores;         // [capacity · MT_SAMPLE_MOST_CHOICES]
};

/* One task in progress. */
struct task_run {
    struct mt_context *ctx;
    const struct mt_eval_options *options;
    const struct mt_task *task;
    const char *form;     // of its texts; NULL: not known
    struct mt_comm *comm; // borrowed
    int rank;
    struct mt_rank_progress *ranks;
    struct mt_task_data *data;
    struct mt_grader grader;
    struct mt_arena arena;       // of the arrays
    struct mt_results *file;     // rank 0: the task's; else a part of it
    size_t count;                // samples to do
    struct mt_outcome *outcomes; // [count]: by number, so that figures do not depend on who was first
    bool *done;                  // [count]: before, or now by this rank
    int32_t *owner;              // [count]: the rank a sample is for; -1: done before
    size_t done_count, kept;
    bool any;            // question was answered now
    size_t failed;       // samples that got no answer now, of all ranks in the end
    char why[WHY_BYTES]; // of the first of them
    bool chooses;        // scores choices instead of reading answers
    bool stopped;
    struct task_batch batch;
    struct mt_progress progress;
    double start;   // clock
    int64_t tokens; // computed in calls that are over
    int64_t latest; // in the call at hand
};

/* Refuses to go on in a folder that has become somebody else's: before anything is written there. */
static enum mt_status check_folder(struct mt_context *ctx, const struct mt_eval_options *options)
{
    return options->held != NULL ? mt_folder_check(ctx, options->out, *options->held) : MT_OK;
}

static bool is_alone(const struct task_run *run)
{
    return mt_comm_size(run->comm) == 1;
}

// ------------------------------------------------------------------ while it is answered

static void show(struct task_run *run)
{
    char rate[64];
    double seconds = mt_clock_seconds() - run->start;
    double tokens = mt_rank_progress_work(run->ranks);
    int64_t done = is_alone(run) ? (int64_t)(run->done_count - run->kept) : mt_rank_progress_done(run->ranks);
    mt_amount_rate(rate, sizeof rate, seconds > 0.0 ? tokens / seconds : 0.0, "tok");
    mt_progress_note(&run->progress, "%s", rate);
    mt_progress_update(&run->progress, (int64_t)run->kept + done);
    if (run->options->progressed != NULL)
        run->options->progressed(run->options->self, run->kept + (size_t)done, run->count);
}

/* Tells everybody how this rank is getting on, and shows it. False: all come back now. */
static bool beat(struct task_run *run, bool finished, bool failed)
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

/* After a rank's last answer: waits for the others. Agreed on; nobody has failed when it is MT_OK. */
static enum mt_status wait_for_ranks(struct task_run *run, enum mt_status status)
{
    bool failed = status != MT_OK;
    while (beat(run, !failed && !run->stopped, failed)) mt_rank_progress_rest();
    return mt_comm_agree(run->comm, run->ctx, status);
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

/* A batch for the task at hand; freed whatever it returned. */
static enum mt_status open_batch(struct task_run *run)
{
    struct task_batch *batch = &run->batch;
    struct mt_arena *arena = &batch->arena;
    size_t tries = run->chooses ? 1 : (size_t)run->task->samples;
    size_t capacity = run->options->answerer->batch;
    enum mt_status status = MT_OK;
    if (capacity < 1) capacity = 1;
    if (capacity > MOST_BATCH) capacity = MOST_BATCH;
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
    if (run->chooses) {
        size_t choices = capacity * MT_SAMPLE_MOST_CHOICES;
        batch->choosing = mt_arena_array(arena, capacity, sizeof *batch->choosing, &status);
        batch->continuations = mt_arena_array(arena, choices, sizeof *batch->continuations, &status);
        batch->scores = mt_arena_array(arena, choices, sizeof *batch->scores, &status);
        return status;
    }
    batch->questions = mt_arena_array(arena, capacity, sizeof *batch->questions, &status);
    batch->ends = mt_arena_array(arena, answers, sizeof *batch->ends, &status);
    if (!mt_grader_runs_programs(&run->grader)) return status;
    batch->programs = take_lists(arena, answers * MT_TRIAL_PARTS, &status);
    batch->trials = mt_arena_array(arena, answers, sizeof *batch->trials, &status);
    batch->verdicts = mt_arena_array(arena, answers, sizeof *batch->verdicts, &status);
    batch->unjudged = mt_arena_array(arena, capacity, sizeof *batch->unjudged, &status);
    return status;
}

static void free_batch(struct task_batch *batch)
{
    size_t answers = batch->capacity * batch->tries;
    for (size_t i = 0; batch->samples != NULL && i < batch->capacity; i++) mt_sample_free(&batch->samples[i]);
    free_lists(batch->answers, answers);
    free_lists(batch->found, answers);
    free_lists(batch->programs, answers * MT_TRIAL_PARTS);
    mt_byte_list_free(&batch->continuation_bytes);
    if (batch->capacity > 0) mt_arena_free(&batch->arena);
}

/* Counts how the sample's answers ended. What is behind a model's thoughts is what it says. */
static void count_ends(const struct task_batch *batch, size_t i, struct mt_outcome *outcome)
{
    outcome->cut = outcome->empty = outcome->unclosed = 0;
    for (size_t k = i * batch->tries; k < (i + 1) * batch->tries; k++) {
        const struct mt_answer_end *end = &batch->ends[k];
        struct mt_text text = mt_text_in(&batch->answers[k]);
        size_t thought = mt_text_find(text, 0, "</think>");
        bool thinking = mt_text_is_thinking(text) || (end->opened && thought == text.bytes);
        if (end->cut) outcome->cut++;
        if (thinking) outcome->unclosed++;
        for (; thought < text.bytes; thought = mt_text_find(text, 0, "</think>"))
            text = mt_text_from(text, thought + sizeof "</think>" - 1);
        if (!thinking && mt_text_trimmed(text).bytes == 0) outcome->empty++;
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
    bool failed = verdicts != NULL && outcome->passed < outcome->tries;
    struct mt_outcome counted = *outcome;
    if (!run->chooses) count_ends(batch, i, &counted);
    struct mt_result_record line = {.number = batch->numbers[i],
                                    .id = sample->id,
                                    .prompt = mt_text_in(&sample->prompt),
                                    .target = mt_text_in(&sample->answer),
                                    .answers = batch->texts,
                                    .found = batch->texts + answers,
                                    .count = answers,
                                    .why = failed ? batch->texts + 2 * answers : NULL,
                                    .choosing = run->chooses ? &batch->choosing[i] : NULL,
                                    .form = run->form,
                                    .outcome = counted};
    enum mt_status status = check_folder(run->ctx, run->options);
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
    run->stopped = !beat(run, false, false);
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
    return status == MT_OK ? record(run, i, batch->tries, NULL, &total) : status;
}

static enum mt_status judge_choice(struct task_run *run, size_t i)
{
    struct task_batch *batch = &run->batch;
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
    return status == MT_OK ? record(run, i, 1, NULL, &outcome) : status;
}

/* Programs wait until the call is over: they then run side by side. */
static enum mt_status answered(void *self, size_t i)
{
    struct task_run *run = self;
    run->batch.answered[i] = true;
    run->any = true;
    if (run->chooses) return judge_choice(run, i);
    return mt_grader_runs_programs(&run->grader) ? MT_OK : judge_written(run, i);
}

/* A sample without an answer: not recorded, so that the next start asks it again. */
static enum mt_status failed(void *self, size_t i, const char *why)
{
    struct task_run *run = self;
    if (run->failed == 0)
        (void)snprintf(run->why, sizeof run->why, "sample %.64s: %.400s", run->batch.samples[i].id, why);
    run->failed++;
    if (run->failed < MOST_FAILURES || run->any) return MT_OK;
    return mt_fail(run->ctx, MT_ERR_IO, "task %s: the first %zu questions all got no answer (%s)",
                   run->task->name, run->failed, run->why);
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
                                  &batch->found[at], parts, &unjudged);
        for (int part = 0; part < MT_TRIAL_PARTS; part++)
            batch->trials[*count].part[part] = mt_text_in(&parts[part]);
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
    const struct mt_code_verdict *verdicts = batch->verdicts;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        if (!batch->answered[i]) continue;
        struct mt_outcome outcome;
        mt_grade_passed(verdicts, batch->tries, &outcome);
        outcome.unjudged = batch->unjudged[i];
        status = record(run, i, batch->tries, verdicts, &outcome);
        verdicts += batch->tries;
    }
    return status;
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
        return mt_fail(run->ctx, MT_ERR_UNSUPPORTED, "task %s wants answers in writing, which %s cannot give",
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
    if (!mt_grader_runs_programs(&run->grader) || (status != MT_OK && status != MT_ERR_IO)) return status;
    // An endpoint that is gone has answered some: they are judged, and not asked again.
    char why[sizeof run->ctx->message];
    memcpy(why, run->ctx->message, sizeof why);
    enum mt_status judged = judge_programs(run);
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

static enum mt_status ask_to_choose(struct task_run *run, const struct mt_answer_listener *listener)
{
    struct task_batch *batch = &run->batch;
    const struct mt_answerer *answerer = run->options->answerer;
    enum mt_status status = MT_OK;
    size_t used = 0;
    batch->continuation_bytes.count = 0;
    for (size_t i = 0; i < batch->count && status == MT_OK; i++) {
        const struct mt_task_sample *sample = &batch->samples[i];
        batch->choosing[i] = (struct mt_choice_question){.task = run->task->name,
                                                         .id = sample->id,
                                                         .number = batch->numbers[i],
                                                         .prefix = mt_text_in(&sample->prompt),
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
    if (status == MT_OK) status = answerer->score(answerer->self, batch->choosing, batch->count, listener);
    return status;
}

/* Asks what waits; answers are judged and written as they come. */
static enum mt_status ask(struct task_run *run)
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
    status = check_folder(run->ctx, run->options);
    if (status != MT_OK) return status;
    return watcher->rested(watcher->self, asked);
}

// ------------------------------------------------------------------ among ranks

/* Marks samples that are in the file; outcomes of those that are not marked yet. */
static enum mt_status take_over(struct task_run *run)
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
        if (!found || outcome.tries != tries) continue;
        run->outcomes[i] = outcome;
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
    return status == MT_OK ? mt_results_open(run->ctx, path, &run->file) : status;
}

/* What is there already. Looked for first, so that the time left is that of the others. */
static enum mt_status find_old(struct task_run *run)
{
    if (run->rank != 0) return MT_OK;
    enum mt_status status = mt_sample_parts_collect(run->ctx, run->options->out, run->task->name);
    if (status == MT_OK) status = open_file(run);
    return status == MT_OK ? take_over(run) : status;
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
    if (status == MT_OK) status = take_over(run);
    if (status != MT_OK || run->done_count == done_by_all) return status;
    return mt_fail(run->ctx, MT_ERR_IO,
                   "%s: ranks have written %zu samples of task %s, %zu are there: all ranks must see this "
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
    enum mt_status status = check_folder(run->ctx, options);
    if (status == MT_OK) status = mt_task_data_open(run->ctx, run->task, options->data, &run->data);
    if (status == MT_OK) status = mt_grader_open(run->ctx, run->task, options->judge, &run->grader);
    if (status == MT_OK) status = mt_rank_progress_create(run->comm, run->ctx, &run->ranks);
    if (status != MT_OK) return status;
    run->count = mt_task_data_count(run->data);
    if (run->rank == 0) status = mt_task_data_warn(run->data, options->log);
    if (status != MT_OK) return status;
    if (options->limit > 0 && (uint64_t)options->limit < run->count) run->count = (size_t)options->limit;
    if (run->task->most > 0 && (uint64_t)run->task->most < run->count) run->count = (size_t)run->task->most;
    run->outcomes = mt_arena_array(&run->arena, run->count, sizeof *run->outcomes, &status);
    run->done = mt_arena_array(&run->arena, run->count, sizeof *run->done, &status);
    run->owner = mt_arena_array(&run->arena, run->count, sizeof *run->owner, &status);
    return status == MT_OK ? open_batch(run) : status;
}

static enum mt_status close_run(struct task_run *run)
{
    enum mt_status status = mt_results_close(run->file);
    free_batch(&run->batch);
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
        if (batch->count == batch->capacity) status = ask(run);
    }
    return status == MT_OK && !run->stopped ? ask(run) : status;
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
    status = wait_for_ranks(run, go_through(run));
    mt_progress_finish(&run->progress);
    return status;
}

static void warn_of_failed(const struct task_run *run)
{
    if (run->failed == 0) return;
    mt_log_warning(run->options->log,
                   "task %s: %s no answer, left out of the figures; the same command asks again%s%s",
                   run->task->name, mt_counted(run->failed, "question got", "questions got").text,
                   run->why[0] != '\0' ? "; the first, " : "", run->why);
}

/* One sentence of each kind of answer that says too little, if there are more than a few. */
static void warn_of_ends(const struct task_run *run, const struct mt_task_result *result)
{
    const struct mt_task *task = run->task;
    char cure[160];
    (void)snprintf(cure, sizeof cure,
                   "were cut at %lld tokens or for want of room: --max-new and --context give more",
                   (long long)task->max_tokens);
    const struct {
        size_t count;
        const char *what;
    } kinds[] = {
        {result->cut, cure},
        {result->unclosed, "end before the model's thinking does (no </think>): --max-new gives more room"},
        {result->empty, "are empty"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((double)kinds[i].count <= FEW_ANSWERS * (double)result->answers) continue;
        mt_log_warning(run->options->log, "task %s: %zu of %zu answers %s", task->name, kinds[i].count,
                       result->answers, kinds[i].what);
    }
}

static void count_answers(const struct task_run *run, size_t count, struct mt_task_result *result)
{
    for (size_t i = 0; i < count; i++) {
        const struct mt_outcome *outcome = &run->outcomes[i];
        if (!run->chooses) result->answers += (size_t)outcome->tries;
        result->cut += (size_t)outcome->cut;
        result->empty += (size_t)outcome->empty;
        result->unclosed += (size_t)outcome->unclosed;
        result->unjudged += (size_t)outcome->unjudged;
    }
    warn_of_ends(run, result);
}

/* Of the samples that were answered. */
static enum mt_status compute_metrics(struct task_run *run, struct mt_task_result *result)
{
    enum mt_status status = MT_OK;
    size_t count = 0;
    if (run->rank != 0 || result->stopped) return MT_OK;
    warn_of_failed(run);
    for (size_t i = 0; i < run->count; i++) {
        if (run->done[i]) run->outcomes[count++] = run->outcomes[i];
    }
    count_answers(run, count, result);
    if (result->unjudged > 0)
        mt_log_warning(run->options->log,
                       "task %s: %s as wrong, unjudged: a pattern of the task needs too much work on them",
                       run->task->name, mt_counted(result->unjudged, "answer counts", "answers count").text);
    for (size_t i = 0; i < run->task->metric_count && status == MT_OK; i++) {
        status = mt_metric_compute(run->ctx, run->task->metrics[i], mt_task_metric_k(run->task, i),
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
        result->dropped = (size_t)mt_task_data_dropped(run.data)->count;
        result->unanswered_rows = (size_t)mt_task_data_dropped(run.data)->unanswered;
        result->done = run.done_count;
        result->kept = run.kept;
        result->failed = run.failed;
        result->stopped = run.done_count + run.failed < run.count;
        status = mt_comm_agree(comm, ctx, compute_metrics(&run, result));
    }
    if (status == MT_OK) status = mt_comm_agree(comm, ctx, check_folder(ctx, options));
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
        return mt_fail(ctx, MT_ERR_USAGE, "%s: there is no data of %s%s; nothing was asked", options->data,
                       first, missing > 1 ? ", nor of any other of the tasks" : "");
    if (missing == 1) mt_log_warning(options->log, "task %s: no data, left out", first);
    if (missing > 1)
        mt_log_warning(options->log, "%zu tasks have no data and are left out: %s, ...", missing, first);
    return MT_OK;
}

static enum mt_status write_summary(struct mt_context *ctx, const struct mt_eval_options *options,
                                    const struct mt_task_result *results, double seconds)
{
    enum mt_status status = check_folder(ctx, options);
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
