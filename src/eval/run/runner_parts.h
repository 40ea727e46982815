/* Between the files of the runner: a task in progress, and the batch of samples that wait for answers. */
#ifndef MT_EVAL_RUNNER_PARTS_H
#define MT_EVAL_RUNNER_PARTS_H

#include "base/progress.h"
#include "comm/rank_progress.h"
#include "eval/answers/grade.h"
#include "eval/run/results.h"
#include "eval/run/runner.h"
#include "eval/tasks/task_data.h"

/* Samples that are asked together. Arrays that the task's kind has no use for are NULL. */
struct eval_batch {
    size_t capacity;           // samples
    size_t count;              // that wait
    struct mt_sample *samples; // [capacity]
    size_t *numbers;           // [capacity]: of the samples in their task
    bool *answered;            // [capacity]
    // Answers in writing; `tries` for each sample.
    size_t tries;
    struct mt_question *questions; // [capacity]
    struct mt_byte_list *answers;  // [capacity · tries]
    struct mt_byte_list *found;    // [capacity · tries]: what was extracted
    struct mt_text *texts;         // [2 · tries]
    // Programs; only of the samples that were answered.
    struct mt_byte_list *programs; // [capacity · tries · MT_TRIAL_PARTS]
    struct mt_code_trial *trials;  // [capacity · tries]
    bool *passed;                  // [capacity · tries]
    int64_t *unjudged;             // [capacity]: of a sample's programs, those that could not be looked for
    // Choices.
    struct mt_choice_question *choosing;    // [capacity]
    struct mt_byte_list continuation_bytes; // of all samples, one after the other
    struct mt_text *continuations;          // [capacity · MT_SAMPLE_MOST_CHOICES]
    struct mt_choice_score *scores;         // the same
};

/* One task in progress. */
struct eval_run {
    struct mt_context *ctx;
    const struct mt_eval_options *options;
    const struct mt_task *task;
    struct mt_comm *comm; // borrowed
    int rank;
    struct mt_rank_progress *pulse;
    struct mt_task_data *data;
    struct mt_grader grader;
    struct mt_results *file;     // rank 0: the task's; else a part of it
    size_t count;                // samples to do
    struct mt_outcome *outcomes; // [count]: by number, so that figures do not depend on who was first
    bool *done;                  // [count]: before, or now by this rank
    int32_t *owner;              // [count]: the rank a sample is for; -1: done before
    size_t done_count, kept;
    bool chooses; // scores choices instead of reading answers
    bool stopped;
    struct eval_batch batch;
    struct mt_progress progress;
    double start;   // clock
    int64_t tokens; // computed in calls that are over
    int64_t latest; // in the call at hand
};

/* Refuses to go on in a folder that has become somebody else's: before anything is written there. */
enum mt_status eval_check_folder(struct mt_context *ctx, const struct mt_eval_options *options);

struct mt_text eval_text_of(const struct mt_byte_list *list);

/* A batch for the task at hand; freed whatever `open` returned. */
enum mt_status eval_batch_open(struct eval_run *run);
void eval_batch_free(struct eval_run *run);

/* True when the sample is there to be asked by this rank. */
bool eval_is_own(const struct eval_run *run, size_t sample);

/* Marks samples that are in the file; outcomes of those that are not marked yet. */
enum mt_status eval_take_over(struct eval_run *run);

/* Tells everybody how this rank is getting on, and shows it. False: all come back now. */
bool eval_beat(struct eval_run *run, bool finished, bool failed);

/*
 * Between opening and the first question: what was done before, who does what, a file for every rank. Freed
 * with the run. Agreed on.
 */
enum mt_status eval_share_samples(struct eval_run *run);

/* After a rank's last answer: waits for the others. Agreed on; nobody has failed when it is MT_OK. */
enum mt_status eval_wait_for_ranks(struct eval_run *run, enum mt_status status);

/* Closes the files and brings them together; rank 0 then knows all outcomes. Agreed on. */
enum mt_status eval_join_samples(struct eval_run *run);

/* Asks what waits; answers are judged and written as they come. */
enum mt_status eval_batch_ask(struct eval_run *run);

/* Sample i of the batch is done: its line goes to the file. Answers: the first `answers` of the sample's. */
enum mt_status eval_record(struct eval_run *run, size_t i, size_t answers, const struct mt_outcome *outcome);

#endif
