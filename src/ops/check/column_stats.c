/* Argument checks of column_stats: the number of segments is that of the rows of sum (dsum). */
#include "ops/check/check.h"

void mt_check_column_stats_forward(struct mt_check *c, const struct mt_column_stats_forward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_STAT, MT_ANY, MT_ANY);
    int64_t experts = args->x.dim[1];
    mt_check_2d(c, "sum", &args->sum, MT_CHECK_F64, mt_segments_expected(&args->segment), experts);
    int64_t segments = args->sum.dim[0];
    mt_check_tokens(c, &args->mask, &args->segment, args->x.dim[0], segments);
    mt_check_optional_2d(c, "squares", &args->squares, MT_CHECK_F64, segments, experts);
    mt_check_optional_1d(c, "row_squares", &args->row_squares, MT_CHECK_F64, segments);
    mt_check_optional_1d(c, "rows", &args->rows, MT_CHECK_F64, segments);
}

void mt_check_column_stats_backward(struct mt_check *c, const struct mt_column_stats_backward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_STAT, MT_ANY, MT_ANY);
    int64_t tokens = args->x.dim[0];
    int64_t experts = args->x.dim[1];
    mt_check_2d(c, "dsum", &args->dsum, MT_CHECK_F64, mt_segments_expected(&args->segment), experts);
    int64_t segments = args->dsum.dim[0];
    mt_check_tokens(c, &args->mask, &args->segment, tokens, segments);
    mt_check_optional_2d(c, "dsquares", &args->dsquares, MT_CHECK_F64, segments, experts);
    mt_check_optional_1d(c, "drow_squares", &args->drow_squares, MT_CHECK_F64, segments);
    mt_check_2d(c, "dx", &args->dx, MT_CHECK_STAT, tokens, experts);
}
