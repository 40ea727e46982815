/*
 * Latent attention:
 *   q = q_proj(x), or q_b(norm(q_a(x))); its last Dr columns of each head rotated
 *   c, r = kv_a(x); per head [k_n | v] = kv_b(norm(c)); k = [k_n | rotated r], r shared by all heads
 *   out = softmax(scale · q kᵀ) v; y = o(out)
 * Norms, kv_b, whose result is the widest and whose product the smallest, and the keys put together cost
 * little and are made again in backward.
 */
#include "model/layers/attention_latent.h"

#include "ops/beside.h"

// Tokens of a pass whose latent goes to the cache beside the queries. On an H200 a step of one sequence is
// 2 % faster so, one of 8 is 2 %, and one of 64 or 256 is 1 % slower: queries then fill the device alone.
#define BESIDE_TOKENS 16

void mt_attention_latent_plan(struct mt_attention_latent *attention, const struct mt_pass *pass,
                              const struct mt_layer_params *params, bool backward, struct mt_planner *saved,
                              struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    enum mt_dtype type = pass->type;
    int64_t tokens = pass->tokens;
    int64_t q_width = desc->heads * desc->head_width;
    int64_t kv_width = desc->heads * (desc->nope_width + desc->value_width);
    int64_t latent_width = desc->latent_rank + desc->rope_width;
    int64_t out_width = desc->heads * desc->value_width;
    bool compressed = desc->query_rank > 0;
    struct mt_attention_latent *a = attention;
    *a = (struct mt_attention_latent){0};
    if (compressed) {
        a->q_latent = mt_plan_2d(saved, type, tokens, desc->query_rank);
        a->q_saved = mt_norm_plan(saved, pass, MT_NORM_RMS, tokens);
        a->q_normed = mt_plan_2d(work, type, tokens, desc->query_rank);
    }
    a->q = mt_plan_2d(saved, type, tokens, q_width);
    a->kv_latent = mt_plan_2d(saved, type, tokens, latent_width);
    a->kv_saved = mt_norm_plan(saved, pass, MT_NORM_RMS, tokens);
    a->out = mt_plan_2d(saved, type, tokens, out_width);
    a->lse = mt_plan_2d(saved, pass->exact, tokens, desc->heads);
    struct mt_tensor bits = {0}; // of x
    a->q_lora = mt_linear_plan_lora(saved, pass, &params->q, tokens, &bits);
    a->q_a_lora = mt_linear_plan_lora(saved, pass, &params->q_a, tokens, &bits);
    a->kv_a_lora = mt_linear_plan_lora(saved, pass, &params->kv_a, tokens, &bits);
    a->q_b_lora = mt_linear_plan_lora(saved, pass, &params->q_b, tokens, NULL);
    a->kv_b_lora = mt_linear_plan_lora(saved, pass, &params->kv_b, tokens, NULL);
    a->o_lora = mt_linear_plan_lora(saved, pass, &params->o, tokens, NULL);
    a->kv_normed = mt_plan_2d(work, type, tokens, desc->latent_rank);
    a->kv = mt_plan_2d(work, type, tokens, kv_width);
    a->key = mt_plan_2d(work, type, tokens, q_width);
    if (pass->cached.cache != NULL) {
        mt_attention_absorbed_plan(&a->absorbed, pass, params, work);
        mt_attention_widened_plan(&a->widened, pass, params, work);
    }
    if (!backward) return;
    a->dq = mt_plan_2d(work, type, tokens, q_width);
    a->dkey = mt_plan_2d(work, type, tokens, q_width);
    a->dkv = mt_plan_2d(work, type, tokens, kv_width);
    a->dkv_latent = mt_plan_2d(work, type, tokens, latent_width);
    a->dout = mt_plan_2d(work, type, tokens, out_width);
    if (compressed) a->dq_latent = mt_plan_2d(work, type, tokens, desc->query_rank);
    a->dkv_normed = mt_plan_2d(work, type, tokens, desc->latent_rank);
}

