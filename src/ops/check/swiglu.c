/* Argument checks of swiglu. */
#include "ops/check/check.h"

enum mt_status mt_check_swiglu_forward(const struct mt_device *device,
                                       const struct mt_swiglu_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "gate", &args->gate, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->gate.dim[0];
    int64_t width = args->gate.dim[1];
    status = mt_check_2d(device, "up", &args->up, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, rows, width);
}

enum mt_status mt_check_swiglu_backward(const struct mt_device *device,
                                        const struct mt_swiglu_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "gate", &args->gate, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->gate.dim[0];
    int64_t width = args->gate.dim[1];
    status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "up", &args->up, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dgate", &args->dgate, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dup", &args->dup, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK || !mt_tensor_present(&args->y)) return status;
    return mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, rows, width);
}
