/*
 * What a comparison would be: `metier compare --dry-run`. Each method's training is planned on a device that
 * takes no memory (metier/device.h), as `metier train --dry-run` does; nothing below OUT is touched.
 */
#ifndef MT_COMPARE_PLAN_H
#define MT_COMPARE_PLAN_H

#include "compare/compare.h"
#include "train/trainer.h"

/* Training one cell; bytes are about. */
struct mt_cell_plan {
    uint64_t steps;
    int64_t trainable; // numbers
    struct mt_run_memory memory;
    double disk_bytes; // what the run leaves: the adapter or the model, and its last checkpoint
};

/* What all the cells still to do come to. */
struct mt_compare_plan {
    size_t done;                 // cells and bases
    struct mt_cell_plan *method; // [models · methods], in the arena: of the first domain and seed
    size_t largest;              // of them: needs the most memory where it computes
    size_t questions;            // with every benchmark once
    size_t all_questions;        // of all cells and bases
    double written_tokens;       // likewise, at most
    double disk_bytes;           // of all cells
    double seconds;              // median of the cells that are done, times those left; NaN: none is
};

/* Plans; texts and arrays are in the comparison's arena. */
enum mt_status mt_comparison_plan(struct mt_comparison *comparison, struct mt_compare_plan *plan);

#endif
