/* Memory of a cache, one buffer for all layers, and the views of kv_b by head. */
#include "model/layers/cache.h"

#include <inttypes.h>

#include "metier/ops.h"
#include "model/planner.h"

#define ARENA_BYTES 65536

/* The tensors of one layer; run once to count and once to place. */
static void plan_layer(const struct mt_model_desc *desc, enum mt_dtype type, int64_t rows,
                       struct mt_planner *planner, struct mt_layer_cache *layer)
{
    if (desc->attention == MT_ATTENTION_LATENT) {
        layer->latent = mt_plan_2d(planner, type, rows, desc->latent_rank + desc->rope_width);
        return;
    }
    layer->key = mt_plan_2d(planner, type, rows, desc->key_heads * desc->head_width);
    layer->value = mt_plan_2d(planner, type, rows, desc->key_heads * desc->value_width);
}

void mt_cache_cut_heads(const struct mt_model_desc *desc, const struct mt_tensor *matrix,
                        struct mt_tensor *key, struct mt_tensor *value)
{
    int64_t keys = desc->nope_width;
    int64_t values = desc->value_width;
    for (int64_t h = 0; h < desc->heads; h++) {
        key[h] = mt_tensor_rows(matrix, h * (keys + values), keys);
        value[h] = mt_tensor_rows(matrix, h * (keys + values) + keys, values);
    }
}

static enum mt_status make_views(struct mt_arena *arena, const struct mt_model_desc *desc,
                                 const struct mt_linear *kv_b, struct mt_layer_cache *layer)
{
    enum mt_status status = MT_OK;
    struct mt_tensor **const lists[] = {&layer->head_key, &layer->head_value, &layer->lora_key,
                                        &layer->lora_value};
    for (int i = 0; i < (kv_b->b != NULL ? 4 : 2); i++)
        *lists[i] = mt_arena_array(arena, (size_t)desc->heads, sizeof **lists[i], &status);
    if (status != MT_OK || kv_b->b == NULL) return status;
    mt_cache_cut_heads(desc, kv_b->rounded_b != NULL ? kv_b->rounded_b : kv_b->b, layer->lora_key,
                       layer->lora_value);
    return MT_OK;
}

static enum mt_status check_size(struct mt_context *ctx, int64_t slots, int64_t positions)
{
    if (slots >= 1 && positions >= 1 && positions <= INT32_MAX / slots) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "a cache of %" PRId64 " sequences of %" PRId64
                   " tokens is not possible: expected at least one of each, and at most %" PRId32
                   " tokens in all",
                   slots, positions, INT32_MAX);
}

static enum mt_status make(struct mt_cache *cache, const struct mt_model_desc *desc,
                           const struct mt_params *params)
{
    void *layers = NULL;
    enum mt_status status =
        mt_arena_allocate(&cache->arena, (size_t)cache->layers * sizeof *cache->layer, &layers);
    if (status != MT_OK) return status;
    cache->layer = layers;
    struct mt_planner planner = {0};
    int64_t rows = cache->slots * cache->positions;
    for (int64_t i = 0; i < cache->layers; i++) {
        plan_layer(desc, cache->type, rows, &planner, &cache->layer[i]);
        if (desc->attention != MT_ATTENTION_LATENT) continue;
        status = make_views(&cache->arena, desc, &params->layer[i].kv_b, &cache->layer[i]);
        if (status != MT_OK) return status;
    }
    status = mt_device_buffer_create(cache->device, planner.bytes, &cache->buffer);
    if (status != MT_OK) {
        return mt_fail_within(mt_device_context(cache->device), status,
                              "the cache of %" PRId64 " sequences of %" PRId64 " tokens", cache->slots,
                              cache->positions);
    }
    planner = (struct mt_planner){.base = cache->buffer.data};
    for (int64_t i = 0; i < cache->layers; i++)
        plan_layer(desc, cache->type, rows, &planner, &cache->layer[i]);
    return MT_OK;
}

enum mt_status mt_cache_create(struct mt_device *device, const struct mt_model_desc *desc,
                               const struct mt_params *params, const struct mt_cache_shape *shape,
                               struct mt_cache *cache)
{
    int64_t slots = shape->slots;
    int64_t positions = shape->positions;
    struct mt_context *ctx = mt_device_context(device);
    *cache = (struct mt_cache){0};
    enum mt_status status = check_size(ctx, slots, positions);
    if (status != MT_OK) return status;
    *cache = (struct mt_cache){.device = device,
                               .type = shape->type,
                               .layers = desc->layers,
                               .slots = slots,
                               .positions = positions};
    mt_arena_init(&cache->arena, ctx, ARENA_BYTES);
    status = make(cache, desc, params);
    if (status != MT_OK) mt_cache_destroy(cache);
    return status;
}

void mt_cache_destroy(struct mt_cache *cache)
{
    if (cache->device == NULL) return;
    mt_buffer_release(&cache->buffer);
    mt_arena_free(&cache->arena);
    *cache = (struct mt_cache){0};
}

static enum mt_status copy_rows(struct mt_device *device, const struct mt_tensor *tensor, int64_t from,
                                int64_t to, int64_t rows)
{
    if (!mt_tensor_present(tensor)) return MT_OK;
    return mt_copy(device, &(struct mt_copy_args){.x = mt_tensor_rows(tensor, from, rows),
                                                  .y = mt_tensor_rows(tensor, to, rows)});
}

enum mt_status mt_cache_copy(const struct mt_cache *cache, int64_t from, int64_t to, int64_t tokens)
{
    int64_t source = from * cache->positions;
    int64_t target = to * cache->positions;
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < cache->layers; i++) {
        const struct mt_layer_cache *layer = &cache->layer[i];
        status = copy_rows(cache->device, &layer->key, source, target, tokens);
        if (status == MT_OK) status = copy_rows(cache->device, &layer->value, source, target, tokens);
        if (status == MT_OK) status = copy_rows(cache->device, &layer->latent, source, target, tokens);
    }
    return status;
}
