/* Argument checks of copy. */
#include "ops/check/check.h"

static enum mt_status check_placed(const struct mt_device *device, const struct mt_copy_args *args,
                                   enum mt_check_type type)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, type, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "y", &args->y, type, MT_ANY, args->x.dim[1]);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "place", &args->place, MT_CHECK_INDEX, args->x.dim[0]);
    if (status != MT_OK) return status;
    return mt_check_range(device, "place", &args->place, 0, args->y.dim[0]);
}

enum mt_status mt_check_copy(const struct mt_device *device, const struct mt_copy_args *args)
{
    bool integers = mt_tensor_present(&args->x) && args->x.dtype == MT_I32;
    enum mt_check_type type = integers ? MT_CHECK_INDEX : MT_CHECK_FLOAT;
    if (mt_tensor_present(&args->place)) return check_placed(device, args, type);
    enum mt_status status = mt_check_like(device, "x", &args->x, type, NULL);
    if (status != MT_OK) return status;
    return mt_check_like(device, "y", &args->y, type, &args->x);
}