static struct mt_norm latent_norm(const struct mt_pass *pass, const struct mt_norm_weight *weight)
{
    return (struct mt_norm){.kind = MT_NORM_RMS, .epsilon = pass->desc->latent_epsilon, .weight = weight};
}

static bool inputs_are_trained(const struct mt_layer_params *params)
{
    return mt_linear_is_trained(&params->q) || mt_linear_is_trained(&params->q_a) ||
           mt_linear_is_trained(&params->q_b) || mt_linear_is_trained(&params->kv_a) ||
           mt_linear_is_trained(&params->kv_b) || mt_tensor_present(&params->q_a_norm.dweight) ||
           mt_tensor_present(&params->kv_a_norm.dweight);
}

bool mt_attention_latent_is_trained(const struct mt_layer_params *params)
{
    return inputs_are_trained(params) || mt_linear_is_trained(&params->o);
}

// ------------------------------------------------------------------ parts of larger tensors

/* The rotated columns of queries (or of their gradient): [T,H,Dr]. */
static struct mt_tensor rotated_part(const struct mt_pass *pass, const struct mt_tensor *q)
{
    struct mt_tensor heads = mt_pass_heads(q, pass->desc->heads);
    return mt_tensor_columns(&heads, pass->desc->nope_width, pass->desc->rope_width);
}

static struct mt_tensor key_part(const struct mt_pass *pass, const struct mt_tensor *kv)
{
    struct mt_tensor heads = mt_pass_heads(kv, pass->desc->heads);
    return mt_tensor_columns(&heads, 0, pass->desc->nope_width);
}

static struct mt_tensor value_part(const struct mt_pass *pass, const struct mt_tensor *kv)
{
    struct mt_tensor heads = mt_pass_heads(kv, pass->desc->heads);
    return mt_tensor_columns(&heads, pass->desc->nope_width, pass->desc->value_width);
}

static struct mt_tensor latent_part(const struct mt_pass *pass, const struct mt_tensor *latent)
{
    return mt_tensor_columns(latent, 0, pass->desc->latent_rank);
}

static struct mt_tensor shared_part(const struct mt_pass *pass, const struct mt_tensor *latent)
{
    return mt_tensor_columns(latent, pass->desc->latent_rank, pass->desc->rope_width);
}

// ------------------------------------------------------------------ forward

static enum mt_status rotate(const struct mt_pass *pass, const struct mt_tensor *q, bool inverse)
{
    struct mt_tensor rotated = rotated_part(pass, q);
    return mt_pass_rotate(pass, &rotated, 0, inverse, &rotated);
}

static enum mt_status normalise_queries(const struct mt_pass *pass, const struct mt_layer_params *params,
                                        const struct mt_attention_latent *a)
{
    struct mt_norm norm = latent_norm(pass, &params->q_a_norm);
    return mt_norm_forward(pass, &norm, &a->q_latent, &a->q_saved, &a->q_normed);
}

static enum mt_status normalise_latent(const struct mt_pass *pass, const struct mt_layer_params *params,
                                       const struct mt_attention_latent *a)
{
    struct mt_norm norm = latent_norm(pass, &params->kv_a_norm);
    struct mt_tensor latent = latent_part(pass, &a->kv_latent);
    return mt_norm_forward(pass, &norm, &latent, &a->kv_saved, &a->kv_normed);
}

static enum mt_status make_keys(const struct mt_pass *pass, const struct mt_attention_latent *a)
{
    return mt_mla_key_forward(
        pass->device, &(struct mt_mla_key_forward_args){.nope = key_part(pass, &a->kv),
                                                        .shared = shared_part(pass, &a->kv_latent),
                                                        .positions = pass->positions,
                                                        .cosine = pass->cosine,
                                                        .sine = pass->sine,
                                                        .key = mt_pass_heads(&a->key, pass->desc->heads),
                                                        .layout = pass->desc->rope_layout});
}

