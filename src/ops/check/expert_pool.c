/* Argument checks of expert_pool and pool_mask. */
#include "ops/check/check.h"

void mt_check_expert_pool(struct mt_check *c, const struct mt_expert_pool_args *args)
{
    mt_check_2d(c, "sum", &args->sum, MT_CHECK_F64, MT_ANY, MT_ANY);
    int64_t sequences = args->sum.dim[0];
    int64_t experts = args->sum.dim[1];
    mt_check_1d(c, "rows", &args->rows, MT_CHECK_F64, sequences);
    mt_check_optional_1d(c, "bias", &args->bias, MT_CHECK_STAT, experts);
    mt_check_2d(c, "pool", &args->pool, MT_CHECK_INDEX, sequences, experts);
    mt_check_value(c, args->least >= 1 && args->least <= experts, "least", (double)args->least,
                   "1 to the number of experts");
}

void mt_check_pool_mask(struct mt_check *c, const struct mt_pool_mask_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_optional_1d(c, "segment", &args->segment, MT_CHECK_INDEX, args->x.dim[0]);
    mt_check_2d(c, "pool", &args->pool, MT_CHECK_INDEX, MT_ANY, args->x.dim[1]);
    bool enough = args->pool.dim[0] >= 1 || args->x.dim[0] == 0;
    mt_check_value(c, enough, "the number of pool's rows", (double)args->pool.dim[0], "1 or more");
    if (mt_tensor_present(&args->segment)) mt_check_range(c, "segment", &args->segment, 0, args->pool.dim[0]);
}
