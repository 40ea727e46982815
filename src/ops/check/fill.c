/* Argument checks of fill. */
#include <math.h>

#include "ops/check/check.h"

enum mt_status mt_check_fill(const struct mt_device *device, const struct mt_fill_args *args)
{
    bool integers = mt_tensor_present(&args->y) && args->y.dtype == MT_I32;
    enum mt_check_type type = integers ? MT_CHECK_INDEX : MT_CHECK_FLOAT;
    enum mt_status status = mt_check_like(device, "y", &args->y, type, NULL);
    if (status != MT_OK || !integers) return status;
    bool whole =
        args->value >= -2147483648.0f && args->value < 2147483648.0f && truncf(args->value) == args->value;
    return mt_check_value(device, whole, "value", (double)args->value, "a whole number that fits i32");
}
