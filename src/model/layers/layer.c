/*
 * A layer. The residual stream's gradient passes through it in one tensor, to which each branch adds. What
 * nothing that is trained would read is not computed.
 */
#include "model/layers/layer.h"

static bool is_latent(const struct mt_pass *pass)
{
    return pass->desc->attention == MT_ATTENTION_LATENT;
}

static struct mt_norm norm_of(const struct mt_pass *pass, const struct mt_norm_weight *weight)
{
    return (struct mt_norm){.kind = pass->desc->norm, .epsilon = pass->desc->norm_epsilon, .weight = weight};
}

// ------------------------------------------------------------------ memory

/* Without a backward nothing is kept; with recomputation less. */
struct layer_planners {
    struct mt_planner *attention; // attention, norms, the middle
    struct mt_planner *experts;
    struct mt_planner *routing;
};

static struct layer_planners layer_planners_of(const struct mt_pass *pass, const struct mt_layer_plan *plan,
                                               struct mt_regions *regions)
{
    bool attention = plan->backward && plan->recompute != MT_RECOMPUTE_FULL;
    bool experts = plan->backward && plan->recompute == MT_RECOMPUTE_NONE;
    bool routing = plan->backward || plan->records || mt_pass_needs(pass, MT_NEEDS_NEIGHBOURS);
    return (struct layer_planners){
        .attention = attention ? &regions->kept : &regions->shared,
        .experts = experts ? &regions->kept : &regions->shared,
        .routing = routing ? &regions->kept : &regions->shared,
    };
}

static void plan_mlp(struct mt_layer *layer, const struct mt_pass *pass, const struct mt_layer_params *params,
                     const struct mt_layer_plan *plan, struct mt_regions *regions)
{
    struct layer_planners planners = layer_planners_of(pass, plan, regions);
    struct mt_planner *work = &regions->work;
    if (params->moe) {
        mt_moe_plan(&layer->moe, pass, params, plan->backward,
                    &(struct mt_moe_planners){.index = &regions->index,
                                              .routing = planners.routing,
                                              .saved = planners.experts,
                                              .shared = planners.attention,
                                              .work = work});
        return;
    }
    mt_mlp_plan(&layer->dense, pass, &params->dense, pass->tokens, &(struct mt_tensor){0}, planners.attention,
                work);
}

void mt_layer_plan(struct mt_layer *layer, const struct mt_pass *pass, const struct mt_layer_params *params,
                   const struct mt_layer_plan *plan, struct mt_regions *regions)
{
    struct layer_planners planners = layer_planners_of(pass, plan, regions);
    int64_t tokens = pass->tokens;
    int64_t width = pass->desc->width;
    size_t start = regions->work.bytes;
    layer->recompute = plan->recompute;
    layer->norm1 = mt_norm_plan(planners.attention, pass, pass->desc->norm, tokens);
    layer->norm2 = mt_norm_plan(planners.attention, pass, pass->desc->norm, tokens);
    layer->middle = mt_plan_2d(planners.attention, pass->type, tokens, width);
    layer->normed = mt_plan_2d(&regions->work, pass->type, tokens, width);
    if (plan->backward) layer->dnormed = mt_plan_2d(&regions->work, pass->type, tokens, width);
    size_t common = regions->work.bytes; // attention and MLP take turns after this
    if (is_latent(pass)) {
        mt_attention_latent_plan(&layer->latent, pass, params, plan->backward, planners.attention,
                                 &regions->work);
    } else {
        mt_attention_grouped_plan(&layer->grouped, pass, params, mt_model_window(pass->desc, layer->number),
                                  plan->backward, planners.attention, &regions->work);
    }
    if (pass->cached.cache != NULL) {
        layer->latent.cache = &pass->cached.cache->layer[layer->number];
        layer->grouped.cache = &pass->cached.cache->layer[layer->number];
    }
    mt_regions_rewind_work(regions, common);
    plan_mlp(layer, pass, params, plan, regions);
    mt_regions_rewind_work(regions, start);
    mt_regions_next_layer(regions);
}

// ------------------------------------------------------------------ what is trained

static bool attention_is_trained(const struct mt_pass *pass, const struct mt_layer_params *params)
{
    return is_latent(pass) ? mt_attention_latent_is_trained(params) : mt_attention_grouped_is_trained(params);
}

static bool mlp_is_trained(const struct mt_layer_params *params)
{
    return params->moe ? mt_moe_is_trained(params) : mt_mlp_is_trained(&params->dense);
}

static bool norm_is_trained(const struct mt_norm_weight *weight)
{
    return mt_tensor_present(&weight->dweight) || mt_tensor_present(&weight->dbias);
}

bool mt_layer_is_trained(const struct mt_pass *pass, const struct mt_layer_params *params)
{
    return attention_is_trained(pass, params) || mlp_is_trained(params) || norm_is_trained(&params->norm1) ||
           norm_is_trained(&params->norm2);
}

// ------------------------------------------------------------------ forward

