/*
 * Grouped attention:
 *   q, k, v = projections of x; q, k = norm (over the whole projection or each head); all clipped;
 *   q, k rotated; out = softmax(scale · q kᵀ) v, where a head may have a sink; y = o(out)
 * Norm, clip and rotation cost little and are done again in backward: only the projections are kept.
 */
#include "model/layers/attention_grouped.h"

/* True when q and k go through more than the rotation, which works in place. */
static bool has_stages(const struct mt_model_desc *desc)
{
    return desc->qk_norm != MT_QK_NORM_NONE || desc->clip > 0.0f;
}

/* Rows of one norm: a token's whole projection, or each of its heads. */
static struct mt_tensor norm_view(const struct mt_model_desc *desc, const struct mt_tensor *x, int64_t heads)
{
    if (desc->qk_norm == MT_QK_NORM_WHOLE) return *x;
    return mt_tensor_2d(x->data, x->dtype, x->dim[0] * heads, x->dim[1] / heads);
}

static struct mt_norm_saved plan_norm(struct mt_planner *saved, const struct mt_pass *pass, int64_t heads)
{
    if (pass->desc->qk_norm == MT_QK_NORM_NONE) return (struct mt_norm_saved){0};
    int64_t rows = pass->desc->qk_norm == MT_QK_NORM_HEAD ? pass->tokens * heads : pass->tokens;
    return mt_norm_plan(saved, pass, MT_NORM_RMS, rows);
}

void mt_attention_grouped_plan(struct mt_attention_grouped *attention, const struct mt_pass *pass,
                               const struct mt_layer_params *params, int window, bool backward,
                               struct mt_planner *saved, struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t tokens = pass->tokens;
    int64_t q_width = desc->heads * desc->head_width;
    int64_t k_width = desc->key_heads * desc->head_width;
    int64_t v_width = desc->key_heads * desc->value_width;
    int64_t out_width = desc->heads * desc->value_width;
    struct mt_attention_grouped *a = attention;
    *a = (struct mt_attention_grouped){.window = window};
    a->q_projected = mt_plan_2d(saved, pass->type, tokens, q_width);
    a->k_projected = mt_plan_2d(saved, pass->type, tokens, k_width);
    a->v_projected = mt_plan_2d(saved, pass->type, tokens, v_width);
    a->q_saved = plan_norm(saved, pass, desc->heads);
    a->k_saved = plan_norm(saved, pass, desc->key_heads);
    a->out = mt_plan_2d(saved, pass->type, tokens, out_width);
    a->lse = mt_plan_2d(saved, pass->exact, tokens, desc->heads);
    struct mt_tensor bits = {0}; // of x
    a->q_lora = mt_linear_plan_lora(saved, pass, &params->q, tokens, &bits);
    a->k_lora = mt_linear_plan_lora(saved, pass, &params->k, tokens, &bits);
    a->v_lora = mt_linear_plan_lora(saved, pass, &params->v, tokens, &bits);
    a->o_lora = mt_linear_plan_lora(saved, pass, &params->o, tokens, NULL);
    a->q = has_stages(desc) ? mt_plan_2d(work, pass->type, tokens, q_width) : a->q_projected;
    a->k = has_stages(desc) ? mt_plan_2d(work, pass->type, tokens, k_width) : a->k_projected;
    a->v = desc->clip > 0.0f ? mt_plan_2d(work, pass->type, tokens, v_width) : a->v_projected;
    if (!backward) return;
    a->dq = mt_plan_2d(work, pass->type, tokens, q_width);
    a->dk = mt_plan_2d(work, pass->type, tokens, k_width);
    a->dv = mt_plan_2d(work, pass->type, tokens, v_width);
    a->dout = mt_plan_2d(work, pass->type, tokens, out_width);
}

static struct mt_norm q_norm_of(const struct mt_pass *pass, const struct mt_norm_weight *weight)
{
    return (struct mt_norm){.kind = MT_NORM_RMS, .epsilon = pass->desc->norm_epsilon, .weight = weight};
}

static bool inputs_are_trained(const struct mt_layer_params *params)
{
    return mt_linear_is_trained(&params->q) || mt_linear_is_trained(&params->k) ||
           mt_linear_is_trained(&params->v) || mt_tensor_present(&params->dsinks) ||
           mt_tensor_present(&params->q_norm.dweight) || mt_tensor_present(&params->k_norm.dweight);
}

bool mt_attention_grouped_is_trained(const struct mt_layer_params *params)
{
    return inputs_are_trained(params) || mt_linear_is_trained(&params->o);
}

static enum mt_status rotate(const struct mt_pass *pass, const struct mt_tensor *x, int64_t heads,
                             bool inverse)
{
    struct mt_tensor all = mt_pass_heads(x, heads);
    struct mt_tensor rotated = mt_tensor_columns(&all, 0, pass->desc->rope_width);
    return mt_pass_rotate(pass, &rotated, 0, inverse, &rotated);
}

static enum mt_status clip(const struct mt_pass *pass, const struct mt_tensor *x, const struct mt_tensor *y)
{
    return mt_clamp_forward(pass->device,
                            &(struct mt_clamp_forward_args){.x = *x, .y = *y, .limit = pass->desc->clip});
}

