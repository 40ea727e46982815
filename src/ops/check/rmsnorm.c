/* Argument checks of rmsnorm. */
#include "ops/check/check.h"

enum mt_status mt_check_rmsnorm_forward(const struct mt_device *device,
                                        const struct mt_rmsnorm_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    status = mt_check_1d(device, "weight", &args->weight, MT_CHECK_FLOAT, width);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->residual)) {
        status = mt_check_2d(device, "residual", &args->residual, MT_CHECK_FLOAT, tokens, width);
        if (status != MT_OK) return status;
        status = mt_check_2d(device, "sum", &args->sum, MT_CHECK_FLOAT, tokens, width);
        if (status != MT_OK) return status;
    }
    if (mt_tensor_present(&args->rstd)) {
        status = mt_check_1d(device, "rstd", &args->rstd, MT_CHECK_STAT, tokens);
        if (status != MT_OK) return status;
    }
    return mt_check_value(device, args->epsilon >= 0, "epsilon", (double)args->epsilon, "0 or more");
}

enum mt_status mt_check_rmsnorm_backward(const struct mt_device *device,
                                         const struct mt_rmsnorm_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "weight", &args->weight, MT_CHECK_FLOAT, width);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "rstd", &args->rstd, MT_CHECK_STAT, tokens);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dx", &args->dx, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK) return status;
    if (!mt_tensor_present(&args->dweight)) return MT_OK;
    return mt_check_1d(device, "dweight", &args->dweight, MT_CHECK_STAT, width);
}
