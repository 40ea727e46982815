/*
 * One task in progress, of the runner (runner.h): samples that wait in a batch are asked, judged and written,
 * or judged again from the answers a folder has. Private to the two.
 */
#ifndef MT_EVAL_TASK_BATCH_H
#define MT_EVAL_TASK_BATCH_H

#include "base/arena.h"
#include "base/progress.h"
#include "comm/rank_progress.h"
#include "eval/answers/grade.h"
#include "eval/run/results.h"
#include "eval/run/summary.h"
#include "eval/run/task_judge.h"
#include "eval/tasks/task_data.h"

#define MT_BATCH_WHY_BYTES 512

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
    struct mt_question *questions;                  // [capacity]
    struct mt_answer_end *ends;                     // [capacity · tries]
    struct mt_byte_list *answers;                   // [capacity · tries]
    struct mt_byte_list *found;                     // [capacity · tries]: what was extracted
    struct mt_byte_list other[MT_MOST_FILTERS - 1]; // of the sample in hand: by the task's other filters
    struct mt_text *texts;                          // [3 · tries]
    // Programs, and answers a program judges; only of samples that were answered.
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
    struct mt_arena arena; // of the arrays
    struct mt_judged_by by;
    struct mt_results *file;     // rank 0: the task's; else a part of it
    size_t count;                // samples to do
    struct mt_outcome *outcomes; // [count]: by number, so that figures do not depend on who was first
    bool *old;                   // [count]: done before, but judged by somebody else
    bool *done;                  // [count]: before, or now by this rank
    int32_t *owner;              // [count]: the rank a sample is for; -1: done before
    size_t done_count, kept;
    bool any;                               // question was answered now
    size_t failed;                          // samples that got no answer now, of all ranks in the end
    char why[MT_BATCH_WHY_BYTES];           // of the first of them
    char problem[MT_COMMAND_PROBLEM_BYTES]; // the first the task's own judge had
    bool chooses;                           // scores choices instead of reading answers
    bool stopped;
    struct task_batch batch;
    struct mt_progress progress;
    double start;   // clock
    int64_t tokens; // computed in calls that are over
    int64_t latest; // in the call at hand
};

/* Refuses to go on in a folder that has become somebody else's: before anything is written there. */
enum mt_status mt_task_run_check_folder(struct mt_context *ctx, const struct mt_eval_options *options);

/* Tells everybody how this rank is getting on, and shows it. False: all come back now. */
bool mt_task_run_beat(struct task_run *run, bool finished, bool failed);

/* A batch for the task at hand; freed whatever it returned. */
enum mt_status mt_task_batch_open(struct task_run *run);
void mt_task_batch_free(struct task_batch *batch);

/* Asks what waits; answers are judged and written as they come. */
enum mt_status mt_task_batch_ask(struct task_run *run);

/*
 * Judges the samples that are `old` from the answers in the file: verdicts of another judge, of other rules
 * or another version of the task. Nothing is asked for them again. The new lines stand behind the old ones.
 */
enum mt_status mt_task_batch_judge_again(struct task_run *run);

#endif
