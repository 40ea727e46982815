/* Argument checks of random_multiply. */
#include "ops/check/check.h"

void mt_check_random_multiply(struct mt_check *c, const struct mt_random_multiply_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    bool known = args->kind == MT_RANDOM_DROPOUT || args->kind == MT_RANDOM_JITTER;
    mt_check_value(c, known, "kind", (double)args->kind, "dropout or jitter");
    bool inside = args->amount >= 0 && args->amount < 1;
    mt_check_value(c, inside, "amount", (double)args->amount, "0 or more and less than 1");
}
