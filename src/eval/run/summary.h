/* An evaluation: what is asked of it, what came of each task, and the summary of all. */
#ifndef MT_EVAL_SUMMARY_H
#define MT_EVAL_SUMMARY_H

#include <stdio.h>

#include "base/log.h"
#include "comm/comm.h"
#include "eval/answerer.h"
#include "eval/tasks/task.h"
#include "text/text_form.h"

struct mt_task_result {
    const struct mt_task *task;
    const struct mt_text_form *form; // that its texts had; NULL: not known
    bool skipped;                    // no data
    bool stopped;                    // before all of its samples were done
    size_t total;                    // samples there are
    size_t done;                     // of them asked, now or before
    size_t kept;                     // of those, done before
    size_t failed;                   // got no answer: not done, and not in the figures
    size_t dropped;                  // rows of the file that are no samples: dropped_rows.h
    size_t unanswered_rows;          // of these, for want of a right answer
    size_t dropped_examples;         // rows left out of those that examples are drawn from
    size_t answers;                  // that were written
    size_t cut, empty, unclosed;     // of these: ended at the limit, say nothing, end within thoughts
    size_t cut_prompts;              // samples whose prompt was too long and lost its beginning
    size_t not_finite;               // log-likelihoods, whose choices are never taken
    size_t unscored;                 // samples that have no others: they count as wrong
    size_t unjudged;                 // answers whose judging took more work than allowed; they count as wrong
    struct mt_metric_result metrics[MT_TASK_MOST_FIGURES]; // [mt_task_figures]
    size_t in_form[MT_MOST_FILTERS]; // samples in whose first answer the filter found something
    double max_vio;                  // how unevenly experts were used, if somebody watched; else NaN
};

/*
 * Told of every task before its first question (of `samples` in its data, of which `kept` were done before),
 * whenever nothing that this rank asked is left open (`asked`: samples it answered since the last time), and
 * after the last answer of all; `ended` may add to the result, and its status is agreed on.
 */
struct mt_task_watcher {
    void *self; // borrowed
    enum mt_status (*began)(void *self, const struct mt_task *task, size_t samples, size_t kept);
    enum mt_status (*rested)(void *self, size_t asked);
    enum mt_status (*ended)(void *self, struct mt_task_result *result);
};

struct mt_eval_options {
    const struct mt_task *tasks;
    size_t task_count;
    const char *data; // folder of data
    const char *out;  // folder for samples_TASK.jsonl and results.json; must exist
    const int *held;  // `out`, as base/files/folder_lock.h holds it: the run ends when it becomes another;
                      // NULL: it is not
    const struct mt_answerer *answerer;
    const struct mt_code_judge *judge;     // NULL: tasks of programs are refused
    const struct mt_task_watcher *watcher; // NULL: none
    const struct mt_text_form *forms;      // [task_count]: of the texts of each; NULL: not known
    int64_t limit;                         // samples of a task at most; 0: all
    bool skip_missing;                     // tasks without data are left out, not refused
    size_t unmatched;                      // answers that match no question, for the summary
    bool (*stop)(void *self);              // asked often; true: stop. NULL: never
    // Told as often: how many of the task's samples are done. NULL: nobody is
    void (*progressed)(void *self, size_t done, size_t count);
    void *self;               // borrowed; handed to both
    FILE *terminal;           // progress; NULL: none
    const struct mt_log *log; // NULL: silent
    struct mt_comm *comm;     // the ranks that share the samples; NULL: alone
};

/* Writes OUT/results.json in lm-evaluation-harness's layout. */
enum mt_status mt_eval_write_summary(struct mt_context *ctx, const struct mt_eval_options *options,
                                     const struct mt_task_result *results, double seconds);

/* Says how many answers are missing or have no verdict; `why` and `problem` are of the first, or "". */
void mt_eval_warn_of_answers(const struct mt_log *log, const struct mt_task_result *result, const char *why,
                             const char *problem);

/*
 * The mean of what was asked for by one name, as a family or group: of the tasks' first metrics, each sample
 * weighing the same, with an interval. False: `first` is not the first of such tasks.
 */
bool mt_eval_group(const struct mt_task_result *results, size_t count, size_t first,
                   struct mt_metric_result *mean);

/* "exact_match", "pass@1", and of several filters "exact_match,strict-match": a figure of a task. Lives as
 * long as the buffer. */
const char *mt_eval_metric_label(const struct mt_task *task, size_t figure, char *text, size_t bytes);

#endif
