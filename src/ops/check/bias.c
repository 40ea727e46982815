/* Argument checks of bias. */
#include "ops/check/check.h"

void mt_check_bias_forward(struct mt_check *c, const struct mt_bias_forward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_1d(c, "bias", &args->bias, MT_CHECK_FLOAT, args->x.dim[1]);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
}

void mt_check_bias_backward(struct mt_check *c, const struct mt_bias_backward_args *args)
{
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_1d(c, "dbias", &args->dbias, MT_CHECK_STAT, args->dy.dim[1]);
}
