/* fill: every element becomes one value. */
#include "ops/ref/elements.h"

enum mt_status mt_ref_fill(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_fill_args *a = args;
    for (int64_t i = 0; i < mt_tensor_count(&a->y); i++) ref_set_element(&a->y, i, (double)a->value);
    return MT_OK;
}
