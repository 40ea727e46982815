/* Argument checks of rmsnorm. */
#include "ops/check/check.h"

void mt_check_rmsnorm_forward(struct mt_check *c, const struct mt_rmsnorm_forward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    mt_check_1d(c, "weight", &args->weight, MT_CHECK_FLOAT, width);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, tokens, width);
    if (mt_tensor_present(&args->residual)) {
        mt_check_2d(c, "residual", &args->residual, MT_CHECK_FLOAT, tokens, width);
        mt_check_2d(c, "sum", &args->sum, MT_CHECK_FLOAT, tokens, width);
    }
    mt_check_optional_1d(c, "rstd", &args->rstd, MT_CHECK_STAT, tokens);
    mt_check_value(c, args->epsilon >= 0, "epsilon", (double)args->epsilon, "0 or more");
}

void mt_check_rmsnorm_backward(struct mt_check *c, const struct mt_rmsnorm_backward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, tokens, width);
    mt_check_1d(c, "weight", &args->weight, MT_CHECK_FLOAT, width);
    mt_check_1d(c, "rstd", &args->rstd, MT_CHECK_STAT, tokens);
    mt_check_2d(c, "dx", &args->dx, MT_CHECK_FLOAT, tokens, width);
    mt_check_optional_1d(c, "dweight", &args->dweight, MT_CHECK_STAT, width);
}
