/* Statistics over tokens: which tokens count (mask), to which group they belong (segment), and sums. */
#ifndef MT_OPS_REF_TOKENS_H
#define MT_OPS_REF_TOKENS_H

#include "ops/ref/ref.h"

/* False for a token that the mask, if there is one, leaves out. */
static inline bool token_counts(const struct mt_tensor *mask, int64_t i)
{
    return !mt_tensor_present(mask) || ref_int1(mask, i) != 0;
}

/* The group of a token: 0 without segments. */
static inline int64_t token_segment(const struct mt_tensor *segment, int64_t i)
{
    return mt_tensor_present(segment) ? ref_int1(segment, i) : 0;
}

/* Adds to a statistic [B], or [B,n]; an absent one takes nothing. */
static inline void ref_add1(const struct mt_tensor *t, int64_t i, double value)
{
    if (mt_tensor_present(t)) ref_set1(t, i, ref_get1(t, i) + value);
}

static inline void ref_add2(const struct mt_tensor *t, int64_t i, int64_t j, double value)
{
    if (mt_tensor_present(t)) ref_set2(t, i, j, ref_get2(t, i, j) + value);
}

/* Zeroes a statistic [B] or [B,n], if it is there. */
static inline void ref_clear(const struct mt_tensor *t)
{
    if (!mt_tensor_present(t)) return;
    for (int64_t i = 0; i < t->dim[0]; i++) {
        if (t->rank == 1) ref_set1(t, i, 0.0);
        for (int64_t j = 0; t->rank == 2 && j < t->dim[1]; j++) ref_set2(t, i, j, 0.0);
    }
}

/* The gradient of an optional statistic: 0 where it is absent. */
static inline double ref_optional1(const struct mt_tensor *t, int64_t i)
{
    return mt_tensor_present(t) ? ref_get1(t, i) : 0.0;
}

static inline double ref_optional2(const struct mt_tensor *t, int64_t i, int64_t j)
{
    return mt_tensor_present(t) ? ref_get2(t, i, j) : 0.0;
}

/* A scale and, if there is one, the factor beside it. */
static inline float ref_scale(float scale, const struct mt_tensor *factor)
{
    return mt_tensor_present(factor) ? scale * (float)ref_get1(factor, 0) : scale;
}

/* How many tokens the mask leaves in. */
static inline double ref_tokens(const struct mt_tensor *mask, int64_t tokens)
{
    double count = 0.0;
    for (int64_t i = 0; i < tokens; i++) count += token_counts(mask, i) ? 1.0 : 0.0;
    return count;
}

#endif
