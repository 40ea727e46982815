/* Argument checks of dispatch. */
#include "ops/check/check.h"

void mt_check_dispatch_forward(struct mt_check *c, const struct mt_dispatch_forward_args *args)
{
    mt_check_2d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    mt_check_value(c, args->slots >= 1, "slots", (double)args->slots, "1 or more");
    mt_check_1d(c, "slot_of_row", &args->slot_of_row, MT_CHECK_INDEX, MT_ANY);
    mt_check_range(c, "slot_of_row", &args->slot_of_row, -1, tokens * args->slots);
    mt_check_2d(c, "rows", &args->rows, MT_CHECK_FLOAT, args->slot_of_row.dim[0], width);
    if (!mt_tensor_present(&args->row_of_slot)) return;
    mt_check_2d(c, "row_of_slot", &args->row_of_slot, MT_CHECK_INDEX, tokens, args->slots);
    mt_check_range(c, "row_of_slot", &args->row_of_slot, -1, args->rows.dim[0]);
}

void mt_check_dispatch_backward(struct mt_check *c, const struct mt_dispatch_backward_args *args)
{
    mt_check_2d(c, "drows", &args->drows, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "row_of_slot", &args->row_of_slot, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    mt_check_range(c, "row_of_slot", &args->row_of_slot, -1, args->drows.dim[0]);
    mt_check_2d(c, "dx", &args->dx, MT_CHECK_FLOAT, args->row_of_slot.dim[0], args->drows.dim[1]);
}
