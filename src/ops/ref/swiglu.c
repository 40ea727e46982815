/*
 * swiglu: y = g s u with s = 1/(1 + exp(-g)).
 * Backward: dg = dy u s (1 + g (1 - s)); du = dy g s.
 */
#include <math.h>

#include "ops/ref/ref.h"

enum mt_status mt_ref_swiglu_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_swiglu_forward_args *a = args;
    for (int64_t r = 0; r < a->y.dim[0]; r++) {
        for (int64_t j = 0; j < a->y.dim[1]; j++) {
            double gate = ref_get2(&a->gate, r, j);
            ref_set2(&a->y, r, j, gate / (1.0 + exp(-gate)) * ref_get2(&a->up, r, j));
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_swiglu_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_swiglu_backward_args *a = args;
    for (int64_t r = 0; r < a->dy.dim[0]; r++) {
        for (int64_t j = 0; j < a->dy.dim[1]; j++) {
            double dy = ref_get2(&a->dy, r, j);
            double gate = ref_get2(&a->gate, r, j);
            double up = ref_get2(&a->up, r, j);
            double sigmoid = 1.0 / (1.0 + exp(-gate));
            ref_set2(&a->dgate, r, j, dy * up * sigmoid * (1.0 + gate * (1.0 - sigmoid)));
            ref_set2(&a->dup, r, j, dy * gate * sigmoid);
            if (mt_tensor_present(&a->y)) ref_set2(&a->y, r, j, gate / (1.0 + exp(-gate)) * up);
        }
    }
    return MT_OK;
}
