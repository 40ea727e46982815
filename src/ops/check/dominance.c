/* Argument checks of dominance. */
#include <math.h>

#include "ops/check/check.h"

static void check_matrix(struct mt_check *c, const struct mt_tensor *squares, float alpha)
{
    mt_check_2d(c, "squares", squares, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "squares", squares, MT_CHECK_STAT, squares->dim[0], squares->dim[0]);
    mt_check_value(c, squares->dim[0] >= 1, "the number of squares' rows", (double)squares->dim[0],
                   "1 or more");
    bool usable = isfinite(alpha) && alpha >= 0.0f;
    mt_check_value(c, usable, "alpha", (double)alpha, "finite and not negative");
}

void mt_check_dominance_forward(struct mt_check *c, const struct mt_dominance_forward_args *args)
{
    check_matrix(c, &args->squares, args->alpha);
    mt_check_1d(c, "loss", &args->loss, MT_CHECK_F64, 1);
}

void mt_check_dominance_backward(struct mt_check *c, const struct mt_dominance_backward_args *args)
{
    int64_t experts = args->squares.dim[0];
    check_matrix(c, &args->squares, args->alpha);
    mt_check_1d(c, "dloss", &args->dloss, MT_CHECK_F64, 1);
    if (mt_tensor_present(&args->coupling) || !mt_tensor_present(&args->sum))
        mt_check_2d(c, "coupling", &args->coupling, MT_CHECK_STAT, experts, experts);
    mt_check_optional_1d(c, "sum", &args->sum, MT_CHECK_F64, 1);
}
