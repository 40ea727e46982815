/* Argument checks of random_multiply. */
#include "ops/check/check.h"

enum mt_status mt_check_random_multiply(const struct mt_device *device,
                                        const struct mt_random_multiply_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    if (status != MT_OK) return status;
    bool known = args->kind == MT_RANDOM_DROPOUT || args->kind == MT_RANDOM_JITTER;
    status = mt_check_value(device, known, "kind", (double)args->kind, "dropout or jitter");
    if (status != MT_OK) return status;
    bool inside = args->amount >= 0 && args->amount < 1;
    return mt_check_value(device, inside, "amount", (double)args->amount, "0 or more and less than 1");
}
