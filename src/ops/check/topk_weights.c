/* Argument checks of topk_weights. */
#include "ops/check/check.h"

static void check_selection(struct mt_check *c, const struct mt_tensor *probs, const struct mt_tensor *expert,
                            float epsilon, float scale)
{
    mt_check_2d(c, "probs", probs, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "expert", expert, MT_CHECK_INDEX, probs->dim[0], MT_ANY);
    mt_check_range(c, "expert", expert, -1, probs->dim[1]);
    mt_check_value(c, epsilon >= 0, "epsilon", (double)epsilon, "0 or more");
    mt_check_value(c, scale != 0, "scale", (double)scale, "anything but 0");
}

void mt_check_topk_weights_forward(struct mt_check *c, const struct mt_topk_weights_forward_args *args)
{
    check_selection(c, &args->probs, &args->expert, args->epsilon, args->scale);
    mt_check_2d(c, "weight", &args->weight, MT_CHECK_STAT, args->probs.dim[0], args->expert.dim[1]);
}

void mt_check_topk_weights_backward(struct mt_check *c, const struct mt_topk_weights_backward_args *args)
{
    check_selection(c, &args->probs, &args->expert, args->epsilon, args->scale);
    int64_t tokens = args->probs.dim[0];
    mt_check_2d(c, "dweight", &args->dweight, MT_CHECK_STAT, tokens, args->expert.dim[1]);
    mt_check_2d(c, "dprobs", &args->dprobs, MT_CHECK_STAT, tokens, args->probs.dim[1]);
}
