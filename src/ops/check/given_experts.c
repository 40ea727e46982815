/* Argument checks of given_experts. */
#include "ops/check/check.h"

void mt_check_given_experts(struct mt_check *c, const struct mt_given_experts_args *args)
{
    mt_check_2d(c, "given", &args->given, MT_CHECK_INDEX, MT_ANY, MT_ANY);
    int64_t tokens = args->given.dim[0];
    mt_check_value(c, args->experts >= 1, "experts", (double)args->experts, "1 or more");
    mt_check_range(c, "given", &args->given, -1, args->experts);
    mt_check_2d(c, "expert", &args->expert, MT_CHECK_INDEX, tokens, args->given.dim[1]);
    mt_check_optional_2d(c, "agreed", &args->agreed, MT_CHECK_STAT, tokens, 2);
}
