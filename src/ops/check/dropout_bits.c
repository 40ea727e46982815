/* Argument checks of dropout_bits. */
#include "ops/check/check.h"
#include "ops/dropout.h"

void mt_check_dropout_bits(struct mt_check *c, const struct mt_dropout_bits_args *args)
{
    mt_check_value(c, args->columns >= 0, "columns", (double)args->columns, "0 or more");
    mt_check_2d(c, "bits", &args->bits, MT_CHECK_INDEX, MT_ANY, mt_mask_words(args->columns));
    bool inside = args->amount >= 0 && args->amount < 1;
    mt_check_value(c, inside, "amount", (double)args->amount, "0 or more and less than 1");
}