/* What a norm leaves of a projection, not yet clipped; without a norm, the projection. */
static enum mt_status normalise(const struct mt_pass *pass, const struct mt_norm_weight *weight,
                                const struct mt_tensor *projected, int64_t heads,
                                const struct mt_norm_saved *saved, const struct mt_tensor *y)
{
    struct mt_norm norm = q_norm_of(pass, weight);
    struct mt_tensor x_view = norm_view(pass->desc, projected, heads);
    struct mt_tensor y_view = norm_view(pass->desc, y, heads);
    return mt_norm_forward(pass, &norm, &x_view, saved, &y_view);
}

/* From the projection of queries or keys to what attention reads, short of the rotation. */
static enum mt_status stages(const struct mt_pass *pass, const struct mt_norm_weight *weight,
                             const struct mt_tensor *projected, int64_t heads,
                             const struct mt_norm_saved *saved, const struct mt_tensor *y)
{
    if (pass->desc->qk_norm == MT_QK_NORM_NONE) return clip(pass, projected, y);
    enum mt_status status = normalise(pass, weight, projected, heads, saved, y);
    if (status != MT_OK || pass->desc->clip <= 0.0f) return status;
    return clip(pass, y, y);
}

/* q, k and v as attention reads them. In place where there are no stages, so only forward does it then. */
static enum mt_status finish(const struct mt_pass *pass, const struct mt_layer_params *params,
                             const struct mt_attention_grouped *a)
{
    const struct mt_model_desc *desc = pass->desc;
    enum mt_status status = MT_OK;
    if (has_stages(desc)) {
        status = stages(pass, &params->q_norm, &a->q_projected, desc->heads, &a->q_saved, &a->q);
        if (status != MT_OK) return status;
        status = stages(pass, &params->k_norm, &a->k_projected, desc->key_heads, &a->k_saved, &a->k);
        if (status != MT_OK) return status;
    }
    if (desc->clip > 0.0f) {
        status = clip(pass, &a->v_projected, &a->v);
        if (status != MT_OK) return status;
    }
    status = rotate(pass, &a->q, desc->heads, false);
    if (status != MT_OK) return status;
    return rotate(pass, &a->k, desc->key_heads, false);
}

/* What the heads' sinks leave of out; lse counts them from here on. */
static enum mt_status add_sinks(const struct mt_pass *pass, const struct mt_layer_params *params,
                                const struct mt_attention_grouped *a)
{
    if (!mt_tensor_present(&params->sinks)) return MT_OK;
    return mt_attention_sink_forward(
        pass->device,
        &(struct mt_attention_sink_forward_args){
            .out = mt_pass_heads(&a->out, pass->desc->heads), .lse = a->lse, .sink = params->sinks});
}

/* Attention within the pass, or, with a cache, from this pass's queries to all keys so far. */
static enum mt_status attend(const struct mt_pass *pass, const struct mt_layer_params *params,
                             const struct mt_attention_grouped *a)
{
    const struct mt_model_desc *desc = pass->desc;
    struct mt_attention_forward_args args = {
        .q = mt_pass_heads(&a->q, desc->heads),
        .k = mt_pass_heads(&a->k, desc->key_heads),
        .v = mt_pass_heads(&a->v, desc->key_heads),
        .q_offsets = pass->offsets,
        .k_offsets = pass->offsets,
        .out = mt_pass_heads(&a->out, desc->heads),
        .lse = a->lse,
        .scale = desc->score_scale,
        .window = a->window,
    };
    if (pass->cached.sequence != NULL) {
        enum mt_status status = mt_pass_remember(pass, &a->k, &a->cache->key);
        if (status == MT_OK) status = mt_pass_remember(pass, &a->v, &a->cache->value);
        if (status != MT_OK) return status;
        args.k = mt_pass_heads(&a->cache->key, desc->key_heads);
        args.v = mt_pass_heads(&a->cache->value, desc->key_heads);
        args.k_offsets = pass->cached.key_offsets;
        args.k_starts = pass->cached.key_starts;
    }
    enum mt_status status = mt_attention_forward(pass->device, &args);
    return status == MT_OK ? add_sinks(pass, params, a) : status;
}

enum mt_status mt_attention_grouped_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                            const struct mt_attention_grouped *attention,
                                            const struct mt_tensor *x, const struct mt_tensor *y)
{
    const struct mt_attention_grouped *a = attention;
    const struct mt_linear_output inputs[] = {
        {.linear = &params->q, .trace = &a->q_lora, .y = &a->q_projected},
        {.linear = &params->k, .trace = &a->k_lora, .y = &a->k_projected},
        {.linear = &params->v, .trace = &a->v_lora, .y = &a->v_projected}};
    enum mt_status status = mt_linear_forward(pass, inputs, 3, NULL, x, false);
    if (status != MT_OK) return status;
    status = finish(pass, params, a);
    if (status != MT_OK) return status;
    status = attend(pass, params, a);
    if (status != MT_OK) return status;
    const struct mt_linear_output output = {.linear = &params->o, .trace = &a->o_lora, .y = y};
    return mt_linear_forward(pass, &output, 1, NULL, &a->out, false);
}

