/* Argument checks of axpby. */
#include "ops/check/check.h"

enum mt_status mt_check_axpby(const struct mt_device *device, const struct mt_axpby_args *args)
{
    enum mt_status status = mt_check_like(device, "x", &args->x, MT_CHECK_FLOAT, NULL);
    if (status != MT_OK) return status;
    if (args->x.rank > 2) {
        return mt_fail(device->ctx, MT_ERR_SHAPE, "x has %d dimensions, expected 1 or 2", args->x.rank);
    }
    return mt_check_like(device, "y", &args->y, MT_CHECK_FLOAT, &args->x);
}
