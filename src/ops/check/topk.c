/* Argument checks of topk. */
#include "ops/check/check.h"

static enum mt_status check_groups(const struct mt_device *device, const struct mt_topk_args *args)
{
    int64_t experts = args->probs.dim[1];
    int groups = args->groups;
    bool known = args->group_rule == MT_GROUP_NONE || args->group_rule == MT_GROUP_MAX ||
                 args->group_rule == MT_GROUP_TOP2_SUM;
    enum mt_status status = mt_check_value(device, known, "group_rule", (double)args->group_rule,
                                           "none (0), max (1) or top2_sum (2)");
    if (status != MT_OK) return status;
    if (args->group_rule == MT_GROUP_NONE) {
        return mt_check_value(device, groups == 0, "groups", (double)groups, "0 without a group_rule");
    }
    bool divides = groups >= 1 && experts % groups == 0;
    status = mt_check_value(device, divides, "groups", (double)groups, "a divisor of the number of experts");
    if (status != MT_OK) return status;
    if (args->group_rule == MT_GROUP_TOP2_SUM) {
        status = mt_check_value(device, experts / groups >= 2, "groups", (double)groups,
                                "groups of two experts or more");
        if (status != MT_OK) return status;
    }
    bool kept = args->groups_kept >= 1 && args->groups_kept <= groups;
    return mt_check_value(device, kept, "groups_kept", (double)args->groups_kept, "1 to groups");
}

enum mt_status mt_check_topk(const struct mt_device *device, const struct mt_topk_args *args)
{
    enum mt_status status = mt_check_2d(device, "probs", &args->probs, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t experts = args->probs.dim[1];
    if (mt_tensor_present(&args->bias)) {
        status = mt_check_1d(device, "bias", &args->bias, MT_CHECK_STAT, experts);
        if (status != MT_OK) return status;
    }
    status = mt_check_2d(device, "expert", &args->expert, MT_CHECK_INDEX, args->probs.dim[0], MT_ANY);
    if (status != MT_OK) return status;
    int64_t slots = args->expert.dim[1];
    status = mt_check_value(device, slots >= 1 && slots <= experts, "the number of expert's columns",
                            (double)slots, "1 to the number of experts");
    if (status != MT_OK) return status;
    return check_groups(device, args);
}
