/* Argument checks of slot_drop: shares are formed, and weights needed, only with a threshold. */
#include "ops/check/tokens.h"

enum mt_status mt_check_slot_drop(const struct mt_device *device, const struct mt_slot_drop_args *args)
{
    enum mt_status status = mt_check_2d(device, "expert", &args->expert, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->expert.dim[0];
    int64_t slots = args->expert.dim[1];
    status = mt_check_value(device, args->experts >= 1, "experts", (double)args->experts, "1 or more");
    if (status != MT_OK) return status;
    status = mt_check_range(device, "expert", &args->expert, -1, args->experts);
    if (status != MT_OK) return status;
    status = mt_check_value(device, args->threshold >= 0, "threshold", (double)args->threshold, "0 or more");
    if (status != MT_OK) return status;
    status = mt_check_value(device, args->capacity >= 0, "capacity", (double)args->capacity, "0 or more");
    if (status != MT_OK) return status;
    if (args->threshold > 0 || mt_tensor_present(&args->weight)) {
        status = mt_check_2d(device, "weight", &args->weight, MT_CHECK_STAT, tokens, slots);
        if (status != MT_OK) return status;
    }
    status = check_mask(device, &args->mask, tokens);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "kept", &args->kept, MT_CHECK_INDEX, tokens, slots);
}
