/* Argument checks of column_stats: the number of segments is that of the rows of sum (dsum). */
#include "ops/check/tokens.h"

enum mt_status mt_check_column_stats_forward(const struct mt_device *device,
                                             const struct mt_column_stats_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t experts = args->x.dim[1];
    status = mt_check_2d(device, "sum", &args->sum, MT_CHECK_F64, segments_expected(&args->segment), experts);
    if (status != MT_OK) return status;
    int64_t segments = args->sum.dim[0];
    status = check_tokens(device, &args->mask, &args->segment, args->x.dim[0], segments);
    if (status != MT_OK) return status;
    status = check_optional_columns(device, "squares", &args->squares, segments, experts);
    if (status != MT_OK) return status;
    status = check_optional_scalars(device, "row_squares", &args->row_squares, segments);
    if (status != MT_OK) return status;
    return check_optional_scalars(device, "rows", &args->rows, segments);
}

enum mt_status mt_check_column_stats_backward(const struct mt_device *device,
                                              const struct mt_column_stats_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->x.dim[0];
    int64_t experts = args->x.dim[1];
    status =
        mt_check_2d(device, "dsum", &args->dsum, MT_CHECK_F64, segments_expected(&args->segment), experts);
    if (status != MT_OK) return status;
    int64_t segments = args->dsum.dim[0];
    status = check_tokens(device, &args->mask, &args->segment, tokens, segments);
    if (status != MT_OK) return status;
    status = check_optional_columns(device, "dsquares", &args->dsquares, segments, experts);
    if (status != MT_OK) return status;
    status = check_optional_scalars(device, "drow_squares", &args->drow_squares, segments);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dx", &args->dx, MT_CHECK_STAT, tokens, experts);
}
