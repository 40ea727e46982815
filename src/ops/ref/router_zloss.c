/*
 * router_zloss: lse = m + log Σ_j exp(z_j - m), m = max z; sum = Σ_i lse².
 * Backward: dz_j = scale · factor · 2 lse · exp(z_j - lse).
 */
#include <math.h>

#include "ops/ref/tokens.h"

static double row_lse(const struct mt_tensor *logits, int64_t i)
{
    double highest = -INFINITY;
    for (int64_t j = 0; j < logits->dim[1]; j++) highest = fmax(highest, ref_get2(logits, i, j));
    double sum = 0.0;
    for (int64_t j = 0; j < logits->dim[1]; j++) sum += exp(ref_get2(logits, i, j) - highest);
    return sum == 0.0 ? -INFINITY : highest + log(sum);
}

enum mt_status mt_ref_router_zloss_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_zloss_forward_args *a = args;
    double sum = 0.0;
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        double lse = token_counts(&a->mask, i) ? row_lse(&a->logits, i) : 0.0;
        if (mt_tensor_present(&a->lse)) ref_set1(&a->lse, i, lse);
        sum += lse * lse;
    }
    ref_set1(&a->sum, 0, sum);
    return MT_OK;
}

enum mt_status mt_ref_router_zloss_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_zloss_backward_args *a = args;
    double scale = (double)ref_scale(a->scale, &a->factor);
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        bool counts = token_counts(&a->mask, i);
        double lse = counts ? row_lse(&a->logits, i) : 0.0;
        for (int64_t j = 0; j < a->logits.dim[1]; j++) {
            double probability = counts ? exp(ref_get2(&a->logits, i, j) - lse) : 0.0;
            double dz = scale * 2.0 * lse * probability;
            ref_set2(&a->dlogits, i, j, a->accumulate ? ref_get2(&a->dlogits, i, j) + dz : dz);
        }
    }
    return MT_OK;
}
