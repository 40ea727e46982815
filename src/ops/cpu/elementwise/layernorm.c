/*
 * layernorm on rows of floats. The mean first, then the squares about it; the mean is kept in two floats,
 * because a row far from zero needs more digits of it than one float has.
 */
#include <math.h>
#include <string.h>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/row_sums.h"

size_t MT_CPU(layernorm_forward_scratch)(const struct mt_device *device,
                                         const struct mt_layernorm_forward_args *a)
{
    (void)device;
    return 2 * (size_t)a->weight.dim[0] * sizeof(float); // weight and bias as floats
}

/* h = x + residual. The target may be either operand itself: each element is read before it is written. */
static void add_rows(const float *x, const float *residual, float *h, int64_t width)
{
#pragma omp simd
    for (int64_t j = 0; j < width; j++) h[j] = x[j] + residual[j];
}

static void forward_row(const struct mt_layernorm_forward_args *a, int64_t t, const float *weight,
                        const float *bias)
{
    int64_t width = a->x.dim[1];
    const float *h = cpu_row(&a->x, t);
    if (mt_tensor_present(&a->residual)) {
        float *sum = cpu_row(&a->sum, t);
        add_rows(h, cpu_row(&a->residual, t), sum, width);
        h = sum;
    }
    double exact_mean = row_sum(h, width) / (double)width;
    float mean = (float)exact_mean;
    float rest = (float)(exact_mean - (double)mean);
    double variance = row_sum_squares(h, width, mean, rest) / (double)width;
    float rstd = (float)(1.0 / sqrt(variance + (double)a->epsilon));
    float *y = cpu_row(&a->y, t);
#pragma omp simd
    for (int64_t j = 0; j < width; j++) y[j] = (h[j] - mean - rest) * rstd * weight[j] + bias[j];
    if (mt_tensor_present(&a->mean)) {
        ((float *)a->mean.data)[t] = mean;
        ((float *)a->rstd.data)[t] = rstd;
    }
}

bool MT_CPU(layernorm_forward_fits)(const struct mt_layernorm_forward_args *a)
{
    return cpu_all_f32(&a->x, &a->residual, &a->sum, &a->y, &a->mean, &a->rstd);
}

void MT_CPU(layernorm_forward)(struct mt_device *device, const struct mt_layernorm_forward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    if (tokens == 0 || width == 0) return;
    float *scratch = device->scratch.data; // [2, d]
    const float *weight = cpu_vector_f32(&a->weight, scratch);
    const float *bias = cpu_vector_f32(&a->bias, scratch + width);
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t t = 0; t < tokens; t++) forward_row(a, t, weight, bias);
}

size_t MT_CPU(layernorm_backward_scratch)(const struct mt_device *device,
                                          const struct mt_layernorm_backward_args *a)
{
    (void)device;
    size_t vectors = 1; // the weight as floats, then partial sums
    if (mt_tensor_present(&a->dweight)) vectors += COLUMN_SUM_BLOCKS;
    if (mt_tensor_present(&a->dbias)) vectors += COLUMN_SUM_BLOCKS;
    return vectors * (size_t)a->weight.dim[0] * sizeof(float);
}

/* One row's share of the vectors' gradients; NULL where one is not wanted. */
static void add_vector_gradients(const struct mt_layernorm_backward_args *a, int64_t t,
                                 float *restrict dweight, float *restrict dbias)
{
    int64_t width = a->x.dim[1];
    const float *dy = cpu_row(&a->dy, t);
    const float *x = cpu_row(&a->x, t);
    float mean = ((const float *)a->mean.data)[t];
    float rstd = ((const float *)a->rstd.data)[t];
    if (dweight != NULL) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) dweight[j] += dy[j] * ((x[j] - mean) * rstd);
    }
    if (dbias != NULL) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) dbias[j] += dy[j];
    }
}

static void backward_row(const struct mt_layernorm_backward_args *a, int64_t t, const float *weight)
{
    int64_t width = a->x.dim[1];
    const float *dy = cpu_row(&a->dy, t);
    const float *x = cpu_row(&a->x, t);
    float *dx = cpu_row(&a->dx, t);
    float mean = ((const float *)a->mean.data)[t];
    float rstd = ((const float *)a->rstd.data)[t];
    double sum_g = 0.0;
    double sum_gn = 0.0;
    for (int64_t start = 0; start < width; start += ROW_STRETCH) {
        int64_t end = cpu_min(width, start + ROW_STRETCH);
        float stretch_g = 0.0f;
        float stretch_gn = 0.0f;
#pragma omp simd reduction(+ : stretch_g, stretch_gn)
        for (int64_t j = start; j < end; j++) {
            float g = dy[j] * weight[j];
            stretch_g += g;
            stretch_gn += g * ((x[j] - mean) * rstd);
        }
        sum_g += (double)stretch_g;
        sum_gn += (double)stretch_gn;
    }
    float mean_g = (float)(sum_g / (double)width);
    float mean_gn = (float)(sum_gn / (double)width);
    if (a->accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            dx[j] += rstd * (dy[j] * weight[j] - mean_g - (x[j] - mean) * rstd * mean_gn);
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            dx[j] = rstd * (dy[j] * weight[j] - mean_g - (x[j] - mean) * rstd * mean_gn);
        }
    }
}

bool MT_CPU(layernorm_backward_fits)(const struct mt_layernorm_backward_args *a)
{
    return cpu_all_f32(&a->dy, &a->x, &a->mean, &a->rstd, &a->dx, &a->dweight, &a->dbias);
}

void MT_CPU(layernorm_backward)(struct mt_device *device, const struct mt_layernorm_backward_args *a)
{
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    if (tokens == 0 || width == 0) return;
    bool has_dweight = mt_tensor_present(&a->dweight);
    bool has_dbias = mt_tensor_present(&a->dbias);
    struct row_blocks blocks = row_blocks_of(tokens, has_dweight || has_dbias);
    float *scratch = device->scratch.data;
    const float *weight = cpu_vector_f32(&a->weight, scratch);
    float *dweights = scratch + width;                                         // [blocks, d]
    float *dbiases = dweights + (has_dweight ? COLUMN_SUM_BLOCKS * width : 0); // [blocks, d]
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t block = 0; block < blocks.count; block++) {
        float *dweight = has_dweight ? dweights + block * width : NULL;
        float *dbias = has_dbias ? dbiases + block * width : NULL;
        if (has_dweight) memset(dweight, 0, (size_t)width * sizeof(float));
        if (has_dbias) memset(dbias, 0, (size_t)width * sizeof(float));
        for (int64_t t = block * blocks.each; t < row_block_end(&blocks, block); t++) {
            add_vector_gradients(a, t, dweight, dbias); // first: dx may overwrite dy
            backward_row(a, t, weight);
        }
    }
    if (has_dweight) add_partials(a->dweight.data, dweights, blocks.count, width);
    if (has_dbias) add_partials(a->dbias.data, dbiases, blocks.count, width);
}
