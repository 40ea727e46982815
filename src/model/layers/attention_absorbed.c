/* The absorbed form: a product per head before attention and one after. */
#include "model/layers/attention_absorbed.h"

#include "ops/beside.h"

void mt_attention_absorbed_plan(struct mt_attention_absorbed *absorbed, const struct mt_pass *pass,
                                const struct mt_layer_params *params, struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t latent = desc->latent_rank;
    int64_t tokens = pass->tokens - pass->cached.prompt_tokens;
    *absorbed = (struct mt_attention_absorbed){0};
    absorbed->query = mt_plan_2d(work, pass->type, tokens, desc->heads * (latent + desc->rope_width));
    absorbed->sum = mt_plan_2d(work, pass->type, tokens, desc->heads * latent);
    if (mt_linear_has_lora(&params->kv_b))
        absorbed->xa = mt_plan_2d(work, pass->type, tokens, desc->heads * params->kv_b.rank);
}

/* y = scale · x W_h (or Wᵀ) + beta · y, head by head. */
static enum mt_status product(const struct mt_pass *pass, const struct mt_tensor *x,
                              const struct mt_tensor *weight, bool transpose, float scale, float beta,
                              const struct mt_tensor *y)
{
    return mt_head_gemm(
        pass->device,
        &(struct mt_head_gemm_args){
            .x = *x, .weight = weight, .y = *y, .transpose_weight = transpose, .alpha = scale, .beta = beta});
}

/* [T,H,W] of which heads follow each other evenly, as rows [T·H,W]. */
static struct mt_tensor as_rows(const struct mt_tensor *heads)
{
    return (struct mt_tensor){.data = heads->data,
                              .dtype = heads->dtype,
                              .rank = 2,
                              .dim = {heads->dim[0] * heads->dim[1], heads->dim[2]},
                              .stride = {heads->stride[1], 1}};
}

/* The pair's first matrix as products read it. */
static struct mt_tensor lora_a(const struct mt_linear *kv_b)
{
    return kv_b->rounded_a != NULL ? *kv_b->rounded_a : *kv_b->a;
}

/* Queries into the latent space: [K_hᵀ q_h | the rotated part]. */
static enum mt_status absorb_queries(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                     const struct mt_layer_cache *cache,
                                     const struct mt_attention_absorbed *a, const struct mt_tensor *q)
{
    const struct mt_model_desc *desc = pass->desc;
    struct mt_tensor heads = mt_pass_heads(q, desc->heads);
    struct mt_tensor plain = mt_tensor_columns(&heads, 0, desc->nope_width);
    struct mt_tensor query = mt_pass_heads(&a->query, desc->heads);
    struct mt_tensor latent = mt_tensor_columns(&query, 0, desc->latent_rank);
    struct mt_tensor turned = mt_tensor_columns(&heads, desc->nope_width, desc->rope_width);
    struct mt_tensor into = mt_tensor_columns(&query, desc->latent_rank, desc->rope_width);
    enum mt_status status = mt_pass_rotate(pass, &turned, 0, false, &into);
    if (status == MT_OK) status = product(pass, &plain, cache->head_key, false, 1.0f, 0.0f, &latent);
    if (status != MT_OK || !mt_linear_has_lora(kv_b)) return status;
    struct mt_tensor xa = mt_pass_heads(&a->xa, desc->heads);
    status = product(pass, &plain, cache->lora_key, false, 1.0f, 0.0f, &xa);
    if (status != MT_OK) return status;
    return mt_gemm(pass->device, &(struct mt_gemm_args){.a = as_rows(&xa),
                                                        .b = lora_a(kv_b),
                                                        .c = as_rows(&latent),
                                                        .alpha = kv_b->lora_scale,
                                                        .beta = 1.0f});
}

/* What attention summed, out of the latent space: V_h s_h. */
static enum mt_status expand_sums(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                  const struct mt_layer_cache *cache, const struct mt_attention_absorbed *a,
                                  const struct mt_tensor *out)
{
    struct mt_tensor sum = mt_pass_heads(&a->sum, pass->desc->heads);
    struct mt_tensor target = mt_pass_heads(out, pass->desc->heads);
    enum mt_status status = product(pass, &sum, cache->head_value, true, 1.0f, 0.0f, &target);
    if (status != MT_OK || !mt_linear_has_lora(kv_b)) return status;
    struct mt_tensor xa = mt_pass_heads(&a->xa, pass->desc->heads);
    status = mt_gemm(
        pass->device,
        &(struct mt_gemm_args){
            .a = as_rows(&sum), .b = lora_a(kv_b), .c = as_rows(&xa), .transpose_b = true, .alpha = 1.0f});
    if (status != MT_OK) return status;
    return product(pass, &xa, cache->lora_value, true, kv_b->lora_scale, 1.0f, &target);
}

enum mt_status mt_attention_absorbed_forward(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                             const struct mt_layer_cache *cache,
                                             const struct mt_attention_absorbed *absorbed,
                                             const struct mt_tensor *q, const struct mt_tensor *out)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t sequences = pass->sequences - pass->cached.prompt_sequences;
    struct mt_tensor queries = mt_tensor_rows(q, 0, absorbed->query.dim[0]);
    struct mt_tensor target = mt_tensor_rows(out, 0, absorbed->query.dim[0]);
    const struct mt_tensor *weight = NULL;
    enum mt_status status = mt_weight_operand(pass->device, &kv_b->weight, NULL, &weight);
    if (status == MT_OK) mt_cache_cut_heads(desc, weight, cache->head_key, cache->head_value);
    if (status == MT_OK) status = absorb_queries(pass, kv_b, cache, absorbed, &queries);
    if (status == MT_OK) status = mt_device_join(pass->device); // this pass's keys may come beside
    if (status != MT_OK) return status;
    struct mt_tensor keys = mt_pass_heads(&cache->latent, 1);
    status = mt_attention_forward(
        pass->device, &(struct mt_attention_forward_args){
                          .q = mt_pass_heads(&absorbed->query, desc->heads),
                          .k = keys,
                          .v = mt_tensor_columns(&keys, 0, desc->latent_rank),
                          .q_offsets = mt_tensor_rows(&pass->offsets, 0, sequences + 1),
                          .k_offsets = mt_tensor_rows(&pass->cached.key_offsets, 0, sequences + 1),
                          .k_starts = mt_tensor_rows(&pass->cached.key_starts, 0, sequences),
                          .out = mt_pass_heads(&absorbed->sum, desc->heads),
                          .scale = desc->score_scale,
                          .window = desc->window,
                      });
    if (status != MT_OK) return status;
    return expand_sums(pass, kv_b, cache, absorbed, &target);
}
