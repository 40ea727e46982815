/*
 * topk_weights: w_s = scale · p_s, or with normalise scale · p_s / D, D = Σ_m p_m + ε over the chosen.
 * Backward, chosen expert of slot s: scale · g_s, or scale · (g_s / D - Σ_m g_m p_m / D²).
 */
#include "ops/ref/ref.h"

/* The chosen probabilities of token i, added up, plus epsilon; 1 where nothing is normalised. */
static double divisor(const struct mt_tensor *probs, const struct mt_tensor *expert, int64_t i,
                      bool normalise, float epsilon)
{
    if (!normalise) return 1.0;
    double sum = 0.0;
    for (int64_t s = 0; s < expert->dim[1]; s++) {
        int32_t e = ref_int2(expert, i, s);
        if (e >= 0) sum += ref_get2(probs, i, e);
    }
    return sum + (double)epsilon;
}

enum mt_status mt_ref_topk_weights_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_topk_weights_forward_args *a = args;
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        double denominator = divisor(&a->probs, &a->expert, i, a->normalise, a->epsilon);
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            double weight = e < 0 ? 0.0 : (double)a->scale * ref_get2(&a->probs, i, e) / denominator;
            ref_set2(&a->weight, i, s, weight);
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_topk_weights_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_topk_weights_backward_args *a = args;
    int64_t slots = a->expert.dim[1];
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        double denominator = divisor(&a->probs, &a->expert, i, a->normalise, a->epsilon);
        double dot = 0.0; // Σ g p over the chosen
        for (int64_t s = 0; s < slots; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            if (e >= 0) dot += ref_get2(&a->dweight, i, s) * ref_get2(&a->probs, i, e);
        }
        double pull = a->normalise ? dot / (denominator * denominator) : 0.0;
        for (int64_t j = 0; j < a->probs.dim[1] && !a->accumulate; j++) ref_set2(&a->dprobs, i, j, 0.0);
        for (int64_t s = 0; s < slots; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            if (e < 0) continue;
            double dp = (double)a->scale * (ref_get2(&a->dweight, i, s) / denominator - pull);
            ref_set2(&a->dprobs, i, e, ref_get2(&a->dprobs, i, e) + dp);
        }
    }
    return MT_OK;
}
