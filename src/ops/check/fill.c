/* Argument checks of fill. */
#include <math.h>

#include "ops/check/check.h"

void mt_check_fill(struct mt_check *c, const struct mt_fill_args *args)
{
    bool integers = mt_tensor_present(&args->y) && args->y.dtype == MT_I32;
    enum mt_check_type type = integers ? MT_CHECK_INDEX : MT_CHECK_FLOAT;
    mt_check_like(c, "y", &args->y, type, NULL);
    if (!integers) return;
    bool whole =
        args->value >= -2147483648.0f && args->value < 2147483648.0f && truncf(args->value) == args->value;
    mt_check_value(c, whole, "value", (double)args->value, "a whole number that fits i32");
}
