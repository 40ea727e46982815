/* Argument checks of topk. */
#include "ops/check/check.h"

static void check_groups(struct mt_check *c, const struct mt_topk_args *args)
{
    int64_t experts = args->probs.dim[1];
    int groups = args->groups;
    bool known = args->group_rule == MT_GROUP_NONE || args->group_rule == MT_GROUP_MAX ||
                 args->group_rule == MT_GROUP_TOP2_SUM;
    mt_check_value(c, known, "group_rule", (double)args->group_rule, "none (0), max (1) or top2_sum (2)");
    if (args->group_rule == MT_GROUP_NONE) {
        mt_check_value(c, groups == 0, "groups", (double)groups, "0 without a group_rule");
        return;
    }
    bool divides = groups >= 1 && experts % groups == 0;
    mt_check_value(c, divides, "groups", (double)groups, "a divisor of the number of experts");
    if (divides && args->group_rule == MT_GROUP_TOP2_SUM) {
        mt_check_value(c, experts / groups >= 2, "groups", (double)groups, "groups of two experts or more");
    }
    bool kept = args->groups_kept >= 1 && args->groups_kept <= groups;
    mt_check_value(c, kept, "groups_kept", (double)args->groups_kept, "1 to groups");
}

void mt_check_topk(struct mt_check *c, const struct mt_topk_args *args)
{
    mt_check_2d(c, "probs", &args->probs, MT_CHECK_STAT, MT_ANY, MT_ANY);
    int64_t experts = args->probs.dim[1];
    mt_check_optional_1d(c, "bias", &args->bias, MT_CHECK_STAT, experts);
    mt_check_2d(c, "expert", &args->expert, MT_CHECK_INDEX, args->probs.dim[0], MT_ANY);
    int64_t slots = args->expert.dim[1];
    mt_check_value(c, slots >= 1 && slots <= experts, "the number of expert's columns", (double)slots,
                   "1 to the number of experts");
    check_groups(c, args);
}
