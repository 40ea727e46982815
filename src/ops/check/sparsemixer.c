/* Argument checks of sparsemixer: two slots, so two experts at the least. */
#include "ops/check/check.h"

static enum mt_status check_logits(const struct mt_device *device, const struct mt_tensor *logits,
                                   const struct mt_tensor *expert, float jitter)
{
    enum mt_status status = mt_check_2d(device, "logits", logits, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_value(device, logits->dim[1] >= 2, "the number of logits' columns",
                            (double)logits->dim[1], "2 or more");
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "expert", expert, MT_CHECK_INDEX, logits->dim[0], 2);
    if (status != MT_OK) return status;
    return mt_check_value(device, jitter >= 0, "jitter", (double)jitter, "0 or more");
}

enum mt_status mt_check_sparsemixer_forward(const struct mt_device *device,
                                            const struct mt_sparsemixer_forward_args *args)
{
    enum mt_status status = check_logits(device, &args->logits, &args->expert, args->jitter);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "weight", &args->weight, MT_CHECK_STAT, args->logits.dim[0], 2);
}

enum mt_status mt_check_sparsemixer_backward(const struct mt_device *device,
                                             const struct mt_sparsemixer_backward_args *args)
{
    enum mt_status status = check_logits(device, &args->logits, &args->expert, args->jitter);
    if (status != MT_OK) return status;
    int64_t tokens = args->logits.dim[0];
    int64_t experts = args->logits.dim[1];
    status = mt_check_range(device, "expert", &args->expert, 0, experts);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dweight", &args->dweight, MT_CHECK_STAT, tokens, 2);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "dlogits", &args->dlogits, MT_CHECK_STAT, tokens, experts);
}
