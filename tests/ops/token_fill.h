/* Masks, segments and slots made by rule, for the cases of statistics over tokens. */
#ifndef MT_TESTS_TOKEN_FILL_H
#define MT_TESTS_TOKEN_FILL_H

#include "ops/route_fill.h"

enum segment_kind {
    SEGMENT_NONE,      // the operand is left out
    SEGMENT_RUNS,      // one run of tokens after the other, as packed sequences are
    SEGMENT_SCATTERED, // every token somewhere else
    SEGMENT_LAST,      // all tokens in the last segment: the others stay empty
};

enum mask_kind {
    MASK_NONE,  // the operand is left out
    MASK_SOME,  // a third of the tokens are out
    MASK_ENDS,  // the last of every eight tokens are out: padding
    MASK_EMPTY, // all tokens are out
};

static inline const char *segment_name(enum segment_kind kind)
{
    static const char *const names[] = {"", " in runs", " scattered", " in the last"};
    return names[kind];
}

static inline const char *mask_name(enum mask_kind kind)
{
    static const char *const names[] = {"", " mask", " padding", " all masked"};
    return names[kind];
}

static inline void fill_segment(enum segment_kind kind, int64_t segments, struct mt_tensor *segment)
{
    int64_t tokens = segment->dim[0];
    for (int64_t i = 0; i < tokens; i++) {
        int64_t b = segments - 1;
        if (kind == SEGMENT_RUNS) b = i * segments / tokens;
        if (kind == SEGMENT_SCATTERED) b = (int64_t)mt_rng_below(17, 1, (uint64_t)i, (uint64_t)segments);
        ((int32_t *)segment->data)[i] = (int32_t)b;
    }
}

/* Anything but 0 keeps a token. */
static inline void fill_mask(enum mask_kind kind, struct mt_tensor *mask)
{
    for (int64_t i = 0; i < mask->dim[0]; i++) {
        int32_t kept = 1;
        if (kind == MASK_SOME) kept = mt_rng_below(17, 2, (uint64_t)i, 3) == 0 ? 0 : (int32_t)(i % 5) - 7;
        if (kind == MASK_ENDS) kept = i % 8 < 6;
        if (kind == MASK_EMPTY) kept = 0;
        ((int32_t *)mask->data)[i] = kept;
    }
}

static inline void fill_experts(enum route_kind kind, int64_t experts, struct mt_tensor *expert)
{
    for (int64_t i = 0; i < expert->dim[0]; i++) {
        for (int64_t s = 0; s < expert->dim[1]; s++) {
            ((int32_t *)expert->data)[i * expert->stride[0] + s] =
                route_expert(kind, i, s, expert->dim[1], experts);
        }
    }
}

#endif
