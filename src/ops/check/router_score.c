/* Argument checks of router_score. */
#include "ops/check/check.h"

static void check_kind(struct mt_check *c, enum mt_score_kind kind)
{
    bool known = kind == MT_SCORE_SOFTMAX || kind == MT_SCORE_SIGMOID;
    mt_check_value(c, known, "kind", (double)kind, "softmax (0) or sigmoid (1)");
}

void mt_check_router_score_forward(struct mt_check *c, const struct mt_router_score_forward_args *args)
{
    mt_check_2d(c, "logits", &args->logits, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_2d(c, "probs", &args->probs, MT_CHECK_STAT, args->logits.dim[0], args->logits.dim[1]);
    check_kind(c, args->kind);
}

void mt_check_router_score_backward(struct mt_check *c, const struct mt_router_score_backward_args *args)
{
    mt_check_2d(c, "probs", &args->probs, MT_CHECK_STAT, MT_ANY, MT_ANY);
    int64_t tokens = args->probs.dim[0];
    int64_t experts = args->probs.dim[1];
    mt_check_2d(c, "dprobs", &args->dprobs, MT_CHECK_STAT, tokens, experts);
    mt_check_2d(c, "dlogits", &args->dlogits, MT_CHECK_STAT, tokens, experts);
    check_kind(c, args->kind);
}
