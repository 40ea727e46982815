/* Argument checks of router_orth. */
#include <math.h>

#include "ops/check/check.h"

/* What forward and backward share: rows, and runs of experts that divide them evenly. */
static enum mt_status check_router(const struct mt_device *device, const struct mt_tensor *weight,
                                   enum mt_router_orth_kind kind, int groups)
{
    enum mt_status status = mt_check_2d(device, "weight", weight, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t experts = weight->dim[0];
    status =
        mt_check_value(device, experts >= 1, "the number of weight's rows", (double)experts, "1 or more");
    if (status != MT_OK) return status;
    bool known = (unsigned)kind <= MT_ROUTER_ORTH_L1;
    status = mt_check_value(device, known, "kind", (double)kind, "cosine or l1");
    if (status != MT_OK) return status;
    bool fits = groups >= 0 && (groups <= 1 || kind == MT_ROUTER_ORTH_COSINE);
    status = mt_check_value(device, fits, "groups", (double)groups,
                            "0 or 1, or more of them with the cosine kind");
    if (status != MT_OK) return status;
    bool even = groups <= 1 || experts % groups == 0;
    return mt_check_value(device, even, "groups", (double)groups, "a divisor of the number of experts");
}

enum mt_status mt_check_router_orth_forward(const struct mt_device *device,
                                            const struct mt_router_orth_forward_args *args)
{
    enum mt_status status = check_router(device, &args->weight, args->kind, args->groups);
    if (status != MT_OK) return status;
    return mt_check_1d(device, "loss", &args->loss, MT_CHECK_F64, 1);
}

enum mt_status mt_check_router_orth_backward(const struct mt_device *device,
                                             const struct mt_router_orth_backward_args *args)
{
    enum mt_status status = check_router(device, &args->weight, args->kind, args->groups);
    if (status != MT_OK) return status;
    bool squares = mt_tensor_present(&args->squares);
    if (squares) status = mt_check_1d(device, "squares", &args->squares, MT_CHECK_F64, 1);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->dweight) || !squares) {
        status = mt_check_like(device, "dweight", &args->dweight, MT_CHECK_FLOAT, &args->weight);
    }
    if (status != MT_OK) return status;
    return mt_check_value(device, isfinite(args->scale), "scale", (double)args->scale, "a finite number");
}
