/* Argument checks of router_zloss: the logarithm of an empty sum is refused. */
#include "ops/check/check.h"

static void check_logits(struct mt_check *c, const struct mt_tensor *logits, const struct mt_tensor *mask)
{
    mt_check_2d(c, "logits", logits, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_value(c, logits->dim[1] >= 1, "the number of logits' columns", (double)logits->dim[1],
                   "1 or more");
    mt_check_optional_1d(c, "mask", mask, MT_CHECK_INDEX, logits->dim[0]);
}

void mt_check_router_zloss_forward(struct mt_check *c, const struct mt_router_zloss_forward_args *args)
{
    check_logits(c, &args->logits, &args->mask);
    mt_check_optional_1d(c, "lse", &args->lse, MT_CHECK_STAT, args->logits.dim[0]);
    mt_check_1d(c, "sum", &args->sum, MT_CHECK_F64, 1);
}

void mt_check_router_zloss_backward(struct mt_check *c, const struct mt_router_zloss_backward_args *args)
{
    check_logits(c, &args->logits, &args->mask);
    mt_check_2d(c, "dlogits", &args->dlogits, MT_CHECK_STAT, args->logits.dim[0], args->logits.dim[1]);
    mt_check_optional_1d(c, "factor", &args->factor, MT_CHECK_F64, 1);
}
