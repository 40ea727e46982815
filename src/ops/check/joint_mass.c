/* Argument checks of joint_mass. */
#include "ops/check/check.h"

/* One layer's scores and choices. */
static void check_layer(struct mt_check *c, const char *scores, const struct mt_tensor *probs,
                        const char *choices, const struct mt_tensor *expert, int64_t tokens)
{
    mt_check_2d(c, scores, probs, MT_CHECK_STAT, tokens, MT_ANY);
    mt_check_2d(c, choices, expert, MT_CHECK_INDEX, probs->dim[0], MT_ANY);
    mt_check_range(c, choices, expert, -1, probs->dim[1]);
}

void mt_check_joint_mass_forward(struct mt_check *c, const struct mt_joint_mass_forward_args *args)
{
    check_layer(c, "probs", &args->probs, "expert", &args->expert, MT_ANY);
    int64_t tokens = args->probs.dim[0];
    check_layer(c, "other_probs", &args->other_probs, "other_expert", &args->other_expert, tokens);
    mt_check_optional_1d(c, "mask", &args->mask, MT_CHECK_INDEX, tokens);
    mt_check_1d(c, "product", &args->product, MT_CHECK_STAT, tokens);
}

void mt_check_joint_mass_backward(struct mt_check *c, const struct mt_joint_mass_backward_args *args)
{
    check_layer(c, "probs", &args->probs, "expert", &args->expert, MT_ANY);
    int64_t tokens = args->probs.dim[0];
    check_layer(c, "other_probs", &args->other_probs, "other_expert", &args->other_expert, tokens);
    mt_check_optional_1d(c, "mask", &args->mask, MT_CHECK_INDEX, tokens);
    mt_check_1d(c, "dproduct", &args->dproduct, MT_CHECK_F64, 1);
    mt_check_2d(c, "dprobs", &args->dprobs, MT_CHECK_STAT, tokens, args->probs.dim[1]);
}
