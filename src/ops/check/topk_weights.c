/* Argument checks of topk_weights. */
#include "ops/check/check.h"

static enum mt_status check_selection(const struct mt_device *device, const struct mt_tensor *probs,
                                      const struct mt_tensor *expert, float epsilon, float scale)
{
    enum mt_status status = mt_check_2d(device, "probs", probs, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "expert", expert, MT_CHECK_INDEX, probs->dim[0], MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_range(device, "expert", expert, -1, probs->dim[1]);
    if (status != MT_OK) return status;
    status = mt_check_value(device, epsilon >= 0, "epsilon", (double)epsilon, "0 or more");
    if (status != MT_OK) return status;
    return mt_check_value(device, scale != 0, "scale", (double)scale, "anything but 0");
}

enum mt_status mt_check_topk_weights_forward(const struct mt_device *device,
                                             const struct mt_topk_weights_forward_args *args)
{
    enum mt_status status = check_selection(device, &args->probs, &args->expert, args->epsilon, args->scale);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "weight", &args->weight, MT_CHECK_STAT, args->probs.dim[0],
                       args->expert.dim[1]);
}

enum mt_status mt_check_topk_weights_backward(const struct mt_device *device,
                                              const struct mt_topk_weights_backward_args *args)
{
    enum mt_status status = check_selection(device, &args->probs, &args->expert, args->epsilon, args->scale);
    if (status != MT_OK) return status;
    int64_t tokens = args->probs.dim[0];
    status = mt_check_2d(device, "dweight", &args->dweight, MT_CHECK_STAT, tokens, args->expert.dim[1]);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dprobs", &args->dprobs, MT_CHECK_STAT, tokens, args->probs.dim[1]);
}