/* attended = attention(norm1(x)). */
static enum mt_status attend(const struct mt_pass *pass, const struct mt_layer_params *params,
                             const struct mt_layer *layer, const struct mt_tensor *x,
                             const struct mt_tensor *attended)
{
    struct mt_norm norm1 = norm_of(pass, &params->norm1);
    const struct mt_tensor *normed = &layer->normed;
    enum mt_status status = mt_norm_forward(pass, &norm1, x, &layer->norm1, normed);
    if (status != MT_OK) return status;
    if (is_latent(pass)) return mt_attention_latent_forward(pass, params, &layer->latent, normed, attended);
    return mt_attention_grouped_forward(pass, params, &layer->grouped, normed, attended);
}

enum mt_status mt_layer_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                struct mt_layer *layer, const struct mt_tensor *x, const struct mt_tensor *y)
{
    struct mt_norm norm2 = norm_of(pass, &params->norm2);
    const struct mt_tensor *normed = &layer->normed;
    const struct mt_tensor *middle = &layer->middle;
    enum mt_status status = attend(pass, params, layer, x, middle);
    if (status != MT_OK) return status;
    status = mt_norm_forward_residual(pass, &norm2, middle, x, middle, &layer->norm2, normed);
    if (status != MT_OK) return status;
    if (params->moe) return mt_moe_forward(pass, params, &layer->moe, normed, middle, y);
    status = mt_copy(pass->device, &(struct mt_copy_args){.x = *middle, .y = *y});
    if (status == MT_OK) status = mt_mlp_forward_inner(pass, &params->dense, &layer->dense, NULL, normed);
    return status == MT_OK ? mt_mlp_forward_down(pass, &params->dense, &layer->dense, NULL, true, y) : status;
}

// ------------------------------------------------------------------ backward

/* normed = what the MLP reads, again. */
static enum mt_status make_normed(const struct mt_pass *pass, const struct mt_layer_params *params,
                                  const struct mt_layer *layer)
{
    struct mt_norm norm2 = norm_of(pass, &params->norm2);
    enum mt_status status = mt_norm_forward(pass, &norm2, &layer->middle, &layer->norm2, &layer->normed);
    if (status != MT_OK || !params->moe) return status;
    return mt_moe_jitter(pass, &layer->moe, &layer->normed);
}

/* The MLP's part: its gradients, and dnormed if that is wanted. */
static enum mt_status mlp_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                   struct mt_layer *layer, bool want_input, const struct mt_tensor *dx)
{
    const struct mt_tensor *dnormed = want_input ? &layer->dnormed : NULL;
    bool repeat = params->moe && layer->recompute == MT_RECOMPUTE_MOE;
    enum mt_status status = make_normed(pass, params, layer);
    if (status == MT_OK && repeat) status = mt_moe_repeat_experts(pass, params, &layer->moe, &layer->normed);
    if (status != MT_OK) return status;
    if (params->moe) return mt_moe_backward(pass, params, &layer->moe, dx, &layer->normed, dnormed);
    status = mt_mlp_backward_down(pass, &params->dense, &layer->dense, NULL, dx, want_input);
    if (status != MT_OK) return status;
    return mt_mlp_backward_inner(pass, &params->dense, &layer->dense, NULL, NULL, &layer->normed, false,
                                 dnormed);
}

static enum mt_status attention_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                         struct mt_layer *layer, const struct mt_tensor *x, bool want_input,
                                         const struct mt_tensor *dx)
{
    const struct mt_tensor *dnormed = want_input ? &layer->dnormed : NULL;
    struct mt_norm norm1 = norm_of(pass, &params->norm1);
    enum mt_status status = mt_norm_forward(pass, &norm1, x, &layer->norm1, &layer->normed);
    if (status != MT_OK) return status;
    if (is_latent(pass))
        return mt_attention_latent_backward(pass, params, &layer->latent, dx, &layer->normed, dnormed);
    return mt_attention_grouped_backward(pass, params, &layer->grouped, dx, &layer->normed, dnormed);
}

enum mt_status mt_layer_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                 struct mt_layer *layer, const struct mt_tensor *x, const struct mt_tensor *y,
                                 bool below, const struct mt_tensor *dx)
{
    enum mt_status status = MT_OK;
    if (layer->recompute == MT_RECOMPUTE_FULL) {
        status = mt_layer_forward(pass, params, layer, x, y);
        if (status != MT_OK) return status;
    }
    bool want_x = below || norm_is_trained(&params->norm1);
    bool want_attention = want_x || attention_is_trained(pass, params);
    bool want_middle = want_attention || norm_is_trained(&params->norm2);
    if (want_middle || mlp_is_trained(params)) {
        status = mlp_backward(pass, params, layer, want_middle, dx);
        if (status != MT_OK) return status;
    }
    if (!want_middle) return MT_OK;
    struct mt_norm norm2 = norm_of(pass, &params->norm2);
    status = mt_norm_backward(pass, &norm2, &layer->dnormed, &layer->middle, &layer->norm2, true, dx);
    if (status != MT_OK || !want_attention) return status;
    status = attention_backward(pass, params, layer, x, want_x, dx);
    if (status != MT_OK || !want_x) return status;
    struct mt_norm norm1 = norm_of(pass, &params->norm1);
    return mt_norm_backward(pass, &norm1, &layer->dnormed, x, &layer->norm1, true, dx);
}