/* Everything that reads x: queries, or their latent, and the latent of keys and values. */
struct projections {
    struct mt_linear_output both[2];
};

static struct projections projections_of(const struct mt_pass *pass, const struct mt_layer_params *params,
                                         const struct mt_attention_latent *a)
{
    struct projections inputs = {{{.linear = &params->q, .trace = &a->q_lora, .y = &a->q},
                                  {.linear = &params->kv_a, .trace = &a->kv_a_lora, .y = &a->kv_latent}}};
    if (pass->desc->query_rank > 0)
        inputs.both[0] =
            (struct mt_linear_output){.linear = &params->q_a, .trace = &a->q_a_lora, .y = &a->q_latent};
    return inputs;
}

static enum mt_status project(const struct mt_pass *pass, const struct mt_layer_params *params,
                              const struct mt_attention_latent *a, const struct mt_tensor *x)
{
    struct projections inputs = projections_of(pass, params, a);
    return mt_linear_forward(pass, inputs.both, 2, NULL, x, false);
}

/* Queries, from their latent where they have one. */
static enum mt_status finish_queries(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_attention_latent *a)
{
    if (pass->desc->query_rank == 0) return MT_OK;
    enum mt_status status = normalise_queries(pass, params, a);
    if (status != MT_OK) return status;
    const struct mt_linear_output output = {.linear = &params->q_b, .trace = &a->q_b_lora, .y = &a->q};
    return mt_linear_forward(pass, &output, 1, NULL, &a->q_normed, false);
}

/* Keys and values from the latent. */
static enum mt_status widen_latent(const struct mt_pass *pass, const struct mt_layer_params *params,
                                   const struct mt_attention_latent *a)
{
    enum mt_status status = normalise_latent(pass, params, a);
    if (status != MT_OK) return status;
    const struct mt_linear_output output = {.linear = &params->kv_b, .trace = &a->kv_b_lora, .y = &a->kv};
    status = mt_linear_forward(pass, &output, 1, NULL, &a->kv_normed, false);
    if (status != MT_OK) return status;
    return make_keys(pass, a);
}

/* Keys and values of this pass's tokens, and attention over them: out. */
static enum mt_status attend(const struct mt_pass *pass, const struct mt_layer_params *params,
                             const struct mt_attention_latent *a)
{
    const struct mt_model_desc *desc = pass->desc;
    enum mt_status status = rotate(pass, &a->q, false);
    if (status == MT_OK) status = widen_latent(pass, params, a);
    if (status != MT_OK) return status;
    return mt_attention_forward(pass->device, &(struct mt_attention_forward_args){
                                                  .q = mt_pass_heads(&a->q, desc->heads),
                                                  .k = mt_pass_heads(&a->key, desc->heads),
                                                  .v = value_part(pass, &a->kv),
                                                  .q_offsets = pass->offsets,
                                                  .k_offsets = pass->offsets,
                                                  .out = mt_pass_heads(&a->out, desc->heads),
                                                  .lse = a->lse,
                                                  .scale = desc->score_scale,
                                                  .window = desc->window,
                                              });
}

/* What the cache keeps of this pass's tokens, in place: the latent normalised, the shared key rotated. */
static enum mt_status make_remembered(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      const struct mt_attention_latent *a)
{
    struct mt_norm norm = latent_norm(pass, &params->kv_a_norm);
    struct mt_tensor latent = latent_part(pass, &a->kv_latent);
    enum mt_status status = mt_norm_forward(pass, &norm, &latent, &a->kv_saved, &latent);
    if (status != MT_OK) return status;
    struct mt_tensor shared = shared_part(pass, &a->kv_latent);
    struct mt_tensor one_head = {.data = shared.data,
                                 .dtype = shared.dtype,
                                 .rank = 3,
                                 .dim = {shared.dim[0], 1, shared.dim[1]},
                                 .stride = {shared.stride[0], shared.dim[1], 1}};
    return mt_pass_rotate(pass, &one_head, 0, false, &one_head);
}

