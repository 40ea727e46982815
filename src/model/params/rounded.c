/*
 * bf16 roundings of the masters, number by number in the same order: what products of 16-bit rows read of
 * LoRA pairs, of routers in backward alone. The head, whose products are made otherwise, has none.
 */
#include "model/params/loading.h"

static struct mt_tensor rounding_of(const struct mt_params *params, const struct mt_tensor *master)
{
    if (!mt_tensor_present(master)) return (struct mt_tensor){0};
    struct mt_tensor rounding = *master;
    ptrdiff_t place = (const float *)master->data - (const float *)params->masters.data;
    rounding.dtype = MT_BF16;
    rounding.data = (uint16_t *)params->rounded.data + place;
    return rounding;
}

static enum mt_status point_list(struct mt_params *params, const struct mt_tensor *masters, int count,
                                 struct mt_tensor **list)
{
    enum mt_status status = MT_OK;
    struct mt_tensor *views = mt_arena_array(&params->arena, (size_t)count, sizeof *views, &status);
    if (status != MT_OK) return status;
    for (int e = 0; e < count; e++) views[e] = rounding_of(params, &masters[e]);
    *list = views;
    return MT_OK;
}

static enum mt_status point_layer(struct mt_params *params, struct mt_layer_params *layer)
{
    struct mt_linear *linears[MT_LAYER_LINEARS];
    enum mt_status status = MT_OK;
    mt_layer_linears(layer, linears);
    for (int i = 0; i < MT_LAYER_LINEARS && status == MT_OK; i++) {
        struct mt_linear *one = linears[i];
        if (one->a == NULL) continue;
        status = point_list(params, one->a, one->weight.count, &one->rounded_a);
        if (status == MT_OK) status = point_list(params, one->b, one->weight.count, &one->rounded_b);
    }
    return status;
}

enum mt_status mt_params_read_rounded(struct mt_params *params)
{
    if (params->lora_scale == 0.0f || params->masters.bytes == 0) return MT_OK;
    size_t bytes = params->masters.bytes / sizeof(float) * sizeof(uint16_t);
    enum mt_status status = mt_device_buffer_create(params->device, bytes, &params->rounded);
    if (status != MT_OK)
        return mt_fail_within(mt_device_context(params->device), status, "roundings of trained parameters");
    for (int64_t i = 0; i < params->layers && status == MT_OK; i++)
        status = point_layer(params, &params->layer[i]);
    return status == MT_OK ? mt_params_round(params) : status;
}

struct mt_tensor mt_params_rounded(const struct mt_params *params)
{
    if (params->rounded.bytes == 0) return (struct mt_tensor){0};
    return mt_tensor_1d(params->rounded.data, MT_BF16, (int64_t)(params->rounded.bytes / sizeof(uint16_t)));
}

enum mt_status mt_params_round(const struct mt_params *params)
{
    struct mt_tensor rounded = mt_params_rounded(params);
    if (!mt_tensor_present(&rounded)) return MT_OK;
    struct mt_tensor masters = mt_tensor_1d(params->masters.data, MT_F32, rounded.dim[0]);
    return mt_copy(params->device, &(struct mt_copy_args){.x = masters, .y = rounded});
}
