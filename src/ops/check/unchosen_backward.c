/* Argument checks of unchosen_backward. */
#include "ops/check/check.h"

void mt_check_unchosen_backward(struct mt_check *c, const struct mt_unchosen_backward_args *args)
{
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t tokens = args->dy.dim[0];
    mt_check_2d(c, "outputs", &args->outputs, MT_CHECK_FLOAT, tokens, args->dy.dim[1]);
    mt_check_2d(c, "probs", &args->probs, MT_CHECK_STAT, tokens, MT_ANY);
    int64_t experts = args->probs.dim[1];
    mt_check_2d(c, "expert", &args->expert, MT_CHECK_INDEX, tokens, MT_ANY);
    mt_check_range(c, "expert", &args->expert, -1, experts);
    mt_check_2d(c, "dprobs", &args->dprobs, MT_CHECK_STAT, tokens, experts);
    mt_check_value(c, args->number >= 0 && args->number < experts, "number", (double)args->number,
                   "0 to less than the number of experts");
    mt_check_value(c, args->scale != 0.0f, "scale", (double)args->scale, "a number other than 0");
}
