/* Argument checks of dispatch_plan. */
#include "ops/check/check.h"

void mt_check_dispatch_plan(struct mt_check *c, const struct mt_dispatch_plan_args *args)
{
    mt_check_2d(c, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    int64_t tokens = args->expert.dim[0];
    int64_t slots = args->expert.dim[1];
    bool fits = slots == 0 || tokens <= INT32_MAX / slots;
    mt_check_value(c, fits, "the number of expert's elements", (double)tokens * (double)slots,
                   "less than 2^31");
    mt_check_1d(c, "offsets", &args->offsets, MT_CHECK_INDEX, MT_ANY);
    int64_t experts = args->offsets.dim[0] - 1;
    mt_check_value(c, experts >= 1, "the length of offsets", (double)args->offsets.dim[0],
                   "the number of experts plus 1");
    mt_check_range(c, "expert", &args->expert, -1, experts);
    mt_check_2d(c, "row_of_slot", &args->row_of_slot, MT_CHECK_INDEX, tokens, slots);
    mt_check_1d(c, "slot_of_row", &args->slot_of_row, MT_CHECK_INDEX, tokens * slots);
}