/* With sinks in lse and out these are the gradients of q, k and v, too. */
static enum mt_status scores_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      const struct mt_attention_grouped *a)
{
    const struct mt_model_desc *desc = pass->desc;
    if (mt_tensor_present(&params->dsinks)) {
        enum mt_status status = mt_attention_sink_backward(
            pass->device,
            &(struct mt_attention_sink_backward_args){.dout = mt_pass_heads(&a->dout, desc->heads),
                                                      .out = mt_pass_heads(&a->out, desc->heads),
                                                      .lse = a->lse,
                                                      .sink = params->sinks,
                                                      .dsink = params->dsinks});
        if (status != MT_OK) return status;
    }
    return mt_attention_backward(pass->device, &(struct mt_attention_backward_args){
                                                   .q = mt_pass_heads(&a->q, desc->heads),
                                                   .k = mt_pass_heads(&a->k, desc->key_heads),
                                                   .v = mt_pass_heads(&a->v, desc->key_heads),
                                                   .q_offsets = pass->offsets,
                                                   .k_offsets = pass->offsets,
                                                   .out = mt_pass_heads(&a->out, desc->heads),
                                                   .lse = a->lse,
                                                   .dout = mt_pass_heads(&a->dout, desc->heads),
                                                   .dq = mt_pass_heads(&a->dq, desc->heads),
                                                   .dk = mt_pass_heads(&a->dk, desc->key_heads),
                                                   .dv = mt_pass_heads(&a->dv, desc->key_heads),
                                                   .scale = desc->score_scale,
                                                   .window = a->window,
                                               });
}

static enum mt_status clip_backward(const struct mt_pass *pass, const struct mt_tensor *dy,
                                    const struct mt_tensor *x)
{
    return mt_clamp_backward(pass->device, &(struct mt_clamp_backward_args){
                                               .dy = *dy, .x = *x, .dx = *dy, .limit = pass->desc->clip});
}

/*
 * dy becomes the gradient of the projection of queries or keys, in place. `value`, what attention read, is
 * no longer needed: the norm's result is made in it again where clipping wants to know it.
 */
static enum mt_status stages_backward(const struct mt_pass *pass, const struct mt_norm_weight *weight,
                                      const struct mt_tensor *projected, int64_t heads,
                                      const struct mt_norm_saved *saved, const struct mt_tensor *value,
                                      const struct mt_tensor *dy)
{
    enum mt_status status = rotate(pass, dy, heads, true);
    if (status != MT_OK) return status;
    bool normed = pass->desc->qk_norm != MT_QK_NORM_NONE;
    if (pass->desc->clip > 0.0f) {
        if (normed) {
            status = normalise(pass, weight, projected, heads, saved, value);
            if (status != MT_OK) return status;
        }
        status = clip_backward(pass, dy, normed ? value : projected);
        if (status != MT_OK) return status;
    }
    if (!normed) return MT_OK;
    struct mt_norm norm = q_norm_of(pass, weight);
    struct mt_tensor dy_view = norm_view(pass->desc, dy, heads);
    struct mt_tensor x_view = norm_view(pass->desc, projected, heads);
    return mt_norm_backward(pass, &norm, &dy_view, &x_view, saved, false, &dy_view);
}

enum mt_status mt_attention_grouped_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                             const struct mt_attention_grouped *attention,
                                             const struct mt_tensor *dy, const struct mt_tensor *x,
                                             const struct mt_tensor *dx)
{
    const struct mt_model_desc *desc = pass->desc;
    const struct mt_attention_grouped *a = attention;
    bool inner = dx != NULL || inputs_are_trained(params);
    const struct mt_linear_gradient output = {.linear = &params->o, .dy = dy, .trace = &a->o_lora};
    enum mt_status status =
        mt_linear_backward(pass, &output, 1, NULL, &a->out, false, inner ? &a->dout : NULL);
    if (status != MT_OK || !inner) return status;
    if (has_stages(desc)) {
        status = finish(pass, params, a);
        if (status != MT_OK) return status;
    }
    status = scores_backward(pass, params, a);
    if (status != MT_OK) return status;
    status = stages_backward(pass, &params->q_norm, &a->q_projected, desc->heads, &a->q_saved, &a->q, &a->dq);
    if (status != MT_OK) return status;
    status =
        stages_backward(pass, &params->k_norm, &a->k_projected, desc->key_heads, &a->k_saved, &a->k, &a->dk);
    if (status != MT_OK) return status;
    if (desc->clip > 0.0f) {
        status = clip_backward(pass, &a->dv, &a->v_projected);
        if (status != MT_OK) return status;
    }
    const struct mt_linear_gradient inputs[] = {{.linear = &params->q, .dy = &a->dq, .trace = &a->q_lora},
                                                {.linear = &params->k, .dy = &a->dk, .trace = &a->k_lora},
                                                {.linear = &params->v, .dy = &a->dv, .trace = &a->v_lora}};
    return mt_linear_backward(pass, inputs, 3, NULL, x, false, dx);
}
