/* Argument checks of copy. */
#include "ops/check/check.h"

enum mt_status mt_check_copy(const struct mt_device *device, const struct mt_copy_args *args)
{
    bool integers = mt_tensor_present(&args->x) && args->x.dtype == MT_I32;
    enum mt_check_type type = integers ? MT_CHECK_INDEX : MT_CHECK_FLOAT;
    enum mt_status status = mt_check_like(device, "x", &args->x, type, NULL);
    if (status != MT_OK) return status;
    return mt_check_like(device, "y", &args->y, type, &args->x);
}