static enum mt_status remember(const struct mt_pass *pass, const struct mt_layer_params *params,
                               const struct mt_attention_latent *a)
{
    enum mt_status status = make_remembered(pass, params, a);
    return status == MT_OK ? mt_pass_remember(pass, &a->kv_latent, &a->cache->latent) : status;
}

static bool goes_beside(const struct mt_pass *pass)
{
    return mt_pass_is_short(pass) && pass->tokens <= BESIDE_TOKENS;
}

/* What project makes, and the cache's part of it beside the queries; attention waits for both. */
static enum mt_status project_and_remember(const struct mt_pass *pass, const struct mt_layer_params *params,
                                           const struct mt_attention_latent *a, const struct mt_tensor *x)
{
    struct projections inputs = projections_of(pass, params, a);
    enum mt_status status = mt_linear_forward(pass, &inputs.both[1], 1, NULL, x, false);
    if (status != MT_OK) return status;
    status = mt_device_beside_begin(pass->device);
    if (status == MT_OK) status = remember(pass, params, a);
    enum mt_status ended = mt_device_beside_end(pass->device);
    if (status == MT_OK) status = ended;
    if (status != MT_OK) return status;
    return mt_linear_forward(pass, &inputs.both[0], 1, NULL, x, false);
}

/* The same out, over all tokens the cache knows. */
static enum mt_status attend_cached(const struct mt_pass *pass, const struct mt_layer_params *params,
                                    const struct mt_attention_latent *a)
{
    enum mt_status status = goes_beside(pass) ? MT_OK : remember(pass, params, a);
    if (status == MT_OK && pass->cached.prompt_tokens < pass->tokens)
        status = mt_attention_absorbed_forward(pass, &params->kv_b, a->cache, &a->absorbed, &a->q, &a->out);
    if (status != MT_OK || pass->cached.prompt_tokens == 0) return status;
    return mt_attention_widened_forward(pass, &params->kv_b, a->cache, &a->widened, &a->q, &a->out);
}

enum mt_status mt_attention_latent_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                           const struct mt_attention_latent *attention,
                                           const struct mt_tensor *x, const struct mt_tensor *y)
{
    const struct mt_attention_latent *a = attention;
    enum mt_status status =
        goes_beside(pass) ? project_and_remember(pass, params, a, x) : project(pass, params, a, x);
    if (status == MT_OK) status = finish_queries(pass, params, a);
    if (status == MT_OK)
        status = pass->cached.sequence != NULL ? attend_cached(pass, params, a) : attend(pass, params, a);
    if (status != MT_OK) {
        (void)mt_device_join(pass->device); // what failed may have come before attention did so
        return status;
    }
    const struct mt_linear_output output = {.linear = &params->o, .trace = &a->o_lora, .y = y};
    return mt_linear_forward(pass, &output, 1, NULL, &a->out, false);
}

// ------------------------------------------------------------------ backward

static enum mt_status scores_backward(const struct mt_pass *pass, const struct mt_attention_latent *a)
{
    const struct mt_model_desc *desc = pass->desc;
    enum mt_status status =
        mt_attention_backward(pass->device, &(struct mt_attention_backward_args){
                                                .q = mt_pass_heads(&a->q, desc->heads),
                                                .k = mt_pass_heads(&a->key, desc->heads),
                                                .v = value_part(pass, &a->kv),
                                                .q_offsets = pass->offsets,
                                                .k_offsets = pass->offsets,
                                                .out = mt_pass_heads(&a->out, desc->heads),
                                                .lse = a->lse,
                                                .dout = mt_pass_heads(&a->dout, desc->heads),
                                                .dq = mt_pass_heads(&a->dq, desc->heads),
                                                .dk = mt_pass_heads(&a->dkey, desc->heads),
                                                .dv = value_part(pass, &a->dkv),
                                                .scale = desc->score_scale,
                                                .window = desc->window,
                                            });
    if (status != MT_OK) return status;
    status = rotate(pass, &a->dq, true);
    if (status != MT_OK) return status;
    return mt_mla_key_backward(pass->device, &(struct mt_mla_key_backward_args){
                                                 .dkey = mt_pass_heads(&a->dkey, desc->heads),
                                                 .positions = pass->positions,
                                                 .cosine = pass->cosine,
                                                 .sine = pass->sine,
                                                 .dnope = key_part(pass, &a->dkv),
                                                 .dshared = shared_part(pass, &a->dkv_latent),
                                                 .layout = desc->rope_layout,
                                             });
}

