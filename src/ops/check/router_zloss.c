/* Argument checks of router_zloss: the logarithm of an empty sum is refused. */
#include "ops/check/tokens.h"

static enum mt_status check_logits(const struct mt_device *device, const struct mt_tensor *logits,
                                   const struct mt_tensor *mask)
{
    enum mt_status status = mt_check_2d(device, "logits", logits, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_value(device, logits->dim[1] >= 1, "the number of logits' columns",
                            (double)logits->dim[1], "1 or more");
    if (status != MT_OK) return status;
    return check_mask(device, mask, logits->dim[0]);
}

enum mt_status mt_check_router_zloss_forward(const struct mt_device *device,
                                             const struct mt_router_zloss_forward_args *args)
{
    enum mt_status status = check_logits(device, &args->logits, &args->mask);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->lse)) {
        status = mt_check_1d(device, "lse", &args->lse, MT_CHECK_STAT, args->logits.dim[0]);
        if (status != MT_OK) return status;
    }
    return mt_check_1d(device, "sum", &args->sum, MT_CHECK_F64, 1);
}

enum mt_status mt_check_router_zloss_backward(const struct mt_device *device,
                                              const struct mt_router_zloss_backward_args *args)
{
    enum mt_status status = check_logits(device, &args->logits, &args->mask);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dlogits", &args->dlogits, MT_CHECK_STAT, args->logits.dim[0],
                       args->logits.dim[1]);
}
