/* Argument checks of bias. */
#include "ops/check/check.h"

enum mt_status mt_check_bias_forward(const struct mt_device *device, const struct mt_bias_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "bias", &args->bias, MT_CHECK_FLOAT, args->x.dim[1]);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
}

enum mt_status mt_check_bias_backward(const struct mt_device *device,
                                      const struct mt_bias_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    return mt_check_1d(device, "dbias", &args->dbias, MT_CHECK_STAT, args->dy.dim[1]);
}
