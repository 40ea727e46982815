/* The first layer's twin: its memory, its forward, and what it leaves to backward. */
#include "model/fine.h"

#define FINE_LAYERS   1 // later ones gain a tenth of what the first one does
#define STREAM_LAYERS 4 // three quarters of what all of twelve gain

static bool trains_in_bf16(const struct mt_pass *pass, const struct mt_layer_plan *plan)
{
    return plan->backward && pass->type == MT_BF16 && pass->cache == NULL;
}

bool mt_fine_wanted(const struct mt_pass *pass, const struct mt_layer_plan *plan, int64_t layer)
{
    return layer < FINE_LAYERS && trains_in_bf16(pass, plan);
}

bool mt_fine_stream_wanted(const struct mt_pass *pass, const struct mt_layer_plan *plan, int64_t layer)
{
    return layer < STREAM_LAYERS && trains_in_bf16(pass, plan) && pass->desc->norm == MT_NORM_RMS;
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
    const struct mt_layer_plan forward_only = {.recompute = MT_RECOMPUTE_NONE};
    fine->y = mt_plan_2d(&regions->shared, MT_F32, pass->tokens, pass->desc->width);
    fine->twin = (struct mt_layer){.number = layer->number};
    fine->twin.moe.layer = layer->moe.layer;
    fine->twin.moe.number = layer->moe.number;
    mt_layer_plan(&fine->twin, &own, params, &forward_only, regions);
}

void mt_fine_plan(struct mt_fine *fine, const struct mt_pass *pass, const struct mt_layer_params *params,
                  const struct mt_layer *layer, struct mt_regions *regions)
{
    struct mt_regions parts = {0};
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
    fine->wanted = true;
    fine->end = regions->kept.bytes + bytes;
    fine->twin.norm1 = layer->norm1;
    fine->twin.norm2 = layer->norm2;
    mt_attention_latent_share(&layer->latent, &fine->twin.latent);
    mt_attention_grouped_share(&layer->grouped, &fine->twin.grouped);
    mt_mlp_share(&layer->dense, &fine->twin.dense);
    if (params->moe) mt_moe_share(&layer->moe, &fine->twin.moe);
}

// ------------------------------------------------------------------ forward

static enum mt_status keep(const struct mt_pass *pass, const struct mt_layer_params *params,
                           const struct mt_layer *twin, struct mt_layer *layer)
{
    enum mt_status status = mt_pass_keep(pass, &twin->middle, &layer->middle);
    if (status == MT_OK) status = mt_attention_latent_keep(pass, &twin->latent, &layer->latent);
    if (status == MT_OK) status = mt_attention_grouped_keep(pass, &twin->grouped, &layer->grouped);
    if (status != MT_OK) return status;
    if (!params->moe) return mt_mlp_keep(pass, &twin->dense, &layer->dense);
    status = mt_moe_keep(pass, &twin->moe, &layer->moe);
    if (status != MT_OK || pass->observer.look == NULL) return status;
    return mt_pass_keep(pass, &twin->normed, &layer->normed); // shown to the observer
}

enum mt_status mt_fine_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               struct mt_fine *fine, struct mt_layer *layer, const struct mt_tensor *x,
                               const struct mt_tensor *y)
{
    struct mt_pass own = fine_pass(pass);
    mt_device_lend_scratch(pass->device, fine->behind);
    enum mt_status status = mt_layer_forward(&own, params, &fine->twin, x, &fine->y);
    mt_device_end_loan(pass->device);
    if (status == MT_OK) status = keep(pass, params, &fine->twin, layer);
    if (status != MT_OK) return status;
    return mt_copy(pass->device, &(struct mt_copy_args){.x = fine->y, .y = *y, .rest = layer->y_rest});
}
