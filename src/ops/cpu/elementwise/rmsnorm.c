/*
 * rmsnorm on rows of floats. Rows are independent; the weight's gradient is summed in fixed blocks of
 * rows (column_sums.h).
 *
 * Outputs may be inputs (sum is x or residual, y is x, dx is dy): loops read element j before they write
 * element j, and no pointer to such a tensor is `restrict`.
 */
#include <math.h>
#include <string.h>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/row_sums.h"

size_t MT_CPU(rmsnorm_forward_scratch)(const struct mt_device *device,
                                       const struct mt_rmsnorm_forward_args *a)
{
    (void)device;
    return a->weight.dtype == MT_F32 ? 0 : (size_t)a->weight.dim[0] * sizeof(float);
}

static void forward_row(const struct mt_rmsnorm_forward_args *a, int64_t t, const float *weight)
{
    int64_t width = a->x.dim[1];
    const float *h = cpu_row(&a->x, t);
    if (mt_tensor_present(&a->residual)) {
        const float *residual = cpu_row(&a->residual, t);
        float *sum = cpu_row(&a->sum, t);
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] = h[j] + residual[j];
        h = sum;
    }
    double mean_square = row_sum_squares(h, width, 0.0f, 0.0f) / (double)width;
    float rstd = (float)(1.0 / sqrt(mean_square + (double)a->epsilon));
    float *y = cpu_row(&a->y, t);
#pragma omp simd
    for (int64_t j = 0; j < width; j++) y[j] = h[j] * rstd * weight[j];
    if (mt_tensor_present(&a->rstd)) ((float *)a->rstd.data)[t] = rstd;
}

bool MT_CPU(rmsnorm_forward_fits)(const struct mt_rmsnorm_forward_args *a)
{
    return cpu_all_f32(&a->x, &a->residual, &a->sum, &a->y, &a->rstd);
}

void MT_CPU(rmsnorm_forward)(struct mt_device *device, const struct mt_rmsnorm_forward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    if (tokens == 0 || width == 0) return;
    const float *weight = cpu_vector_f32(&a->weight, device->scratch.data);
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t t = 0; t < tokens; t++) forward_row(a, t, weight);
}

size_t MT_CPU(rmsnorm_backward_scratch)(const struct mt_device *device,
                                        const struct mt_rmsnorm_backward_args *a)
{
    (void)device;
    size_t vectors = mt_tensor_present(&a->dweight) ? 1 + COLUMN_SUM_BLOCKS : 1;
    return vectors * (size_t)a->weight.dim[0] * sizeof(float);
}

static void backward_row(const struct mt_rmsnorm_backward_args *a, int64_t t, const float *weight)
{
    int64_t width = a->x.dim[1];
    const float *dy = cpu_row(&a->dy, t);
    const float *x = cpu_row(&a->x, t);
    float *dx = cpu_row(&a->dx, t);
    float rstd = ((const float *)a->rstd.data)[t];
    double mean = row_sum_products(dy, weight, x, width) / (double)width;
    float pull = (float)(mean * (double)rstd * (double)rstd);
    if (a->accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) dx[j] += rstd * (dy[j] * weight[j] - x[j] * pull);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) dx[j] = rstd * (dy[j] * weight[j] - x[j] * pull);
    }
}

/* dweight += dy · x · rstd of one row. */
static void add_dweight(const struct mt_rmsnorm_backward_args *a, int64_t t, float *restrict dweight)
{
    int64_t width = a->x.dim[1];
    const float *dy = cpu_row(&a->dy, t);
    const float *x = cpu_row(&a->x, t);
    float rstd = ((const float *)a->rstd.data)[t];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) dweight[j] += dy[j] * (x[j] * rstd);
}

bool MT_CPU(rmsnorm_backward_fits)(const struct mt_rmsnorm_backward_args *a)
{
    return cpu_all_f32(&a->dy, &a->x, &a->rstd, &a->dx, &a->dweight);
}

void MT_CPU(rmsnorm_backward)(struct mt_device *device, const struct mt_rmsnorm_backward_args *a)
{
    bool has_dweight = mt_tensor_present(&a->dweight);
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    if (tokens == 0 || width == 0) return;
    float *partials = (float *)device->scratch.data + width; // [blocks, d]
    const float *weight = cpu_vector_f32(&a->weight, device->scratch.data);
    struct row_blocks blocks = row_blocks_of(tokens, has_dweight);
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t block = 0; block < blocks.count; block++) {
        float *partial = has_dweight ? partials + block * width : NULL;
        if (has_dweight) memset(partial, 0, (size_t)width * sizeof(float));
        for (int64_t t = block * blocks.each; t < row_block_end(&blocks, block); t++) {
            if (has_dweight) add_dweight(a, t, partial); // first: dx may overwrite dy
            backward_row(a, t, weight);
        }
    }
    if (has_dweight) add_partials(a->dweight.data, partials, blocks.count, width);
}
