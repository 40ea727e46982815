/* Argument checks of slot_stats: segments and experts are counted by the dimensions of count (dsum). */
#include "ops/check/tokens.h"

enum mt_status mt_check_slot_stats_forward(const struct mt_device *device,
                                           const struct mt_slot_stats_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->expert.dim[0];
    status =
        mt_check_2d(device, "count", &args->count, MT_CHECK_F64, segments_expected(&args->segment), MT_ANY);
    if (status != MT_OK) return status;
    int64_t segments = args->count.dim[0];
    int64_t experts = args->count.dim[1];
    status = mt_check_range(device, "expert", &args->expert, -1, experts);
    if (status != MT_OK) return status;
    status = check_tokens(device, &args->mask, &args->segment, tokens, segments);
    if (status != MT_OK) return status;
    status = check_optional_columns(device, "first", &args->first, segments, experts);
    if (status != MT_OK) return status;
    status = check_optional_columns(device, "sum", &args->sum, segments, experts);
    if (status != MT_OK) return status;
    status = check_optional_columns(device, "squares", &args->squares, segments, experts);
    if (status != MT_OK) return status;
    status = check_optional_scalars(device, "row_squares", &args->row_squares, segments);
    if (status != MT_OK) return status;
    bool weighs = mt_tensor_present(&args->sum) || mt_tensor_present(&args->squares) ||
                  mt_tensor_present(&args->row_squares);
    if (!weighs && !mt_tensor_present(&args->weight)) return MT_OK;
    return mt_check_2d(device, "weight", &args->weight, MT_CHECK_STAT, tokens, args->expert.dim[1]);
}

enum mt_status mt_check_slot_stats_backward(const struct mt_device *device,
                                            const struct mt_slot_stats_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->expert.dim[0];
    int64_t slots = args->expert.dim[1];
    status = mt_check_2d(device, "weight", &args->weight, MT_CHECK_STAT, tokens, slots);
    if (status != MT_OK) return status;
    status =
        mt_check_2d(device, "dsum", &args->dsum, MT_CHECK_F64, segments_expected(&args->segment), MT_ANY);
    if (status != MT_OK) return status;
    int64_t segments = args->dsum.dim[0];
    int64_t experts = args->dsum.dim[1];
    status = mt_check_range(device, "expert", &args->expert, -1, experts);
    if (status != MT_OK) return status;
    status = check_tokens(device, &args->mask, &args->segment, tokens, segments);
    if (status != MT_OK) return status;
    status = check_optional_columns(device, "dsquares", &args->dsquares, segments, experts);
    if (status != MT_OK) return status;
    status = check_optional_scalars(device, "drow_squares", &args->drow_squares, segments);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dweight", &args->dweight, MT_CHECK_STAT, tokens, slots);
}
