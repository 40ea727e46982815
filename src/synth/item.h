/* What sub-tasks are written with: random numbers in order, and the two texts of an item. */
#ifndef MT_SYNTH_ITEM_H
#define MT_SYNTH_ITEM_H

#include "synth/synth.h"

/* Random numbers of one item, drawn one after the other. */
struct mt_synth_draw {
    uint64_t seed;
    uint64_t stream;
    uint64_t index; // of the next number
};

/* A number in [0, bound); bound > 0. */
int mt_synth_below(struct mt_synth_draw *draw, int bound);

/* A number from low to high, both included. */
int mt_synth_between(struct mt_synth_draw *draw, int low, int high);

/* Fills `chosen` with `count` different characters of `alphabet`, in random order; at most 32 in the
 * alphabet. */
void mt_synth_choose(struct mt_synth_draw *draw, const char *alphabet, int count, char *chosen);

/* Brings the first `count` entries into random order. */
void mt_synth_shuffle(struct mt_synth_draw *draw, int *entries, int count);

/* Appends to the prompt or to the completion; what does not fit marks the item. */
void mt_synth_ask(struct mt_synth_item *item, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_synth_answer(struct mt_synth_item *item, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The domains' tables: sub-tasks in a fixed order, the last with a NULL name. */
extern const struct mt_synth_task mt_synth_language_tasks[];
extern const struct mt_synth_task mt_synth_reasoning_tasks[];
extern const struct mt_synth_task mt_synth_science_tasks[];
extern const struct mt_synth_task mt_synth_math_tasks[];
extern const struct mt_synth_task mt_synth_code_tasks[];

#endif
