/* bias on rows of floats; its gradient is summed in fixed blocks of rows (column_sums.h). */
#include <string.h>

#include "ops/cpu/column_sums.h"

size_t MT_CPU(bias_forward_scratch)(const struct mt_device *device, const struct mt_bias_forward_args *a)
{
    (void)device;
    return a->bias.dtype == MT_F32 ? 0 : (size_t)a->bias.dim[0] * sizeof(float);
}

bool MT_CPU(bias_forward_fits)(const struct mt_bias_forward_args *a)
{
    return cpu_all_f32(&a->x, &a->y);
}

void MT_CPU(bias_forward)(struct mt_device *device, const struct mt_bias_forward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    const float *bias = cpu_vector_f32(&a->bias, device->scratch.data);
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        const float *x = cpu_row(&a->x, t);
        float *y = cpu_row(&a->y, t); // may be x itself
#pragma omp simd
        for (int64_t j = 0; j < width; j++) y[j] = x[j] + bias[j];
    }
}

size_t MT_CPU(bias_backward_scratch)(const struct mt_device *device, const struct mt_bias_backward_args *a)
{
    (void)device;
    return COLUMN_SUM_BLOCKS * (size_t)a->dy.dim[1] * sizeof(float);
}

void MT_CPU(bias_backward)(struct mt_device *device, const struct mt_bias_backward_args *a)
{
    int64_t tokens = a->dy.dim[0];
    int64_t width = a->dy.dim[1];
    if (tokens == 0 || width == 0) return;
    struct row_blocks blocks = row_blocks_of(tokens, true);
    float *partials = device->scratch.data; // [blocks, d]
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t block = 0; block < blocks.count; block++) {
        float *restrict partial = partials + block * width;
        memset(partial, 0, (size_t)width * sizeof(float));
        for (int64_t t = block * blocks.each; t < row_block_end(&blocks, block); t++) {
            const float *restrict dy = cpu_row(&a->dy, t);
#pragma omp simd
            for (int64_t j = 0; j < width; j++) partial[j] += dy[j];
        }
    }
    add_partials(a->dbias.data, partials, blocks.count, width);
}
