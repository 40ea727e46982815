/*
 * router_score: p = softmax(z) or sigmoid(z) along the experts.
 * Backward: softmax dz_j = p_j (g_j - Σ_m p_m g_m); sigmoid dz_j = g_j p_j (1 - p_j).
 */
#include <math.h>

#include "ops/ref/ref.h"

static void softmax_row(const struct mt_tensor *logits, const struct mt_tensor *probs, int64_t i)
{
    int64_t experts = logits->dim[1];
    double highest = -INFINITY;
    for (int64_t j = 0; j < experts; j++) highest = fmax(highest, ref_get2(logits, i, j));
    double sum = 0.0;
    for (int64_t j = 0; j < experts; j++) sum += exp(ref_get2(logits, i, j) - highest);
    for (int64_t j = 0; j < experts; j++) {
        ref_set2(probs, i, j, exp(ref_get2(logits, i, j) - highest) / sum);
    }
}

enum mt_status mt_ref_router_score_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_score_forward_args *a = args;
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        if (a->kind == MT_SCORE_SOFTMAX) {
            softmax_row(&a->logits, &a->probs, i);
            continue;
        }
        for (int64_t j = 0; j < a->logits.dim[1]; j++) {
            ref_set2(&a->probs, i, j, 1.0 / (1.0 + exp(-ref_get2(&a->logits, i, j))));
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_router_score_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_score_backward_args *a = args;
    int64_t experts = a->probs.dim[1];
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        double mean = 0.0; // of g under p
        for (int64_t j = 0; j < experts; j++) mean += ref_get2(&a->probs, i, j) * ref_get2(&a->dprobs, i, j);
        for (int64_t j = 0; j < experts; j++) {
            double p = ref_get2(&a->probs, i, j);
            double g = ref_get2(&a->dprobs, i, j);
            double dz = a->kind == MT_SCORE_SOFTMAX ? p * (g - mean) : g * p * (1.0 - p);
            ref_set2(&a->dlogits, i, j, a->accumulate ? ref_get2(&a->dlogits, i, j) + dz : dz);
        }
    }
    return MT_OK;
}
