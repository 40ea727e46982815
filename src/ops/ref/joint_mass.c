/*
 * joint_mass: product = m m', m = Σ_s P[e_s] / S, S = Σ_j P_j or, without normalise_rows, 1.
 * Backward: dP_j += dproduct m' (how often j was chosen - m) / S; without normalise_rows the m is not there.
 */
#include "ops/ref/tokens.h"

static double row_sum(const struct mt_tensor *probs, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; j < probs->dim[1]; j++) sum += ref_get2(probs, i, j);
    return sum;
}

static double mass_of(const struct mt_tensor *probs, const struct mt_tensor *expert, bool normalise,
                      int64_t i)
{
    double mass = 0.0;
    for (int64_t s = 0; s < expert->dim[1]; s++) {
        int32_t chosen = ref_int2(expert, i, s);
        if (chosen >= 0) mass += ref_get2(probs, i, chosen);
    }
    return normalise ? mass / row_sum(probs, i) : mass;
}

enum mt_status mt_ref_joint_mass_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_joint_mass_forward_args *a = args;
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        double product = 0.0;
        if (token_counts(&a->mask, i))
            product = mass_of(&a->probs, &a->expert, a->normalise_rows, i) *
                      mass_of(&a->other_probs, &a->other_expert, a->normalise_rows, i);
        ref_set1(&a->product, i, product);
    }
    return MT_OK;
}

enum mt_status mt_ref_joint_mass_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_joint_mass_backward_args *a = args;
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        if (!token_counts(&a->mask, i)) continue;
        double pull =
            ref_get1(&a->dproduct, 0) * mass_of(&a->other_probs, &a->other_expert, a->normalise_rows, i);
        if (a->normalise_rows) {
            pull /= row_sum(&a->probs, i);
            double mass = mass_of(&a->probs, &a->expert, true, i);
            for (int64_t j = 0; j < a->probs.dim[1]; j++) ref_add2(&a->dprobs, i, j, -pull * mass);
        }
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t chosen = ref_int2(&a->expert, i, s);
            if (chosen >= 0) ref_add2(&a->dprobs, i, chosen, pull);
        }
    }
    return MT_OK;
}
