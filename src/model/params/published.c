/* Codes of a published folder: read where they lie on host devices, brought to the others as they are. */
#include "arch/published/published.h"

#include "model/params/quantised.h"

static size_t bytes_of(const struct mt_tensor *tensor)
{
    return (size_t)mt_tensor_count(tensor) * mt_dtype_bytes(tensor->dtype);
}

enum mt_status mt_published_place(struct mt_device *device, const struct mt_hf_config *config,
                                  const struct mt_checkpoint *checkpoint,
                                  const struct mt_model_tensor *tensor, struct mt_quantised *found)
{
    struct mt_published published;
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    enum mt_status status = mt_published_find(config, checkpoint, tensor, &published);
    if (status != MT_OK) return mt_fail_within(mt_device_context(device), status, "%s", tensor->name);
    *found = published.matrix;
    mt_quantised_each(found, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS && !mt_device_on_host(device); i++) parts[i]->data = NULL;
    return MT_OK;
}

size_t mt_published_mapped(const struct mt_quantised *found)
{
    struct mt_quantised matrix = *found;
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    size_t bytes = 0;
    mt_quantised_each(&matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        if (mt_tensor_present(parts[i]) && parts[i]->data != NULL) bytes += bytes_of(parts[i]);
    }
    return bytes;
}

/* Tensor number `which`, by way of host memory. */
static enum mt_status upload(struct mt_device *device, const struct mt_published *published, int which,
                             const struct mt_tensor *target)
{
    struct mt_context *ctx = mt_device_context(device);
    size_t bytes = bytes_of(target);
    void *made = NULL;
    if (mt_device_on_host(device)) {
        mt_published_copy(published, which, target->data);
        return MT_OK;
    }
    enum mt_status status = mt_allocate(ctx, bytes, &made);
    if (status != MT_OK) return status;
    mt_published_copy(published, which, made);
    status = mt_device_upload(device, target->data, made, bytes);
    mt_release(ctx, made, bytes);
    return status;
}

enum mt_status mt_published_fill(struct mt_device *device, const struct mt_hf_config *config,
                                 const struct mt_checkpoint *checkpoint, const struct mt_model_tensor *tensor,
                                 const struct mt_quantised *matrix)
{
    struct mt_published published;
    struct mt_quantised filled = *matrix;
    struct mt_tensor *from[MT_QUANTISED_TENSORS];
    struct mt_tensor *to[MT_QUANTISED_TENSORS];
    enum mt_status status = mt_published_find(config, checkpoint, tensor, &published);
    if (status == MT_OK) status = mt_published_check_values(mt_device_context(device), &published);
    mt_quantised_each(&published.matrix, from);
    mt_quantised_each(&filled, to);
    for (int i = 0; i < MT_QUANTISED_TENSORS && status == MT_OK; i++) {
        if (mt_tensor_present(to[i]) && to[i]->data != from[i]->data)
            status = upload(device, &published, i, to[i]);
    }
    return status;
}
