/* Argument checks of sigmoid_gate. */
#include "ops/check/check.h"

enum mt_status mt_check_sigmoid_gate_forward(const struct mt_device *device,
                                             const struct mt_sigmoid_gate_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "gate", &args->gate, MT_CHECK_FLOAT, args->x.dim[0], 1);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
}

enum mt_status mt_check_sigmoid_gate_backward(const struct mt_device *device,
                                              const struct mt_sigmoid_gate_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->dy.dim[0];
    int64_t width = args->dy.dim[1];
    status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "gate", &args->gate, MT_CHECK_FLOAT, rows, 1);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dx", &args->dx, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dgate", &args->dgate, MT_CHECK_FLOAT, rows, 1);
}
