/* Argument checks of slot_drop: shares are formed, and weights needed, only with a threshold. */
#include "ops/check/check.h"

void mt_check_slot_drop(struct mt_check *c, const struct mt_slot_drop_args *args)
{
    mt_check_2d(c, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    int64_t tokens = args->expert.dim[0];
    int64_t slots = args->expert.dim[1];
    mt_check_value(c, args->experts >= 1, "experts", (double)args->experts, "1 or more");
    mt_check_range(c, "expert", &args->expert, -1, args->experts);
    mt_check_value(c, args->threshold >= 0, "threshold", (double)args->threshold, "0 or more");
    mt_check_value(c, args->capacity >= 0, "capacity", (double)args->capacity, "0 or more");
    if (args->threshold > 0 || mt_tensor_present(&args->weight)) {
        mt_check_2d(c, "weight", &args->weight, MT_CHECK_STAT, tokens, slots);
    }
    mt_check_optional_1d(c, "mask", &args->mask, MT_CHECK_INDEX, tokens);
    mt_check_2d(c, "kept", &args->kept, MT_CHECK_INDEX, tokens, slots);
}
