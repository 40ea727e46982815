/* The rotation rope and mla_key share: one pair of a row, by its position's angle. */
#ifndef MT_OPS_REF_ROTATE_H
#define MT_OPS_REF_ROTATE_H

#include "ops/ref/ref.h"

struct ref_pair {
    int64_t first;  // column of a
    int64_t second; // column of b
};

/* Columns of pair `i` in a row of `width`. */
static inline struct ref_pair ref_rope_pair(enum mt_rope_layout layout, int64_t width, int64_t i)
{
    if (layout == MT_ROPE_INTERLEAVED) return (struct ref_pair){2 * i, 2 * i + 1};
    return (struct ref_pair){i, i + width / 2};
}

/* (a,b) -> (a·cos - b·sin, a·sin + b·cos), in place; inverse turns sin into -sin. */
static inline void ref_rotate(const struct mt_tensor *cosine, const struct mt_tensor *sine, int64_t position,
                              int64_t i, bool inverse, double *a, double *b)
{
    double c = ref_get2(cosine, position, i);
    double s = ref_get2(sine, position, i) * (inverse ? -1.0 : 1.0);
    double rotated_a = *a * c - *b * s;
    double rotated_b = *a * s + *b * c;
    *a = rotated_a;
    *b = rotated_b;
}

#endif
