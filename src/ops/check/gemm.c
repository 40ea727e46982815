/* Argument checks of the matrix products. */
#include "ops/check/check.h"

enum mt_status mt_check_gemm(const struct mt_device *device, const struct mt_gemm_args *args)
{
    enum mt_status status = mt_check_2d(device, "a", &args->a, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->a.dim[args->transpose_a ? 1 : 0];
    int64_t inner = args->a.dim[args->transpose_a ? 0 : 1];
    status = args->transpose_b ? mt_check_2d(device, "b", &args->b, MT_CHECK_FLOAT, MT_ANY, inner)
                               : mt_check_2d(device, "b", &args->b, MT_CHECK_FLOAT, inner, MT_ANY);
    if (status != MT_OK) return status;
    int64_t columns = args->b.dim[args->transpose_b ? 0 : 1];
    status = mt_check_2d(device, "c", &args->c, MT_CHECK_FLOAT, rows, columns);
    if (status != MT_OK) return status;
    return mt_check_value(device, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

enum mt_status mt_check_grouped_gemm(const struct mt_device *device, const struct mt_grouped_gemm_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->x.dim[0];
    int64_t inner = args->x.dim[1];
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, rows, MT_ANY);
    if (status != MT_OK) return status;
    int64_t columns = args->y.dim[1];
    status =
        mt_check_experts(device, "weight", args->weight, args->experts, MT_CHECK_FLOAT,
                         args->transpose_weight ? columns : inner, args->transpose_weight ? inner : columns);
    if (status != MT_OK) return status;
    status = mt_check_expert_offsets(device, &args->offsets, args->experts, rows);
    if (status != MT_OK) return status;
    return mt_check_value(device, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}

enum mt_status mt_check_grouped_gemm_dw(const struct mt_device *device,
                                        const struct mt_grouped_gemm_dw_args *args)
{
    enum mt_status status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->dy.dim[0];
    status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, rows, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_experts(device, "dweight", args->dweight, args->experts, MT_CHECK_STAT, args->dy.dim[1],
                              args->x.dim[1]);
    if (status != MT_OK) return status;
    status = mt_check_some_offsets(device, &args->offsets, args->experts, rows);
    if (status != MT_OK) return status;
    return mt_check_value(device, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
}
