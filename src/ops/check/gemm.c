/* Argument checks of the matrix products. */
#include "ops/check/check.h"

void mt_check_gemm(struct mt_check *c, const struct mt_gemm_args *args)
{
    mt_check_2d(c, "a", &args->a, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->a.dim[args->transpose_a ? 1 : 0];
    int64_t inner = args->a.dim[args->transpose_a ? 0 : 1];
    mt_check_2d(c, "b", &args->b, MT_CHECK_FLOAT, args->transpose_b ? MT_ANY : inner,
                args->transpose_b ? inner : MT_ANY);
    int64_t columns = args->b.dim[args->transpose_b ? 0 : 1];
    mt_check_2d(c, "c", &args->c, MT_CHECK_FLOAT, rows, columns);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

void mt_check_grouped_gemm(struct mt_check *c, const struct mt_grouped_gemm_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->x.dim[0];
    int64_t inner = args->x.dim[1];
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, rows, MT_ANY);
    int64_t columns = args->y.dim[1];
    mt_check_experts(c, "weight", args->weight, args->experts, MT_CHECK_FLOAT,
                     args->transpose_weight ? columns : inner, args->transpose_weight ? inner : columns);
    mt_check_expert_offsets(c, &args->offsets, args->experts, rows);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

void mt_check_head_gemm(struct mt_check *c, const struct mt_head_gemm_args *args)
{
    mt_check_3d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    int64_t heads = args->x.dim[1];
    int64_t inner = args->x.dim[2];
    mt_check_3d(c, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], heads, MT_ANY);
    int64_t columns = args->y.dim[2];
    mt_check_value(c, heads <= INT32_MAX, "the number of heads", (double)heads, "less than 2^31");
    if (heads > 0) {
        mt_check_experts(c, "weight", args->weight, (int)heads, MT_CHECK_FLOAT,
                         args->transpose_weight ? columns : inner, args->transpose_weight ? inner : columns);
    }
    for (int64_t h = 0; h < heads && c->status == MT_OK; h++) {
        if (!mt_tensor_present(&args->weight[h]))
            c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "a head has no weight");
    }
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

void mt_check_grouped_gemm_dw(struct mt_check *c, const struct mt_grouped_gemm_dw_args *args)
{
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->dy.dim[0];
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, rows, MT_ANY);
    mt_check_experts(c, "dweight", args->dweight, args->experts, MT_CHECK_STAT, args->dy.dim[1],
                     args->x.dim[1]);
    mt_check_some_offsets(c, &args->offsets, args->experts, rows);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}
