/* Argument checks of dropout_bits. */
#include "ops/check/check.h"
#include "ops/dropout.h"

enum mt_status mt_check_dropout_bits(const struct mt_device *device, const struct mt_dropout_bits_args *args)
{
    enum mt_status status =
        mt_check_value(device, args->columns >= 0, "columns", (double)args->columns, "0 or more");
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "bits", &args->bits, MT_CHECK_INDEX, MT_ANY, mt_mask_words(args->columns));
    if (status != MT_OK) return status;
    bool inside = args->amount >= 0 && args->amount < 1;
    return mt_check_value(device, inside, "amount", (double)args->amount, "0 or more and less than 1");
}
