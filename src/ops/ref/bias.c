/* bias: y_tj = x_tj + b_j; backward db_j += Σ_t dy_tj. */
#include "ops/ref/ref.h"

enum mt_status mt_ref_bias_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_bias_forward_args *a = args;
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            ref_set2(&a->y, t, j, ref_get2(&a->x, t, j) + ref_get1(&a->bias, j));
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_bias_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_bias_backward_args *a = args;
    for (int64_t j = 0; j < a->dy.dim[1]; j++) {
        double sum = ref_get1(&a->dbias, j);
        for (int64_t t = 0; t < a->dy.dim[0]; t++) sum += ref_get2(&a->dy, t, j);
        ref_set1(&a->dbias, j, sum);
    }
    return MT_OK;
}
