/* Argument checks of clamp. */
#include "ops/check/check.h"

enum mt_status mt_check_clamp_forward(const struct mt_device *device,
                                      const struct mt_clamp_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    if (status != MT_OK) return status;
    return mt_check_value(device, args->limit > 0, "limit", (double)args->limit, "more than 0");
}

enum mt_status mt_check_clamp_backward(const struct mt_device *device,
                                       const struct mt_clamp_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dx", &args->dx, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    if (status != MT_OK) return status;
    return mt_check_value(device, args->limit > 0, "limit", (double)args->limit, "more than 0");
}
