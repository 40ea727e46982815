/* Argument checks of adamw. */
#include <math.h>

#include "ops/check/check.h"

/* Kernels walk the tensors as one array. */
static enum mt_status check_array(const struct mt_device *device, const char *name,
                                  const struct mt_tensor *tensor, enum mt_check_type type,
                                  const struct mt_tensor *like)
{
    enum mt_status status = mt_check_like(device, name, tensor, type, like);
    if (status != MT_OK) return status;
    if (tensor->rank > 2) {
        return mt_fail(device->ctx, MT_ERR_SHAPE, "%s has %d dimensions, expected 1 or 2", name,
                       tensor->rank);
    }
    if (mt_tensor_count(tensor) == 0 || mt_tensor_is_contiguous(tensor)) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_SHAPE, "%s has gaps between its rows, expected none", name);
}

static enum mt_status check_numbers(const struct mt_device *device, const struct mt_adamw_args *args)
{
    const struct {
        const char *name;
        float value;
        bool ok;
        const char *expected;
    } numbers[] = {
        {"learning_rate", args->learning_rate, args->learning_rate >= 0, "0 or more"},
        {"beta1", args->beta1, args->beta1 >= 0 && args->beta1 < 1, "0 or more and less than 1"},
        {"beta2", args->beta2, args->beta2 >= 0 && args->beta2 < 1, "0 or more and less than 1"},
        {"epsilon", args->epsilon, args->epsilon > 0, "more than 0"},
        {"weight_decay", args->weight_decay, args->weight_decay >= 0, "0 or more"},
        {"grad_scale", args->grad_scale, args->grad_scale != 0 && isfinite(args->grad_scale),
         "a finite number other than 0"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        enum mt_status status = mt_check_value(device, numbers[i].ok, numbers[i].name,
                                               (double)numbers[i].value, numbers[i].expected);
        if (status != MT_OK) return status;
    }
    return mt_check_value(device, args->step >= 1, "step", (double)args->step, "1 or more");
}

enum mt_status mt_check_adamw(const struct mt_device *device, const struct mt_adamw_args *args)
{
    enum mt_status status = check_array(device, "param", &args->param, MT_CHECK_STAT, NULL);
    if (status != MT_OK) return status;
    status = check_array(device, "grad", &args->grad, MT_CHECK_STAT, &args->param);
    if (status != MT_OK) return status;
    status = check_array(device, "m", &args->m, MT_CHECK_STAT, &args->param);
    if (status != MT_OK) return status;
    status = check_array(device, "v", &args->v, MT_CHECK_STAT, &args->param);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->param_copy)) {
        status = check_array(device, "param_copy", &args->param_copy, MT_CHECK_FLOAT, &args->param);
        if (status != MT_OK) return status;
    }
    return check_numbers(device, args);
}
