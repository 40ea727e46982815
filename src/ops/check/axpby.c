/* Argument checks of axpby. */
#include "ops/check/check.h"

void mt_check_axpby(struct mt_check *c, const struct mt_axpby_args *args)
{
    mt_check_like(c, "x", &args->x, MT_CHECK_FLOAT, NULL);
    mt_check_rank(c, "x", &args->x, 2);
    mt_check_like(c, "y", &args->y, MT_CHECK_FLOAT, &args->x);
    mt_check_optional_1d(c, "factor", &args->factor, MT_CHECK_STAT, 1);
}
