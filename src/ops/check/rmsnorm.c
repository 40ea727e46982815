/* Argument checks of rmsnorm. */
#include "ops/check/check.h"

/* What is optional: absent, or [tokens, width]. */
static enum mt_status check_rest(const struct mt_device *device, const char *name,
                                 const struct mt_tensor *rest, const struct mt_tensor *x)
{
    if (!mt_tensor_present(rest)) return MT_OK;
    return mt_check_2d(device, name, rest, MT_CHECK_FLOAT, x->dim[0], x->dim[1]);
}

static enum mt_status check_rests(const struct mt_device *device, const struct mt_rmsnorm_forward_args *args)
{
    bool residual = mt_tensor_present(&args->residual);
    bool of_sum = mt_tensor_present(&args->residual_rest) || mt_tensor_present(&args->sum_rest);
    if (residual ? mt_tensor_present(&args->x_rest) : of_sum)
        return mt_fail(device->ctx, MT_ERR_USAGE, "%s",
                       residual ? "x_rest with a residual: expected residual_rest"
                                : "residual_rest or sum_rest without a residual: expected x_rest");
    enum mt_status status = check_rest(device, "x_rest", &args->x_rest, &args->x);
    if (status == MT_OK) status = check_rest(device, "residual_rest", &args->residual_rest, &args->x);
    return status == MT_OK ? check_rest(device, "sum_rest", &args->sum_rest, &args->x) : status;
}

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
    status = check_rests(device, args);
    if (status != MT_OK) return status;
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
    if (status == MT_OK) status = check_rest(device, "dx_rest", &args->dx_rest, &args->x);
    if (status != MT_OK) return status;
    if (!mt_tensor_present(&args->dweight)) return MT_OK;
    return mt_check_1d(device, "dweight", &args->dweight, MT_CHECK_STAT, width);
}
