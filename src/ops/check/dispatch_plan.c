/* Argument checks of dispatch_plan. */
#include "ops/check/check.h"

enum mt_status mt_check_dispatch_plan(const struct mt_device *device,
                                      const struct mt_dispatch_plan_args *args)
{
    enum mt_status status = mt_check_2d(device, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->expert.dim[0];
    int64_t slots = args->expert.dim[1];
    bool fits = slots == 0 || tokens <= INT32_MAX / slots;
    status = mt_check_value(device, fits, "the number of expert's elements", (double)tokens * (double)slots,
                            "less than 2^31");
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "offsets", &args->offsets, MT_CHECK_INDEX, MT_ANY);
    if (status != MT_OK) return status;
    int64_t experts = args->offsets.dim[0] - 1;
    status = mt_check_value(device, experts >= 1, "the length of offsets", (double)args->offsets.dim[0],
                            "the number of experts plus 1");
    if (status != MT_OK) return status;
    status = mt_check_range(device, "expert", &args->expert, -1, experts);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "row_of_slot", &args->row_of_slot, MT_CHECK_INDEX, tokens, slots);
    if (status != MT_OK) return status;
    return mt_check_1d(device, "slot_of_row", &args->slot_of_row, MT_CHECK_INDEX, tokens * slots);
}
