/*
 * Progress over all cells of a comparison, with the time left. Steps of training, measuring and the questions
 * of every benchmark take different times: what each kind took so far says what those still to do will take.
 */
#ifndef MT_COMPARE_BAR_H
#define MT_COMPARE_BAR_H

#include "base/progress.h"
#include "compare/compare.h"

/* What is done of one kind. */
struct mt_compare_work {
    int64_t left; // items still to do, in all cells
    int64_t done; // in this process
    double seconds;
};

enum { MT_WORK_STEPS, MT_WORK_MEASURING, MT_WORK_TASKS }; // the first task's kind, then one for each

#define MT_COMPARE_MOST_WORK (MT_WORK_TASKS + MT_COMPARE_MOST_TASKS)

struct mt_compare_bar {
    struct mt_progress progress;
    const struct mt_comparison *comparison; // borrowed
    struct mt_compare_work work[MT_COMPARE_MOST_WORK];
    const struct mt_cell *cell; // at hand
    size_t number, jobs;        // of it among all of this rank
    size_t kind;                // what it is at
    int64_t reached;            // of that
    double start, last;         // clock
};

/* The stream may be NULL: nothing is shown. Ends with mt_progress_finish(&bar->progress). */
void mt_compare_bar_start(struct mt_compare_bar *bar, const struct mt_comparison *comparison, FILE *stream);

/* The next cell; `again`: it has been counted before. */
void mt_compare_bar_begin(struct mt_compare_bar *bar, const struct mt_cell *cell, bool again);

/* After a step, and while questions are answered: callbacks of struct mt_cell_job. */
void mt_compare_bar_stepped(void *self, uint64_t step, uint64_t steps);
void mt_compare_bar_asked(void *self, size_t task, size_t done, size_t questions);

/* A cell is over: what came out of it stays as a line. */
void mt_compare_bar_end(struct mt_compare_bar *bar, const struct mt_cell *cell);

#endif