/* From dq to dq_latent, where queries are compressed. */
static enum mt_status queries_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                       const struct mt_attention_latent *a)
{
    if (pass->desc->query_rank == 0) return MT_OK;
    enum mt_status status = MT_OK;
    if (mt_linear_reads_input(&params->q_b)) {
        status = normalise_queries(pass, params, a);
        if (status != MT_OK) return status;
    }
    const struct mt_linear_gradient gradient = {.linear = &params->q_b, .dy = &a->dq, .trace = &a->q_b_lora};
    status = mt_linear_backward(pass, &gradient, 1, NULL, &a->q_normed, false, &a->dq_latent);
    if (status != MT_OK) return status;
    struct mt_norm norm = latent_norm(pass, &params->q_a_norm);
    return mt_norm_backward(pass, &norm, &a->dq_latent, &a->q_latent, &a->q_saved, false, &a->dq_latent);
}

/* From dkv to dkv_latent, whose shared part is there already. */
static enum mt_status keys_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                    const struct mt_attention_latent *a)
{
    const struct mt_linear_gradient gradient = {
        .linear = &params->kv_b, .dy = &a->dkv, .trace = &a->kv_b_lora};
    enum mt_status status =
        mt_linear_backward(pass, &gradient, 1, NULL, &a->kv_normed, false, &a->dkv_normed);
    if (status != MT_OK) return status;
    struct mt_norm norm = latent_norm(pass, &params->kv_a_norm);
    struct mt_tensor latent = latent_part(pass, &a->kv_latent);
    struct mt_tensor dlatent = latent_part(pass, &a->dkv_latent);
    return mt_norm_backward(pass, &norm, &a->dkv_normed, &latent, &a->kv_saved, false, &dlatent);
}

/* From the gradients of what project made to dx. */
static enum mt_status project_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                       const struct mt_attention_latent *a, const struct mt_tensor *x,
                                       const struct mt_tensor *dx)
{
    struct mt_linear_gradient both[] = {
        {.linear = &params->q, .dy = &a->dq, .trace = &a->q_lora},
        {.linear = &params->kv_a, .dy = &a->dkv_latent, .trace = &a->kv_a_lora}};
    if (pass->desc->query_rank > 0)
        both[0] =
            (struct mt_linear_gradient){.linear = &params->q_a, .dy = &a->dq_latent, .trace = &a->q_a_lora};
    return mt_linear_backward(pass, both, 2, NULL, x, false, dx);
}

enum mt_status mt_attention_latent_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                            const struct mt_attention_latent *attention,
                                            const struct mt_tensor *dy, const struct mt_tensor *x,
                                            const struct mt_tensor *dx)
{
    const struct mt_attention_latent *a = attention;
    bool inner = dx != NULL || inputs_are_trained(params);
    const struct mt_linear_gradient output = {.linear = &params->o, .dy = dy, .trace = &a->o_lora};
    enum mt_status status =
        mt_linear_backward(pass, &output, 1, NULL, &a->out, false, inner ? &a->dout : NULL);
    if (status != MT_OK || !inner) return status;
    status = widen_latent(pass, params, a);
    if (status != MT_OK) return status;
    status = scores_backward(pass, a);
    if (status == MT_OK) status = queries_backward(pass, params, a);
    if (status == MT_OK) status = keys_backward(pass, params, a);
    if (status != MT_OK) return status;
    return project_backward(pass, params, a, x, dx);
}
