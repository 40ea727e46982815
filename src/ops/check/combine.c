/* Argument checks of combine. */
#include "ops/check/check.h"

/* What forward and backward share: the rows, who they belong to, and their weights. */
static void check_slots(struct mt_check *c, const struct mt_tensor *rows, const struct mt_tensor *row_of_slot,
                        const struct mt_tensor *weight)
{
    mt_check_2d(c, "rows", rows, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "row_of_slot", row_of_slot, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    int64_t slots = row_of_slot->dim[1];
    mt_check_value(c, slots <= MT_MAX_SLOTS, "the number of row_of_slot's columns", (double)slots,
                   "64 or less");
    mt_check_range(c, "row_of_slot", row_of_slot, -1, rows->dim[0]);
    mt_check_2d(c, "weight", weight, MT_CHECK_STAT, row_of_slot->dim[0], slots);
}

void mt_check_combine_forward(struct mt_check *c, const struct mt_combine_forward_args *args)
{
    check_slots(c, &args->rows, &args->row_of_slot, &args->weight);
    int64_t tokens = args->row_of_slot.dim[0];
    int64_t slots = args->row_of_slot.dim[1];
    int64_t width = args->rows.dim[1];
    mt_check_optional_2d(c, "base", &args->base, MT_CHECK_FLOAT, tokens, width);
    bool alone = mt_tensor_present(&args->gram) && !mt_tensor_present(&args->y);
    if (!alone) mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, tokens, width);
    mt_check_value(c, !alone || (!args->accumulate && !mt_tensor_present(&args->base)), "y", 0.0,
                   "a tensor, to be added to");
    if (mt_tensor_present(&args->gram))
        mt_check_3d(c, "gram", &args->gram, MT_CHECK_STAT, tokens, slots, slots);
}

void mt_check_combine_backward(struct mt_check *c, const struct mt_combine_backward_args *args)
{
    check_slots(c, &args->rows, &args->row_of_slot, &args->weight);
    int64_t tokens = args->row_of_slot.dim[0];
    int64_t slots = args->row_of_slot.dim[1];
    int64_t width = args->rows.dim[1];
    bool has_dy = mt_tensor_present(&args->dy) || mt_tensor_present(&args->dweight);
    if (has_dy) mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, tokens, width);
    if (mt_tensor_present(&args->coupling)) {
        mt_check_3d(c, "coupling", &args->coupling, MT_CHECK_STAT, tokens, slots, slots);
    }
    mt_check_2d(c, "drows", &args->drows, MT_CHECK_FLOAT, args->rows.dim[0], width);
    if (has_dy) mt_check_2d(c, "dweight", &args->dweight, MT_CHECK_STAT, tokens, slots);
    mt_check_optional_1d(c, "factor", &args->factor, MT_CHECK_STAT, 1);
}
