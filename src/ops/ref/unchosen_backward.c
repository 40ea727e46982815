/* unchosen_backward: the definition. */
#include "ops/ref/ref.h"

enum mt_status mt_ref_unchosen_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_unchosen_backward_args *a = args;
    for (int64_t i = 0; i < a->dy.dim[0]; i++) {
        double divisor = a->normalise ? (double)a->epsilon : 1.0;
        bool chosen = false;
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            chosen = chosen || e == a->number;
            if (a->normalise && e >= 0) divisor += ref_get2(&a->probs, i, e);
        }
        if (chosen) continue;
        double dot = 0.0;
        for (int64_t c = 0; c < a->dy.dim[1]; c++)
            dot += ref_get2(&a->dy, i, c) * ref_get2(&a->outputs, i, c);
        double before = ref_get2(&a->dprobs, i, a->number);
        ref_set2(&a->dprobs, i, a->number, before + (double)a->scale / divisor * dot);
    }
    return MT_OK;
}
