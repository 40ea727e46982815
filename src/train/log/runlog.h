/*
 * Where a run's records go: RUN/metrics.jsonl (one JSON object per line), RUN/tensorboard/ (an event file per
 * start), and the terminal. docs/logs.md describes all three.
 *
 * Opening allocates everything; writing a record allocates nothing and reaches the kernel in one write(), so
 * that whoever reads along sees whole lines.
 */
#ifndef MT_TRAIN_RUNLOG_H
#define MT_TRAIN_RUNLOG_H

#include <stdio.h>

#include "base/log.h"
#include "train/log/record.h"

struct mt_run_log; // opaque

struct mt_run_log_options {
    const char *directory; // of the run; must exist
    bool tensorboard;      // also write RUN/tensorboard/
    FILE *terminal;        // borrowed, usually stderr; NULL: quiet
    const struct mt_log
        *log;                // borrowed; a quiet terminal's warnings and losses of data go there; may be NULL
    uint64_t steps;          // of the whole run
    struct mt_run_work done; // before this start; zeros: a new run
    /* Where a resumed run goes on: metrics.jsonl is cut there, behind what is told of that checkpoint; 0: it
     * begins empty. */
    uint64_t metrics_bytes;
    const char
        *checkpoint;   // text of the event "checkpoint" it goes on from, which may be missing; NULL: none
    const char *title; // what is trained, for the terminal's first line; NULL: no such line
    size_t layers;     // MoE layers a record has at the most
    int experts;       // n, likewise
};

/* A metrics.jsonl shorter than metrics_bytes is kept as far as it has whole lines, and a warning is logged.
 */
enum mt_status mt_run_log_open(struct mt_context *ctx, const struct mt_run_log_options *options,
                               struct mt_run_log **log);

/* What follows does nothing for a log that is NULL: a rank that writes none. */

/* A step's whole record, to the files; off a terminal also a row of the table. */
enum mt_status mt_run_log_step(struct mt_run_log *log, const struct mt_step_record *record);

/* After every step: the terminal's live line, and what the summary remembers. layers may be NULL. */
void mt_run_log_progress(struct mt_run_log *log, const struct mt_step_record *record);

enum mt_status mt_run_log_evaluation(struct mt_run_log *log, const struct mt_evaluation_record *record);

/*
 * kind: "checkpoint", "resumed", "warning", "data", "stopped", ...; a text over 2048 bytes is cut. A
 * "warning" asks for somebody to act and is told in quiet runs, too; the others are routine.
 */
enum mt_status mt_run_log_event(struct mt_run_log *log, uint64_t step, const char *kind, const char *text);

/* Brings the files to disk; how long metrics.jsonl is now, for the checkpoint. */
enum mt_status mt_run_log_sync(struct mt_run_log *log, uint64_t *metrics_bytes);

/*
 * Ends what the terminal shows with a summary of what ran, once; later events are lines. verdict: what is
 * wrong with the run, a sentence; NULL: nothing. A log that is NULL is allowed.
 */
void mt_run_log_summary(struct mt_run_log *log, const char *verdict);

/* Prints the summary if that was not done yet, closes and frees; NULL is allowed. */
void mt_run_log_close(struct mt_run_log *log);

#endif
