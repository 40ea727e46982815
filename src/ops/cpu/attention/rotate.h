/* The rotation rope and mla_key share: one row of floats by its position's angles. */
#ifndef MT_OPS_CPU_ROTATE_H
#define MT_OPS_CPU_ROTATE_H

#include "ops/cpu/level.h"

/*
 * Rotates `pairs` pairs of x into y, which may be x itself: each pair is read before it is written, and
 * no pair touches another's elements. sign -1 rotates back.
 */
static inline void cpu_rotate_row(const float *x, const float *cosine, const float *sine, float sign,
                                  enum mt_rope_layout layout, int64_t pairs, float *y)
{
    if (layout == MT_ROPE_INTERLEAVED) {
#pragma omp simd
        for (int64_t i = 0; i < pairs; i++) {
            float a = x[2 * i];
            float b = x[2 * i + 1];
            float s = sign * sine[i];
            y[2 * i] = a * cosine[i] - b * s;
            y[2 * i + 1] = a * s + b * cosine[i];
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < pairs; i++) {
            float a = x[i];
            float b = x[i + pairs];
            float s = sign * sine[i];
            y[i] = a * cosine[i] - b * s;
            y[i + pairs] = a * s + b * cosine[i];
        }
    }
}

#endif
