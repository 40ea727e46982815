/* Argument checks of layernorm. */
#include "ops/check/check.h"

/* mean and rstd of forward: both or neither. */
static enum mt_status check_saved(const struct mt_device *device,
                                  const struct mt_layernorm_forward_args *args)
{
    if (!mt_tensor_present(&args->mean) && !mt_tensor_present(&args->rstd)) return MT_OK;
    enum mt_status status = mt_check_1d(device, "mean", &args->mean, MT_CHECK_STAT, args->x.dim[0]);
    if (status != MT_OK) return status;
    return mt_check_1d(device, "rstd", &args->rstd, MT_CHECK_STAT, args->x.dim[0]);
}

enum mt_status mt_check_layernorm_forward(const struct mt_device *device,
                                          const struct mt_layernorm_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    status = mt_check_1d(device, "weight", &args->weight, MT_CHECK_FLOAT, width);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "bias", &args->bias, MT_CHECK_FLOAT, width);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->residual)) {
        status = mt_check_2d(device, "residual", &args->residual, MT_CHECK_FLOAT, tokens, width);
        if (status != MT_OK) return status;
        status = mt_check_2d(device, "sum", &args->sum, MT_CHECK_FLOAT, tokens, width);
        if (status != MT_OK) return status;
    }
    status = check_saved(device, args);
    if (status != MT_OK) return status;
    return mt_check_value(device, args->epsilon >= 0, "epsilon", (double)args->epsilon, "0 or more");
}

enum mt_status mt_check_layernorm_backward(const struct mt_device *device,
                                           const struct mt_layernorm_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "weight", &args->weight, MT_CHECK_FLOAT, width);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "mean", &args->mean, MT_CHECK_STAT, tokens);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "rstd", &args->rstd, MT_CHECK_STAT, tokens);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dx", &args->dx, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->dweight)) {
        status = mt_check_1d(device, "dweight", &args->dweight, MT_CHECK_STAT, width);
        if (status != MT_OK) return status;
    }
    if (!mt_tensor_present(&args->dbias)) return MT_OK;
    return mt_check_1d(device, "dbias", &args->dbias, MT_CHECK_STAT, width);
}
