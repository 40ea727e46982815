/* Argument checks of adamw. */
#include <math.h>

#include "ops/check/check.h"

/* Kernels walk the tensors as one array. */
static void check_array(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                        enum mt_check_type type, const struct mt_tensor *like)
{
    mt_check_like(c, name, tensor, type, like);
    mt_check_rank(c, name, tensor, 2);
    if (c->status != MT_OK || mt_tensor_count(tensor) == 0 || mt_tensor_is_contiguous(tensor)) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "%s has gaps between its rows, expected none", name);
}

static void check_numbers(struct mt_check *c, const struct mt_adamw_args *args)
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
        mt_check_value(c, numbers[i].ok, numbers[i].name, (double)numbers[i].value, numbers[i].expected);
    }
    mt_check_value(c, args->step >= 1, "step", (double)args->step, "1 or more");
}

void mt_check_adamw(struct mt_check *c, const struct mt_adamw_args *args)
{
    check_array(c, "param", &args->param, MT_CHECK_STAT, NULL);
    check_array(c, "grad", &args->grad, MT_CHECK_STAT, &args->param);
    check_array(c, "m", &args->m, MT_CHECK_STAT, &args->param);
    check_array(c, "v", &args->v, MT_CHECK_STAT, &args->param);
    if (mt_tensor_present(&args->param_copy)) {
        check_array(c, "param_copy", &args->param_copy, MT_CHECK_FLOAT, &args->param);
    }
    check_numbers(c, args);
}
