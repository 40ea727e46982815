/* Argument checks of reduce. */
#include "ops/check/check.h"

void mt_check_reduce(struct mt_check *c, const struct mt_reduce_args *args)
{
    mt_check_like(c, "x", &args->x, MT_CHECK_FLOAT, NULL);
    mt_check_rank(c, "x", &args->x, 2);
    mt_check_1d(c, "out", &args->out, MT_CHECK_F64, 1);
    bool known = (unsigned)args->kind <= MT_REDUCE_NONFINITE;
    mt_check_value(c, known, "kind", (double)args->kind, "sum, sum of squares, max abs or nonfinite");
}
