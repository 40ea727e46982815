/* Argument checks of sigmoid_gate. */
#include "ops/check/check.h"

void mt_check_sigmoid_gate_forward(struct mt_check *c, const struct mt_sigmoid_gate_forward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "gate", &args->gate, MT_CHECK_FLOAT, args->x.dim[0], 1);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1]);
}

void mt_check_sigmoid_gate_backward(struct mt_check *c, const struct mt_sigmoid_gate_backward_args *args)
{
    int64_t rows = args->dy.dim[0];
    int64_t width = args->dy.dim[1];
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "gate", &args->gate, MT_CHECK_FLOAT, rows, 1);
    mt_check_2d(c, "dx", &args->dx, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "dgate", &args->dgate, MT_CHECK_FLOAT, rows, 1);
}
