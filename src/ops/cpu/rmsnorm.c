/*
 * rmsnorm on rows of floats. Rows are independent; the weight's gradient is summed in fixed blocks of
 * rows, one partial vector each, added up in block order.
 */
#include <math.h>
#include <string.h>

#include "ops/cpu/level.h"

#define DWEIGHT_BLOCKS 32 // partial sums of dweight; fixed, so that threads do not change the bits

static float sum_squares(const float *x, int64_t width)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; j++) sum += x[j] * x[j];
    return sum;
}

size_t MT_CPU(rmsnorm_forward_scratch)(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_rmsnorm_forward_args *a = args;
    return a->weight.dtype == MT_F32 ? 0 : (size_t)a->weight.dim[0] * sizeof(float);
}

enum mt_status MT_CPU(rmsnorm_forward)(struct mt_device *device, const void *args)
{
    const struct mt_rmsnorm_forward_args *a = args;
    bool has_residual = mt_tensor_present(&a->residual);
    bool fast = cpu_is_f32(&a->x) && cpu_is_f32(&a->y);
    if (has_residual) fast = fast && cpu_is_f32(&a->residual) && cpu_is_f32(&a->sum);
    if (mt_tensor_present(&a->rstd)) fast = fast && cpu_is_f32(&a->rstd);
    if (!fast) return mt_ref_rmsnorm_forward(device, args);

    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    const float *weight = cpu_vector_f32(&a->weight, device->scratch.data);
    float *rstds = a->rstd.data;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        const float *h = cpu_row(&a->x, t);
        if (has_residual) {
            const float *residual = cpu_row(&a->residual, t);
            float *sum = cpu_row(&a->sum, t);
            // sum may be x or residual itself, element by element: no reordering hazard.
            for (int64_t j = 0; j < width; j++) sum[j] = h[j] + residual[j];
            h = sum;
        }
        float rstd = 1.0f / sqrtf(sum_squares(h, width) / (float)width + a->epsilon);
        float *y = cpu_row(&a->y, t);
#pragma omp simd
        for (int64_t j = 0; j < width; j++) y[j] = h[j] * rstd * weight[j];
        if (rstds != NULL) rstds[t] = rstd;
    }
    return MT_OK;
}

size_t MT_CPU(rmsnorm_backward_scratch)(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_rmsnorm_backward_args *a = args;
    size_t vectors = mt_tensor_present(&a->dweight) ? 1 + DWEIGHT_BLOCKS : 1;
    return vectors * (size_t)a->weight.dim[0] * sizeof(float);
}

static void backward_row(const struct mt_rmsnorm_backward_args *a, int64_t t, const float *restrict weight)
{
    int64_t width = a->x.dim[1];
    const float *dy = cpu_row(&a->dy, t);
    const float *x = cpu_row(&a->x, t);
    float *dx = cpu_row(&a->dx, t);
    float rstd = ((const float *)a->rstd.data)[t];
    float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
    for (int64_t j = 0; j < width; j++) dot += dy[j] * weight[j] * x[j];
    float pull = rstd * rstd * rstd * dot / (float)width;
    if (a->accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) dx[j] += rstd * dy[j] * weight[j] - x[j] * pull;
    } else {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) dx[j] = rstd * dy[j] * weight[j] - x[j] * pull;
    }
}

enum mt_status MT_CPU(rmsnorm_backward)(struct mt_device *device, const void *args)
{
    const struct mt_rmsnorm_backward_args *a = args;
    bool has_dweight = mt_tensor_present(&a->dweight);
    bool fast = cpu_is_f32(&a->x) && cpu_is_f32(&a->dy) && cpu_is_f32(&a->dx) && cpu_is_f32(&a->rstd);
    if (has_dweight) fast = fast && cpu_is_f32(&a->dweight);
    if (!fast) return mt_ref_rmsnorm_backward(device, args);

    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    float *partials = (float *)device->scratch.data + width; // [DWEIGHT_BLOCKS, d]
    const float *weight = cpu_vector_f32(&a->weight, device->scratch.data);
    int64_t block_rows = (tokens + DWEIGHT_BLOCKS - 1) / DWEIGHT_BLOCKS;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t block = 0; block < DWEIGHT_BLOCKS; block++) {
        float *restrict partial = partials + block * width;
        if (has_dweight) memset(partial, 0, (size_t)width * sizeof(float));
        for (int64_t t = block * block_rows; t < cpu_min(tokens, (block + 1) * block_rows); t++) {
            // The weight's gradient first: dx may overwrite dy.
            if (has_dweight) {
                const float *dy = cpu_row(&a->dy, t);
                const float *x = cpu_row(&a->x, t);
                float rstd = ((const float *)a->rstd.data)[t];
#pragma omp simd
                for (int64_t j = 0; j < width; j++) partial[j] += dy[j] * x[j] * rstd;
            }
            backward_row(a, t, weight);
        }
    }
    if (has_dweight) {
        float *dweight = a->dweight.data;
        for (int64_t block = 0; block < DWEIGHT_BLOCKS; block++) {
#pragma omp simd
            for (int64_t j = 0; j < width; j++) dweight[j] += partials[block * width + j];
        }
    }
    return MT_OK;
}
