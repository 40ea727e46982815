/* axpby: y = factor alpha x + beta y; with beta 0 what y held is never read. */
#include "ops/ref/elements.h"

enum mt_status mt_ref_axpby(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_axpby_args *a = args;
    double alpha = (double)a->alpha;
    if (mt_tensor_present(&a->factor)) alpha *= ref_get_element(&a->factor, 0);
    for (int64_t i = 0; i < mt_tensor_count(&a->y); i++) {
        double value = alpha * ref_get_element(&a->x, i);
        if (a->beta != 0.0f) value += (double)a->beta * ref_get_element(&a->y, i);
        ref_set_element(&a->y, i, value);
    }
    return MT_OK;
}
