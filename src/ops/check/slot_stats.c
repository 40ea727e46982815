/* Argument checks of slot_stats: segments and experts are counted by the dimensions of count (dsum). */
#include "ops/check/check.h"

void mt_check_slot_stats_forward(struct mt_check *c, const struct mt_slot_stats_forward_args *args)
{
    mt_check_2d(c, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    int64_t tokens = args->expert.dim[0];
    mt_check_2d(c, "count", &args->count, MT_CHECK_F64, mt_segments_expected(&args->segment), MT_ANY);
    int64_t segments = args->count.dim[0];
    int64_t experts = args->count.dim[1];
    mt_check_range(c, "expert", &args->expert, -1, experts);
    mt_check_tokens(c, &args->mask, &args->segment, tokens, segments);
    mt_check_optional_2d(c, "first", &args->first, MT_CHECK_F64, segments, experts);
    mt_check_optional_2d(c, "sum", &args->sum, MT_CHECK_F64, segments, experts);
    mt_check_optional_2d(c, "squares", &args->squares, MT_CHECK_F64, segments, experts);
    mt_check_optional_1d(c, "row_squares", &args->row_squares, MT_CHECK_F64, segments);
    mt_check_optional_1d(c, "rows", &args->rows, MT_CHECK_F64, segments);
    bool weighs = mt_tensor_present(&args->sum) || mt_tensor_present(&args->squares) ||
                  mt_tensor_present(&args->row_squares);
    if (!weighs && !mt_tensor_present(&args->weight)) return;
    mt_check_2d(c, "weight", &args->weight, MT_CHECK_STAT, tokens, args->expert.dim[1]);
}

void mt_check_slot_stats_backward(struct mt_check *c, const struct mt_slot_stats_backward_args *args)
{
    mt_check_2d(c, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    int64_t tokens = args->expert.dim[0];
    int64_t slots = args->expert.dim[1];
    mt_check_2d(c, "weight", &args->weight, MT_CHECK_STAT, tokens, slots);
    mt_check_2d(c, "dsum", &args->dsum, MT_CHECK_F64, mt_segments_expected(&args->segment), MT_ANY);
    int64_t segments = args->dsum.dim[0];
    int64_t experts = args->dsum.dim[1];
    mt_check_range(c, "expert", &args->expert, -1, experts);
    mt_check_tokens(c, &args->mask, &args->segment, tokens, segments);
    mt_check_optional_2d(c, "dsquares", &args->dsquares, MT_CHECK_F64, segments, experts);
    mt_check_optional_1d(c, "drow_squares", &args->drow_squares, MT_CHECK_F64, segments);
    mt_check_2d(c, "dweight", &args->dweight, MT_CHECK_STAT, tokens, slots);
}
