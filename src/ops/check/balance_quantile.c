/* Argument checks of balance_quantile. */
#include "ops/check/check.h"

void mt_check_balance_quantile(struct mt_check *c, const struct mt_balance_quantile_args *args)
{
    mt_check_2d(c, "probs", &args->probs, MT_CHECK_STAT, MT_ANY, MT_ANY);
    int64_t tokens = args->probs.dim[0];
    int64_t experts = args->probs.dim[1];
    mt_check_optional_1d(c, "bias", &args->bias, MT_CHECK_STAT, experts);
    mt_check_optional_1d(c, "mask", &args->mask, MT_CHECK_INDEX, tokens);
    mt_check_2d(c, "margin", &args->margin, MT_CHECK_STAT, experts, tokens);
    mt_check_value(c, args->margin.dtype == args->probs.dtype, "the type of margin",
                   (double)args->margin.dtype, "that of probs");
    mt_check_1d(c, "sum", &args->sum, MT_CHECK_F64, experts);
    mt_check_1d(c, "rows", &args->rows, MT_CHECK_F64, 1);
    mt_check_value(c, args->slots >= 1 && args->slots < experts, "slots", (double)args->slots,
                   "1 to less than the number of experts");
}
