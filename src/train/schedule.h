/*
 * The learning rate of each step, as a share of its peak. Step s, counted from 0, of `steps`:
 *
 *     warm-up    s / warmup                                        while s < warmup
 *     cosine     final + (1 - final) · (1 + cos(π p)) / 2          p = (s - warmup) / (steps - warmup)
 *     linear     final + (1 - final) · (1 - p)
 *     constant   1
 *
 * With final = 0 these are transformers' get_*_schedule_with_warmup; so the very first step of a warm-up has
 * rate 0.
 */
#ifndef MT_TRAIN_SCHEDULE_H
#define MT_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "train/settings/settings.h"

struct mt_schedule {
    enum mt_schedule_kind kind;
    uint64_t steps;
    uint64_t warmup; // steps
    double final_share;
};

/* `warmup` is a number of steps from 1 on, and a share of all steps (rounded up) below. */
struct mt_schedule mt_schedule_make(enum mt_schedule_kind kind, uint64_t steps, double warmup,
                                    double final_share);

/* The rate of a step over its peak. */
double mt_schedule_share(const struct mt_schedule *schedule, uint64_t step);

#endif
