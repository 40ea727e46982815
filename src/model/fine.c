/* Twins of the first layers: their memory, their forward, and what they leave to backward. */
#include "model/fine.h"

#define WHOLE_LAYERS  1 // whose MLP is fine, too
#define STREAM_LAYERS 4 // three quarters of what all of twelve gain

static bool trains_in_bf16(const struct mt_pass *pass, const struct mt_layer_plan *plan)
{
    return plan->backward && pass->type == MT_BF16 && pass->cache == NULL;
}

enum mt_fine_part mt_fine_wanted(const struct mt_pass *pass, const struct mt_layer_plan *plan, int64_t layer)
{
    if (layer >= MT_FINE_LAYERS || !trains_in_bf16(pass, plan)) return MT_FINE_NOTHING;
    return layer < WHOLE_LAYERS ? MT_FINE_WHOLE : MT_FINE_ATTENTION;
}

bool mt_fine_stream_wanted(const struct mt_pass *pass, const struct mt_layer_plan *plan, int64_t layer)
{
    return layer < STREAM_LAYERS && trains_in_bf16(pass, plan) && pass->desc->norm == MT_NORM_RMS;
}

enum mt_recompute mt_fine_recompute(enum mt_fine_part part, enum mt_recompute wanted)
{
    if (part == MT_FINE_WHOLE) return MT_RECOMPUTE_NONE;
    bool attention = part == MT_FINE_ATTENTION && wanted == MT_RECOMPUTE_FULL;
    return attention ? MT_RECOMPUTE_MOE : wanted;
}

static struct mt_pass fine_pass(const struct mt_pass *pass)
{
    struct mt_pass own = *pass;
    own.type = MT_F32;
    return own;
}

// ------------------------------------------------------------------ memory

/* Takes the twin's tensors from regions of its own, which may have no memory behind them yet. */
static void place(struct mt_fine *fine, const struct mt_pass *pass, const struct mt_layer_params *params,
                  const struct mt_layer *layer, struct mt_regions *regions)
{
    struct mt_pass own = fine_pass(pass);
    bool half = fine->part == MT_FINE_ATTENTION;
    const struct mt_layer_plan forward_only = {.recompute = MT_RECOMPUTE_NONE, .half = half};
    if (!half) fine->y = mt_plan_2d(&regions->shared, MT_F32, pass->tokens, pass->desc->width);
    fine->twin = (struct mt_layer){.number = layer->number, .x_rest = layer->x_rest};
    fine->twin.moe.layer = layer->moe.layer;
    fine->twin.moe.number = layer->moe.number;
    mt_layer_plan(&fine->twin, &own, params, &forward_only, regions);
}

static void share(const struct mt_layer *layer, const struct mt_layer_params *params, struct mt_fine *fine)
{
    struct mt_layer *twin = &fine->twin;
    twin->norm1 = layer->norm1;
    twin->norm2 = layer->norm2;
    mt_attention_latent_share(&layer->latent, &twin->latent);
    mt_attention_grouped_share(&layer->grouped, &twin->grouped);
    if (fine->part == MT_FINE_ATTENTION) return;
    if (params->moe) {
        mt_moe_share(&layer->moe, &twin->moe);
    } else {
        mt_mlp_share(&layer->dense, &twin->dense);
    }
}

void mt_fine_plan(struct mt_fine *fine, enum mt_fine_part part, const struct mt_pass *pass,
                  const struct mt_layer_params *params, const struct mt_layer *layer,
                  struct mt_regions *regions)
{
    struct mt_regions parts = {0};
    fine->part = part;
    place(fine, pass, params, layer, &parts);
    size_t index = parts.index.bytes;
    size_t shared = parts.shared_bytes;
    size_t bytes = index + shared + parts.work_bytes;
    if (regions->kept.base != NULL) {
        char *start = regions->kept.base + regions->kept.bytes;
        parts = (struct mt_regions){.index = {.base = start},
                                    .shared = {.base = start + index},
                                    .work = {.base = start + index + shared}};
        place(fine, pass, params, layer, &parts);
    }
    mt_regions_borrow_kept(regions, bytes);
    fine->end = regions->kept.bytes + bytes;
    share(layer, params, fine);
}

// ------------------------------------------------------------------ forward

static enum mt_status keep_attention(const struct mt_pass *pass, const struct mt_layer *twin,
                                     const struct mt_layer *layer)
{
    enum mt_status status = mt_attention_latent_keep(pass, &twin->latent, &layer->latent);
    return status == MT_OK ? mt_attention_grouped_keep(pass, &twin->grouped, &layer->grouped) : status;
}

static enum mt_status keep_mlp(const struct mt_pass *pass, const struct mt_layer_params *params,
                               const struct mt_layer *twin, struct mt_layer *layer)
{
    enum mt_status status = mt_pass_keep(pass, &twin->middle, &layer->middle);
    if (status != MT_OK) return status;
    if (!params->moe) return mt_mlp_keep(pass, &twin->dense, &layer->dense);
    status = mt_moe_keep(pass, &twin->moe, &layer->moe);
    if (status != MT_OK || pass->observer.look == NULL) return status;
    return mt_pass_keep(pass, &twin->normed, &layer->normed); // shown to the observer
}

/* All of the layer: fine->y, and what backward reads. */
static enum mt_status run_whole(const struct mt_pass *pass, const struct mt_layer_params *params,
                                struct mt_fine *fine, struct mt_layer *layer, const struct mt_tensor *x)
{
    struct mt_pass own = fine_pass(pass);
    enum mt_status status = mt_layer_forward(&own, params, &fine->twin, x, &fine->y);
    if (status == MT_OK) status = keep_attention(pass, &fine->twin, layer);
    return status == MT_OK ? keep_mlp(pass, params, &fine->twin, layer) : status;
}

/* Attention: the twin's middle, and what backward reads. */
static enum mt_status run_attention(const struct mt_pass *pass, const struct mt_layer_params *params,
                                    struct mt_fine *fine, struct mt_layer *layer, const struct mt_tensor *x)
{
    struct mt_pass own = fine_pass(pass);
    enum mt_status status = mt_layer_attend(&own, params, &fine->twin, x, &fine->twin.middle);
    return status == MT_OK ? keep_attention(pass, &fine->twin, layer) : status;
}

enum mt_status mt_fine_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               struct mt_fine *fine, struct mt_layer *layer, const struct mt_tensor *x,
                               const struct mt_tensor *y)
{
    bool whole = fine->part == MT_FINE_WHOLE;
    mt_device_lend_scratch(pass->device, fine->behind);
    enum mt_status status =
        whole ? run_whole(pass, params, fine, layer, x) : run_attention(pass, params, fine, layer, x);
    mt_device_end_loan(pass->device);
    if (status != MT_OK) return status;
    if (!whole) return mt_layer_finish(pass, params, layer, x, &fine->twin.middle, y);
    return mt_copy(pass->device, &(struct mt_copy_args){.x = fine->y, .y = *y, .rest = layer->y_rest});
}
