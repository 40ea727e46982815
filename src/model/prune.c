/* Taking experts away, and giving them back. */
#include "model/prune.h"

#include <inttypes.h>

#include "model/model_struct.h"

#define NEVER (-1e30f) // finite: routers subtract and divide by logits

static size_t numbers_of(const struct mt_model *model)
{
    const struct mt_model_desc *desc = mt_model_description(model);
    return (size_t)desc->layers * (size_t)desc->experts;
}

static enum mt_status check_layer(const struct mt_model *model, const bool *flags, int64_t layer)
{
    const struct mt_model_desc *desc = mt_model_description(model);
    struct mt_context *ctx = mt_device_context(mt_model_device(model));
    int left = desc->experts;
    for (int j = 0; j < desc->experts; j++) left -= flags[j] ? 1 : 0;
    if (left < desc->router.slots)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "removing %d of %d experts leaves %d in layer %" PRId64 ", but a token needs %d",
                       desc->experts - left, desc->experts, left, layer, desc->router.slots);
    return MT_OK;
}

/* A router's own bias as f32 on the host; zeros where it has none. `raw` has room for n numbers. */
static enum mt_status read_bias(struct mt_device *device, const struct mt_tensor *bias, void *raw,
                                float *values, int64_t n)
{
    for (int64_t j = 0; j < n; j++) values[j] = 0.0f;
    if (!mt_tensor_present(bias)) return MT_OK;
    enum mt_status status =
        mt_device_download(device, raw, bias->data, (size_t)n * mt_dtype_bytes(bias->dtype));
    if (status == MT_OK) mt_convert_to_f32(bias->dtype, raw, n, values);
    return status;
}

/* One layer: its logits' mask, and its bias where it has one. `work` has room for 2n numbers. */
static enum mt_status prune_layer(struct mt_pruning *pruning, int64_t index, const bool *flags, float *work)
{
    struct mt_layer_params *layer = &mt_model_params(pruning->model)->layer[index];
    struct mt_device *device = mt_model_device(pruning->model);
    int64_t n = mt_model_description(pruning->model)->experts;
    size_t bytes = (size_t)n * sizeof *work;
    float *mask = (float *)pruning->masks.data + index * n;
    float *saved = pruning->biases + index * n;
    enum mt_status status = MT_OK;
    if (mt_tensor_present(&layer->correction)) {
        status = mt_device_download(device, saved, layer->correction.data, bytes);
        for (int64_t j = 0; j < n; j++) work[j] = flags[j] ? NEVER : saved[j];
        if (status == MT_OK) status = mt_device_upload(device, layer->correction.data, work, bytes);
    }
    if (status == MT_OK) status = read_bias(device, &layer->router.bias, work + n, work, n);
    for (int64_t j = 0; j < n; j++) work[j] = flags[j] ? NEVER : work[j];
    if (status == MT_OK) status = mt_device_upload(device, mask, work, bytes);
    if (status != MT_OK) return status;
    pruning->own[index] = layer->router.bias;
    layer->router.bias = mt_tensor_1d(mask, MT_F32, n);
    return MT_OK;
}

enum mt_status mt_pruning_begin(struct mt_model *model, const bool *const *experts,
                                struct mt_pruning *pruning)
{
    struct mt_context *ctx = mt_device_context(mt_model_device(model));
    const struct mt_params *params = mt_model_params(model);
    size_t numbers = numbers_of(model);
    enum mt_status status = MT_OK;
    void *memory = NULL;
    *pruning = (struct mt_pruning){0};
    for (int64_t i = 0; i < params->layers && status == MT_OK; i++) {
        if (experts[i] == NULL || !params->layer[i].moe) continue;
        status = check_layer(model, experts[i], i);
    }
    if (status != MT_OK) return status;
    mt_replay_free(&model->replay); // recorded passes know of no mask
    pruning->model = model;
    // Three times: what selected before, and work for one layer.
    status = mt_allocate_array(ctx, 3 * numbers, sizeof(float), &memory);
    pruning->biases = memory;
    memory = NULL;
    if (status == MT_OK)
        status = mt_allocate_array(ctx, (size_t)params->layers, sizeof *pruning->own, &memory);
    pruning->own = memory;
    if (status == MT_OK)
        status = mt_device_buffer_create(mt_model_device(model), numbers * sizeof(float), &pruning->masks);
    for (int64_t i = 0; i < params->layers && status == MT_OK; i++) {
        if (experts[i] != NULL && params->layer[i].moe)
            status = prune_layer(pruning, i, experts[i], pruning->biases + numbers);
    }
    return status;
}

enum mt_status mt_pruning_end(struct mt_pruning *pruning)
{
    if (pruning->model == NULL) return MT_OK;
    struct mt_params *params = mt_model_params(pruning->model);
    struct mt_device *device = mt_model_device(pruning->model);
    size_t n = (size_t)mt_model_description(pruning->model)->experts;
    enum mt_status status = MT_OK;
    mt_replay_free(&pruning->model->replay); // nor may they use one that is gone
    for (int64_t i = 0; i < params->layers; i++) {
        struct mt_layer_params *layer = &params->layer[i];
        const float *masks = pruning->masks.data;
        if (masks == NULL || layer->router.bias.data != masks + (size_t)i * n) continue;
        layer->router.bias = pruning->own[i];
        if (mt_tensor_present(&layer->correction) && status == MT_OK)
            status = mt_device_upload(device, layer->correction.data, pruning->biases + (size_t)i * n,
                                      n * sizeof(float));
    }
    mt_release(mt_device_context(device), pruning->biases, 3 * numbers_of(pruning->model) * sizeof(float));
    mt_release(mt_device_context(device), pruning->own, (size_t)params->layers * sizeof *pruning->own);
    mt_buffer_release(&pruning->masks);
    *pruning = (struct mt_pruning){0};
    return status;
}

void mt_prune_least(const double *load, int experts, int count, bool *flags)
{
    for (int j = 0; j < experts; j++) flags[j] = false;
    for (int taken = 0; taken < count && taken < experts; taken++) {
        int least = -1;
        for (int j = 0; j < experts; j++) {
            if (!flags[j] && (least < 0 || load[j] < load[least])) least = j;
        }
        flags[least] = true;
    }
}
