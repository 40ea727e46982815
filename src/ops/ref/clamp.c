/* clamp: y = min(max(x, -limit), limit), NaN stays NaN; backward dx = dy where |x| <= limit, else 0. */
#include <math.h>

#include "ops/ref/ref.h"

enum mt_status mt_ref_clamp_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_clamp_forward_args *a = args;
    double limit = (double)a->limit;
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            double value = ref_get2(&a->x, t, j);
            if (value < -limit) value = -limit;
            if (value > limit) value = limit;
            ref_set2(&a->y, t, j, value);
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_clamp_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_clamp_backward_args *a = args;
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            bool inside = fabs(ref_get2(&a->x, t, j)) <= (double)a->limit;
            ref_set2(&a->dx, t, j, inside ? ref_get2(&a->dy, t, j) : 0.0);
        }
    }
    return MT_OK;
}
