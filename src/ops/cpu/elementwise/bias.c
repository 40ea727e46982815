/* bias, of all rows or by expert, on rows of floats; gradients are summed in fixed blocks of rows
 * (column_sums.h). */
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

/* sums[d] += the column sums of the rows [first, end); `partials` has room for COLUMN_SUM_BLOCKS of them. */
static void add_column_sums(struct mt_device *device, const struct mt_tensor *dy, int64_t first, int64_t end,
                            float *partials, float *sums)
{
    int64_t width = dy->dim[1];
    if (end == first || width == 0) return;
    struct row_blocks blocks = row_blocks_of(end - first, true);
#pragma omp parallel for num_threads(cpu_threads(device, (end - first) * width)) schedule(static)
    for (int64_t block = 0; block < blocks.count; block++) {
        float *restrict partial = partials + block * width;
        memset(partial, 0, (size_t)width * sizeof(float));
        for (int64_t t = block * blocks.each; t < row_block_end(&blocks, block); t++) {
            const float *restrict row = cpu_row(dy, first + t);
#pragma omp simd
            for (int64_t j = 0; j < width; j++) partial[j] += row[j];
        }
    }
    add_partials(sums, partials, blocks.count, width);
}

void MT_CPU(bias_backward)(struct mt_device *device, const struct mt_bias_backward_args *a)
{
    add_column_sums(device, &a->dy, 0, a->dy.dim[0], device->scratch.data, a->dbias.data);
}

// ------------------------------------------------------------------ by expert

/* The rows of expert e; without offsets, all. */
static int64_t first_row(const struct mt_tensor *offsets, int e)
{
    return mt_tensor_present(offsets) ? ref_int1(offsets, e) : 0;
}

static int64_t last_row(const struct mt_tensor *offsets, int e, int64_t rows)
{
    return mt_tensor_present(offsets) ? ref_int1(offsets, e + 1) : rows;
}

size_t MT_CPU(grouped_bias_forward_scratch)(const struct mt_device *device,
                                            const struct mt_grouped_bias_forward_args *a)
{
    (void)device;
    return (size_t)a->y.dim[1] * sizeof(float);
}

bool MT_CPU(grouped_bias_forward_fits)(const struct mt_grouped_bias_forward_args *a)
{
    return cpu_all_f32(&a->y);
}

void MT_CPU(grouped_bias_forward)(struct mt_device *device, const struct mt_grouped_bias_forward_args *a)
{
    int64_t width = a->y.dim[1];
    for (int e = 0; e < a->experts; e++) {
        int64_t first = first_row(&a->offsets, e);
        int64_t end = last_row(&a->offsets, e, a->y.dim[0]);
        if (!mt_tensor_present(&a->bias[e]) || end == first) continue;
        const float *bias = cpu_vector_f32(&a->bias[e], device->scratch.data);
#pragma omp parallel for num_threads(cpu_threads(device, (end - first) * width)) schedule(static)
        for (int64_t t = first; t < end; t++) {
            float *y = cpu_row(&a->y, t);
#pragma omp simd
            for (int64_t j = 0; j < width; j++) y[j] += bias[j];
        }
    }
}

size_t MT_CPU(grouped_bias_backward_scratch)(const struct mt_device *device,
                                             const struct mt_grouped_bias_backward_args *a)
{
    (void)device;
    return COLUMN_SUM_BLOCKS * (size_t)a->dy.dim[1] * sizeof(float);
}

bool MT_CPU(grouped_bias_backward_fits)(const struct mt_grouped_bias_backward_args *a)
{
    return cpu_all_f32(&a->dy);
}

void MT_CPU(grouped_bias_backward)(struct mt_device *device, const struct mt_grouped_bias_backward_args *a)
{
    for (int e = 0; e < a->experts; e++) {
        if (!mt_tensor_present(&a->dbias[e])) continue;
        add_column_sums(device, &a->dy, first_row(&a->offsets, e), last_row(&a->offsets, e, a->dy.dim[0]),
                        device->scratch.data, a->dbias[e].data);
    }
}
