/* Argument checks of router_score. */
#include "ops/check/check.h"

static enum mt_status check_kind(const struct mt_device *device, enum mt_score_kind kind)
{
    bool known = kind == MT_SCORE_SOFTMAX || kind == MT_SCORE_SIGMOID;
    return mt_check_value(device, known, "kind", (double)kind, "softmax (0) or sigmoid (1)");
}

enum mt_status mt_check_router_score_forward(const struct mt_device *device,
                                             const struct mt_router_score_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "logits", &args->logits, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status =
        mt_check_2d(device, "probs", &args->probs, MT_CHECK_STAT, args->logits.dim[0], args->logits.dim[1]);
    if (status != MT_OK) return status;
    return check_kind(device, args->kind);
}

enum mt_status mt_check_router_score_backward(const struct mt_device *device,
                                              const struct mt_router_score_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "probs", &args->probs, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = args->probs.dim[0];
    int64_t experts = args->probs.dim[1];
    status = mt_check_2d(device, "dprobs", &args->dprobs, MT_CHECK_STAT, tokens, experts);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dlogits", &args->dlogits, MT_CHECK_STAT, tokens, experts);
    if (status != MT_OK) return status;
    return check_kind(device, args->kind);
}
