/* Argument checks of dispatch. */
#include "ops/check/check.h"

enum mt_status mt_check_dispatch_forward(const struct mt_device *device,
                                         const struct mt_dispatch_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->x.dim[0];
    int64_t width = args->x.dim[1];
    status = mt_check_value(device, args->slots >= 1, "slots", (double)args->slots, "1 or more");
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "slot_of_row", &args->slot_of_row, MT_CHECK_INDEX, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_range(device, "slot_of_row", &args->slot_of_row, -1, tokens * args->slots);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "rows", &args->rows, MT_CHECK_FLOAT, args->slot_of_row.dim[0], width);
    if (status != MT_OK || !mt_tensor_present(&args->row_of_slot)) return status;
    status = mt_check_2d(device, "row_of_slot", &args->row_of_slot, MT_CHECK_INDEX, tokens, args->slots);
    if (status != MT_OK) return status;
    return mt_check_range(device, "row_of_slot", &args->row_of_slot, -1, args->rows.dim[0]);
}

enum mt_status mt_check_dispatch_backward(const struct mt_device *device,
                                          const struct mt_dispatch_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "drows", &args->drows, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "row_of_slot", &args->row_of_slot, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_range(device, "row_of_slot", &args->row_of_slot, -1, args->drows.dim[0]);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dx", &args->dx, MT_CHECK_FLOAT, args->row_of_slot.dim[0], args->drows.dim[1]);
}
