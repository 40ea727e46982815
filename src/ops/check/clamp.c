/* Argument checks of clamp. */
#include "ops/check/check.h"

void mt_check_clamp_forward(struct mt_check *c, const struct mt_clamp_forward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    mt_check_value(c, args->limit > 0, "limit", (double)args->limit, "more than 0");
}

void mt_check_clamp_backward(struct mt_check *c, const struct mt_clamp_backward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    mt_check_2d(c, "dx", &args->dx, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
    mt_check_value(c, args->limit > 0, "limit", (double)args->limit, "more than 0");
}
