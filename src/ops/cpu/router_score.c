/* router_score on rows of floats: tokens are independent. */
#include "ops/cpu/row_maximum.h"
#include "ops/cpu/simd.h"

static void softmax_row(const float *z, float *p, int64_t experts)
{
    float highest = row_maximum(z, experts);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < experts; j++) {
        float e = simd_exp(z[j] - highest);
        p[j] = e;
        sum += e;
    }
    float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < experts; j++) p[j] *= inverse;
}

static void sigmoid_row(const float *z, float *p, int64_t experts)
{
#pragma omp simd
    for (int64_t j = 0; j < experts; j++) p[j] = simd_sigmoid(z[j]);
}

enum mt_status MT_CPU(router_score_forward)(struct mt_device *device, const void *args)
{
    const struct mt_router_score_forward_args *a = args;
    if (!cpu_is_f32(&a->logits) || !cpu_is_f32(&a->probs)) return mt_ref_router_score_forward(device, args);
    int64_t tokens = a->logits.dim[0];
    int64_t experts = a->logits.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *experts)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        if (a->kind == MT_SCORE_SOFTMAX) {
            softmax_row(cpu_row(&a->logits, i), cpu_row(&a->probs, i), experts);
        } else {
            sigmoid_row(cpu_row(&a->logits, i), cpu_row(&a->probs, i), experts);
        }
    }
    return MT_OK;
}

/* dz = p (g - <p,g>), or added to what dz holds. */
static void softmax_row_backward(const float *p, const float *g, float *dz, int64_t experts, bool accumulate)
{
    float mean = 0.0f;
#pragma omp simd reduction(+ : mean)
    for (int64_t j = 0; j < experts; j++) mean += p[j] * g[j];
    if (accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] += p[j] * (g[j] - mean);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] = p[j] * (g[j] - mean);
    }
}

static void sigmoid_row_backward(const float *p, const float *g, float *dz, int64_t experts, bool accumulate)
{
    if (accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] += g[j] * p[j] * (1.0f - p[j]);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] = g[j] * p[j] * (1.0f - p[j]);
    }
}

enum mt_status MT_CPU(router_score_backward)(struct mt_device *device, const void *args)
{
    const struct mt_router_score_backward_args *a = args;
    bool fast = cpu_is_f32(&a->probs) && cpu_is_f32(&a->dprobs) && cpu_is_f32(&a->dlogits);
    if (!fast) return mt_ref_router_score_backward(device, args);
    int64_t tokens = a->probs.dim[0];
    int64_t experts = a->probs.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *experts)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const float *p = cpu_row(&a->probs, i);
        const float *g = cpu_row(&a->dprobs, i);
        float *dz = cpu_row(&a->dlogits, i);
        if (a->kind == MT_SCORE_SOFTMAX) {
            softmax_row_backward(p, g, dz, experts, a->accumulate);
        } else {
            sigmoid_row_backward(p, g, dz, experts, a->accumulate);
        }
    }
    return MT_OK;
}
