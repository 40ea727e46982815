/* sigmoid_gate: y = s x with s = 1/(1 + exp(-g)). Backward: dx = s dy; dg = s (1 - s) <dy, x>. */
#include <math.h>

#include "ops/ref/ref.h"

enum mt_status mt_ref_sigmoid_gate_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_sigmoid_gate_forward_args *a = args;
    for (int64_t r = 0; r < a->x.dim[0]; r++) {
        double sigmoid = 1.0 / (1.0 + exp(-ref_get2(&a->gate, r, 0)));
        for (int64_t j = 0; j < a->x.dim[1]; j++) ref_set2(&a->y, r, j, sigmoid * ref_get2(&a->x, r, j));
    }
    return MT_OK;
}

enum mt_status mt_ref_sigmoid_gate_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_sigmoid_gate_backward_args *a = args;
    for (int64_t r = 0; r < a->dy.dim[0]; r++) {
        double sigmoid = 1.0 / (1.0 + exp(-ref_get2(&a->gate, r, 0)));
        double dot = 0.0;
        for (int64_t j = 0; j < a->dy.dim[1]; j++) {
            double dy = ref_get2(&a->dy, r, j);
            dot += dy * ref_get2(&a->x, r, j);
            ref_set2(&a->dx, r, j, sigmoid * dy); // both were read: it may be either
        }
        ref_set2(&a->dgate, r, 0, sigmoid * (1.0 - sigmoid) * dot);
    }
    return MT_OK;
}
