/*
 * Asking memory for a weight before it is multiplied. Products of few rows take a vector's lanes of lines
 * at a time, a few bytes of each in turn: up to 16 places in memory at once, often each a page of its own, which
 * no processor foresees well. While some lines are multiplied the next are asked for, in the order they lie in
 * memory.
 */
#ifndef MT_OPS_CPU_WEIGHT_AHEAD_H
#define MT_OPS_CPU_WEIGHT_AHEAD_H

#include "ops/cpu/vector.h"

#define WEIGHT_SQUARE (VECTOR_LANES * VECTOR_LANES * 4) // bytes multiplied, and asked for, at a time
#define CACHE_LINE    64

struct weight_ahead {
    const char *next; // what to ask for
    const char *end;
};

/* As much as one square's work reads. */
VECTOR_INLINE void weight_ask(struct weight_ahead *ahead)
{
    if (ahead->next >= ahead->end) return;
    UNROLL
    for (int i = 0; i < WEIGHT_SQUARE; i += CACHE_LINE) __builtin_prefetch(ahead->next + i, 0, 2);
    ahead->next += WEIGHT_SQUARE;
}

/*
 * Begins with `groups` groups of `lines` lines of `line_bytes`, `distance` bytes from one to the next: the
 * first group is asked for at once. Where lines are not neighbours nothing is asked for.
 */
static inline struct weight_ahead weight_ahead_begin(const char *weight, int64_t line_bytes, int64_t distance,
                                                     int64_t groups, int64_t lines)
{
    struct weight_ahead ahead = {weight, weight};
    if (line_bytes != distance) return ahead;
    ahead.end = weight + groups * lines * line_bytes;
    for (int64_t asked = 0; asked < lines * line_bytes; asked += WEIGHT_SQUARE) weight_ask(&ahead);
    return ahead;
}

#endif
