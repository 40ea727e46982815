/*
 * Asking memory for a weight before it is multiplied. Products of few rows take a vector's lanes of lines at
 * a time, a square of each in turn. So many places in memory at once give more of it than one after the other
 * does, but where several lines share a page, or are short, the processor does not foresee what comes next.
 */
#ifndef MT_OPS_CPU_WEIGHT_AHEAD_H
#define MT_OPS_CPU_WEIGHT_AHEAD_H

#include <stdbool.h>

#include "ops/cpu/vector.h"

#define SQUARE_BYTES  (VECTOR_LANES * 4) // of a line
#define SQUARES_AHEAD 8

struct weight_ahead {
    const char *lines; // those at work
    int64_t distance;  // bytes from one to the next
    int64_t squares;   // of a line
    int64_t square;    // the one at work
    int64_t followers; // vectors of lines after these
};

/* Called for every square in turn: asks for one that comes later, of these lines or of the next. */
VECTOR_INLINE void weight_ask(struct weight_ahead *a)
{
    if (SQUARE_BYTES < 64) return; // measured where a square takes whole cache lines
    bool next = a->square + SQUARES_AHEAD >= a->squares;
    if (!next || a->followers > 0) {
        const char *square = a->lines + (a->square + SQUARES_AHEAD) * SQUARE_BYTES;
        if (next) square += VECTOR_LANES * a->distance - a->squares * SQUARE_BYTES;
        UNROLL
        for (int i = 0; i < VECTOR_LANES; i++) __builtin_prefetch(square + i * a->distance, 0, 3);
    }
    a->square++;
    if (a->square < a->squares) return;
    a->square = 0;
    a->lines += VECTOR_LANES * a->distance;
    a->followers--;
}

#endif
