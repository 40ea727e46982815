/*
 * What a person sees of a run. On a terminal: one live line, and above it a line for what should stay
 * (evaluations, checkpoints, warnings). Elsewhere: a table with a row per logged step. At the end, both: a
 * summary.
 */
#ifndef MT_TRAIN_TERMINAL_VIEW_H
#define MT_TRAIN_TERMINAL_VIEW_H

#include "base/progress.h"
#include "train/log/record.h"

struct mt_terminal_view {
    struct mt_progress progress;
    FILE *stream;                      // borrowed; NULL: quiet
    struct mt_run_work done;           // before the start
    uint64_t seen;                     // steps seen since the start
    struct mt_step_record first, last; // of them; without layers. Of concentration, which is not looked at in
                                       // every step, what was known first and last
    bool on[MT_TERM_COUNT];            // terms with a column: decided by the first step seen
    uint64_t rows;                     // of the table, so far
};

/* title NULL: no first line. Off a terminal nothing else appears before the first row. done: before. */
void mt_terminal_view_start(struct mt_terminal_view *view, FILE *stream, const char *title, uint64_t steps,
                            const struct mt_run_work *done);

/* Every step. */
void mt_terminal_view_step(struct mt_terminal_view *view, const struct mt_step_record *record);

/* Every logged step: a row of the table, off a terminal only. */
void mt_terminal_view_row(struct mt_terminal_view *view, const struct mt_step_record *record);

void mt_terminal_view_evaluation(struct mt_terminal_view *view, const struct mt_evaluation_record *record);
void mt_terminal_view_event(struct mt_terminal_view *view, uint64_t step, const char *kind, const char *text);

/*
 * The last state and the summary, once; board NULL: there is none; verdict NULL: nothing is wrong. Nothing
 * when no step was seen.
 */
void mt_terminal_view_finish(struct mt_terminal_view *view, const char *metrics, const char *board,
                             const char *verdict);

#endif
