/* Argument checks of swiglu. */
#include "ops/check/check.h"

void mt_check_swiglu_forward(struct mt_check *c, const struct mt_swiglu_forward_args *args)
{
    mt_check_2d(c, "gate", &args->gate, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->gate.dim[0];
    int64_t width = args->gate.dim[1];
    mt_check_2d(c, "up", &args->up, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, rows, width);
}

void mt_check_swiglu_backward(struct mt_check *c, const struct mt_swiglu_backward_args *args)
{
    mt_check_2d(c, "gate", &args->gate, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->gate.dim[0];
    int64_t width = args->gate.dim[1];
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "up", &args->up, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "dgate", &args->dgate, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "dup", &args->dup, MT_CHECK_FLOAT, rows, width);
    mt_check_optional_2d(c, "y", &args->y, MT_CHECK_FLOAT, rows, width);
}
