/* rank_sum in blocks: a block's sums stay in the cache while the rows are added to them. */
#include "ops/cpu/level.h"

#define BLOCK 512 // numbers

void MT_CPU(rank_sum)(struct mt_device *device, const struct mt_rank_sum_args *a)
{
    int64_t width = a->y.dim[0];
    int64_t rows = a->x.dim[0];
    float *y = a->y.data;
#pragma omp parallel for num_threads(cpu_threads(device, rows *width)) schedule(static)
    for (int64_t first = 0; first < width; first += BLOCK) {
        double sum[BLOCK] = {0};
        int64_t count = width - first < BLOCK ? width - first : BLOCK;
        for (int64_t r = 0; r < rows; r++) {
            const float *restrict row = (r == a->own ? y : cpu_row(&a->x, r)) + first;
#pragma omp simd
            for (int64_t i = 0; i < count; i++) sum[i] += (double)row[i];
        }
        for (int64_t i = 0; i < count; i++) y[first + i] = (float)sum[i];
    }
}
