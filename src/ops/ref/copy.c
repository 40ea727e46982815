/* copy: y = x, rounded once to y's type. */
#include "ops/ref/elements.h"

enum mt_status mt_ref_copy(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_copy_args *a = args;
    if (mt_tensor_present(&a->place)) {
        const int32_t *place = a->place.data;
        for (int64_t i = 0; i < a->x.dim[0]; i++) {
            for (int64_t j = 0; j < a->x.dim[1]; j++) ref_set2(&a->y, place[i], j, ref_get2(&a->x, i, j));
        }
        return MT_OK;
    }
    for (int64_t i = 0; i < mt_tensor_count(&a->y); i++) {
        ref_set_element(&a->y, i, ref_get_element(&a->x, i));
    }
    return MT_OK;
}
