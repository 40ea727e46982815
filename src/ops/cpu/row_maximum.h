/* The largest of a row of floats. Several are sought side by side: compilers keep a plain maximum in order.
 */
#ifndef MT_OPS_CPU_ROW_MAXIMUM_H
#define MT_OPS_CPU_ROW_MAXIMUM_H

#include <math.h>

#include "ops/cpu/level.h"

#define ROW_MAXIMUM_LANES 16

/* -inf when there is none. NaN loses every comparison. */
static inline float row_maximum(const float *z, int64_t width)
{
    float lane[ROW_MAXIMUM_LANES];
    for (int l = 0; l < ROW_MAXIMUM_LANES; l++) lane[l] = -INFINITY;
    int64_t j = 0;
    for (; j + ROW_MAXIMUM_LANES <= width; j += ROW_MAXIMUM_LANES) {
#pragma omp simd
        for (int l = 0; l < ROW_MAXIMUM_LANES; l++) lane[l] = z[j + l] > lane[l] ? z[j + l] : lane[l];
    }
    for (int half = ROW_MAXIMUM_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
    }
    float highest = lane[0];
    for (; j < width; j++) highest = z[j] > highest ? z[j] : highest;
    return highest;
}

#endif
