/*
 * router_zloss on rows of floats: the exponentials in f32, their sum's logarithm and what is made of it in
 * double. Squares are added in fixed blocks of rows, in block order.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/simd.h"
#include "ops/ref/tokens.h"

#define LANES 16

/*
 * The largest of a row; -inf when there is none. NaN loses every comparison. Several are sought side by side:
 * compilers keep a plain maximum in order.
 */
static float row_maximum(const float *z, int64_t width)
{
    float lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    int64_t j = 0;
    for (; j + LANES <= width; j += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) lane[l] = z[j + l] > lane[l] ? z[j + l] : lane[l];
    }
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
    }
    float highest = lane[0];
    for (; j < width; j++) highest = z[j] > highest ? z[j] : highest;
    return highest;
}

size_t MT_CPU(router_zloss_forward_scratch)(const struct mt_device *device,
                                            const struct mt_router_zloss_forward_args *args)
{
    (void)device;
    (void)args;
    return COLUMN_SUM_BLOCKS * sizeof(double);
}

/* log Σ exp(z), from the highest z and Σ exp(z - highest). */
static double lse_of(float highest, float sum)
{
    return sum == 0.0f ? -(double)INFINITY : (double)highest + log((double)sum);
}

static double row_lse(const float *z, int64_t experts)
{
    float highest = row_maximum(z, experts);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < experts; j++) sum += simd_exp(z[j] - highest);
    return lse_of(highest, sum);
}

void MT_CPU(router_zloss_forward)(struct mt_device *device, const struct mt_router_zloss_forward_args *a)
{
    bool has_lse = mt_tensor_present(&a->lse);
    int64_t experts = a->logits.dim[1];
    double *partials = device->scratch.data; // [blocks]
    struct row_blocks blocks = row_blocks_of(a->logits.dim[0], true);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->logits))) schedule(static)
    for (int64_t block = 0; block < blocks.count; block++) {
        double squares = 0.0;
        for (int64_t i = block * blocks.each; i < row_block_end(&blocks, block); i++) {
            double lse = token_counts(&a->mask, i) ? row_lse(cpu_row(&a->logits, i), experts) : 0.0;
            if (has_lse) ((float *)a->lse.data)[i] = (float)lse;
            squares += lse * lse;
        }
        partials[block] = squares;
    }
    double sum = 0.0;
    for (int64_t block = 0; block < blocks.count; block++) sum += partials[block];
    *(double *)a->sum.data = sum;
}

size_t MT_CPU(router_zloss_backward_scratch)(const struct mt_device *device,
                                             const struct mt_router_zloss_backward_args *a)
{
    return (size_t)device->threads * (size_t)a->logits.dim[1] * sizeof(float);
}

/* exponentials [n] is the thread's own. */
static void backward_row(const struct mt_router_zloss_backward_args *a, int64_t i, double scale,
                         float *restrict exponentials)
{
    int64_t experts = a->logits.dim[1];
    const float *z = cpu_row(&a->logits, i);
    float *dz = cpu_row(&a->dlogits, i);
    float highest = row_maximum(z, experts);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < experts; j++) {
        exponentials[j] = simd_exp(z[j] - highest);
        sum += exponentials[j];
    }
    double lse = lse_of(highest, sum);
    float factor = (float)(scale * 2.0 * lse / (double)sum);
    if (a->accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] += factor * exponentials[j];
    } else {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] = factor * exponentials[j];
    }
}

void MT_CPU(router_zloss_backward)(struct mt_device *device, const struct mt_router_zloss_backward_args *a)
{
    int64_t experts = a->logits.dim[1];
    double scale = (double)ref_scale(a->scale, &a->factor);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->logits))) schedule(static)
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        if (token_counts(&a->mask, i)) {
            backward_row(a, i, scale, (float *)device->scratch.data + omp_get_thread_num() * experts);
        } else if (!a->accumulate) {
            memset(cpu_row(&a->dlogits, i), 0, (size_t)experts * sizeof(float));
        }
    }
}
