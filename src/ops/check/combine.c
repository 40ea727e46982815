/* Argument checks of combine. */
#include "ops/check/check.h"

/* What forward and backward share: the rows, who they belong to, and their weights. */
static enum mt_status check_slots(const struct mt_device *device, const struct mt_tensor *rows,
                                  const struct mt_tensor *row_of_slot, const struct mt_tensor *weight)
{
    enum mt_status status = mt_check_2d(device, "rows", rows, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "row_of_slot", row_of_slot, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t slots = row_of_slot->dim[1];
    status = mt_check_value(device, slots <= MT_MAX_SLOTS, "the number of row_of_slot's columns",
                            (double)slots, "64 or less");
    if (status != MT_OK) return status;
    status = mt_check_range(device, "row_of_slot", row_of_slot, -1, rows->dim[0]);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "weight", weight, MT_CHECK_STAT, row_of_slot->dim[0], slots);
}

enum mt_status mt_check_combine_forward(const struct mt_device *device,
                                        const struct mt_combine_forward_args *args)
{
    enum mt_status status = check_slots(device, &args->rows, &args->row_of_slot, &args->weight);
    if (status != MT_OK) return status;
    int64_t tokens = args->row_of_slot.dim[0];
    int64_t slots = args->row_of_slot.dim[1];
    int64_t width = args->rows.dim[1];
    if (mt_tensor_present(&args->base)) {
        status = mt_check_2d(device, "base", &args->base, MT_CHECK_FLOAT, tokens, width);
        if (status != MT_OK) return status;
    }
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK || !mt_tensor_present(&args->gram)) return status;
    return mt_check_3d(device, "gram", &args->gram, MT_CHECK_STAT, tokens, slots, slots);
}

enum mt_status mt_check_combine_backward(const struct mt_device *device,
                                         const struct mt_combine_backward_args *args)
{
    enum mt_status status = check_slots(device, &args->rows, &args->row_of_slot, &args->weight);
    if (status != MT_OK) return status;
    int64_t tokens = args->row_of_slot.dim[0];
    int64_t slots = args->row_of_slot.dim[1];
    int64_t width = args->rows.dim[1];
    status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, tokens, width);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->coupling)) {
        status = mt_check_3d(device, "coupling", &args->coupling, MT_CHECK_STAT, tokens, slots, slots);
        if (status != MT_OK) return status;
    }
    status = mt_check_2d(device, "drows", &args->drows, MT_CHECK_FLOAT, args->rows.dim[0], width);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dweight", &args->dweight, MT_CHECK_STAT, tokens, slots);
}
