/*
 * Sums over a row of floats. Products are added in f32 over short stretches, vectorised, and the stretches
 * in double, so that a wide row loses no more than a narrow one.
 */
#ifndef MT_OPS_CPU_ROW_SUMS_H
#define MT_OPS_CPU_ROW_SUMS_H

#include "ops/cpu/level.h"

#define ROW_STRETCH 256

/* Σ x_j, all in double: far from zero, a mean needs more digits than a sum of floats keeps. */
static inline double row_sum(const float *x, int64_t width)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; j++) sum += (double)x[j];
    return sum;
}

/* Σ (x_j - high - low)²: the centre is given in two parts, as it may need more digits than a float has. */
static inline double row_sum_squares(const float *x, int64_t width, float high, float low)
{
    double total = 0.0;
    for (int64_t start = 0; start < width; start += ROW_STRETCH) {
        int64_t end = cpu_min(width, start + ROW_STRETCH);
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = start; j < end; j++) {
            float centred = x[j] - high - low;
            sum += centred * centred;
        }
        total += (double)sum;
    }
    return total;
}

/* Σ a_j b_j c_j */
static inline double row_sum_products(const float *a, const float *b, const float *c, int64_t width)
{
    double total = 0.0;
    for (int64_t start = 0; start < width; start += ROW_STRETCH) {
        int64_t end = cpu_min(width, start + ROW_STRETCH);
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = start; j < end; j++) sum += a[j] * b[j] * c[j];
        total += (double)sum;
    }
    return total;
}

#endif
