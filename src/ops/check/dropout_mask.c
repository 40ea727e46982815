/* Argument checks of dropout_mask. */
#include "ops/check/check.h"

enum mt_status mt_check_dropout_mask(const struct mt_device *device, const struct mt_dropout_mask_args *args)
{
    bool inside = args->amount >= 0 && args->amount < 1;
    enum mt_status status =
        mt_check_value(device, args->width >= 0, "width", (double)args->width, "0 or more");
    if (status != MT_OK) return status;
    status = mt_check_value(device, inside, "amount", (double)args->amount, "0 or more and less than 1");
    if (status != MT_OK) return status;
    return mt_check_2d(device, "mask", &args->mask, MT_CHECK_INDEX, MT_ANY,
                       args->width / 32 + (args->width % 32 != 0));
}
