/* Argument checks of row_noise. */
#include "ops/check/check.h"

void mt_check_row_noise(struct mt_check *c, const struct mt_row_noise_args *args)
{
    mt_check_2d(c, "weight", &args->weight, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, args->weight.dim[0], args->weight.dim[1]);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, args->weight.dim[0], args->weight.dim[1]);
    bool inside = args->amount >= 0.0f && args->amount <= 1.0f;
    mt_check_value(c, inside, "amount", (double)args->amount, "0 to 1");
}
