/* The absorbed form: a product per head before attention and one after, grouped over the heads. */
#include "model/layers/attention_absorbed.h"

void mt_attention_absorbed_plan(struct mt_attention_absorbed *absorbed, const struct mt_pass *pass,
                                const struct mt_layer_params *params, struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    enum mt_dtype type = pass->type;
    int64_t tokens = pass->tokens - pass->prompt_tokens;
    int64_t rows = desc->heads * tokens;
    int64_t latent = desc->latent_rank;
    *absorbed = (struct mt_attention_absorbed){0};
    absorbed->query_by_head = mt_plan_2d(work, type, rows, desc->nope_width);
    absorbed->latent_by_head = mt_plan_2d(work, type, rows, latent);
    if (mt_linear_has_lora(&params->kv_b))
        absorbed->xa_by_head = mt_plan_2d(work, type, rows, params->kv_b.a.dim[0]);
    absorbed->query = mt_plan_2d(work, type, tokens, desc->heads * (latent + desc->rope_width));
    absorbed->sum = mt_plan_2d(work, type, tokens, desc->heads * latent);
    absorbed->out_by_head = mt_plan_2d(work, type, rows, desc->value_width);
}

static enum mt_status copy(const struct mt_pass *pass, const struct mt_tensor *x, const struct mt_tensor *y)
{
    return mt_copy(pass->device, &(struct mt_copy_args){.x = *x, .y = *y});
}

/* Rows [H·T,W] sorted by head, seen as [T,H,W]. */
static struct mt_tensor by_token(const struct mt_pass *pass, const struct mt_tensor *rows)
{
    int64_t width = rows->dim[1];
    int64_t tokens = rows->dim[0] / pass->desc->heads;
    return (struct mt_tensor){.data = rows->data,
                              .dtype = rows->dtype,
                              .rank = 3,
                              .dim = {tokens, pass->desc->heads, width},
                              .stride = {width, tokens * width, 1}};
}

/* [T,H,W] to rows [H·T,W] sorted by head. */
static enum mt_status sort_by_head(const struct mt_pass *pass, const struct mt_tensor *tokens,
                                   const struct mt_tensor *rows)
{
    struct mt_tensor sorted = by_token(pass, rows);
    return copy(pass, tokens, &sorted);
}

/* The way back. */
static enum mt_status sort_by_token(const struct mt_pass *pass, const struct mt_tensor *rows,
                                    const struct mt_tensor *tokens)
{
    struct mt_tensor sorted = by_token(pass, rows);
    return copy(pass, &sorted, tokens);
}

/* y = scale · x W_h (or Wᵀ) + beta · y, head by head. */
static enum mt_status product(const struct mt_pass *pass, const struct mt_tensor *x,
                              const struct mt_tensor *weight, bool transpose, float scale, float beta,
                              const struct mt_tensor *y)
{
    return mt_grouped_gemm(pass->device, &(struct mt_grouped_gemm_args){.x = *x,
                                                                        .weight = weight,
                                                                        .experts = (int)pass->desc->heads,
                                                                        .offsets = pass->head_offsets,
                                                                        .y = *y,
                                                                        .transpose_weight = transpose,
                                                                        .alpha = scale,
                                                                        .beta = beta});
}

/* Queries into the latent space: [K_hᵀ q_h | the rotated part]. */
static enum mt_status absorb_queries(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                     const struct mt_layer_cache *cache,
                                     const struct mt_attention_absorbed *a, const struct mt_tensor *q)
{
    const struct mt_model_desc *desc = pass->desc;
    struct mt_tensor heads = mt_pass_heads(q, desc->heads);
    struct mt_tensor plain = mt_tensor_columns(&heads, 0, desc->nope_width);
    struct mt_tensor rotated = mt_tensor_columns(&heads, desc->nope_width, desc->rope_width);
    enum mt_status status = sort_by_head(pass, &plain, &a->query_by_head);
    if (status != MT_OK) return status;
    status = product(pass, &a->query_by_head, cache->head_key, false, 1.0f, 0.0f, &a->latent_by_head);
    if (status == MT_OK && mt_linear_has_lora(kv_b)) {
        status = product(pass, &a->query_by_head, cache->lora_key, false, 1.0f, 0.0f, &a->xa_by_head);
        if (status != MT_OK) return status;
        status = mt_gemm(pass->device, &(struct mt_gemm_args){.a = a->xa_by_head,
                                                              .b = kv_b->a,
                                                              .c = a->latent_by_head,
                                                              .alpha = kv_b->lora_scale,
                                                              .beta = 1.0f});
    }
    if (status != MT_OK) return status;
    struct mt_tensor query = mt_pass_heads(&a->query, desc->heads);
    struct mt_tensor latent_part = mt_tensor_columns(&query, 0, desc->latent_rank);
    struct mt_tensor rotated_part = mt_tensor_columns(&query, desc->latent_rank, desc->rope_width);
    status = sort_by_token(pass, &a->latent_by_head, &latent_part);
    return status == MT_OK ? copy(pass, &rotated, &rotated_part) : status;
}

/* What attention summed, out of the latent space: V_h s_h. */
static enum mt_status expand_sums(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                  const struct mt_layer_cache *cache, const struct mt_attention_absorbed *a,
                                  const struct mt_tensor *out)
{
    struct mt_tensor sum = mt_pass_heads(&a->sum, pass->desc->heads);
    enum mt_status status = sort_by_head(pass, &sum, &a->latent_by_head);
    if (status != MT_OK) return status;
    status = product(pass, &a->latent_by_head, cache->head_value, true, 1.0f, 0.0f, &a->out_by_head);
    if (status == MT_OK && mt_linear_has_lora(kv_b)) {
        status = mt_gemm(pass->device, &(struct mt_gemm_args){.a = a->latent_by_head,
                                                              .b = kv_b->a,
                                                              .c = a->xa_by_head,
                                                              .transpose_b = true,
                                                              .alpha = 1.0f});
        if (status != MT_OK) return status;
        status =
            product(pass, &a->xa_by_head, cache->lora_value, true, kv_b->lora_scale, 1.0f, &a->out_by_head);
    }
    if (status != MT_OK) return status;
    struct mt_tensor target = mt_pass_heads(out, pass->desc->heads);
    return sort_by_token(pass, &a->out_by_head, &target);
}

enum mt_status mt_attention_absorbed_forward(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                             const struct mt_layer_cache *cache,
                                             const struct mt_attention_absorbed *absorbed,
                                             const struct mt_tensor *q, const struct mt_tensor *out)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t sequences = pass->sequences - pass->prompt_sequences;
    struct mt_tensor queries = mt_tensor_rows(q, 0, absorbed->query.dim[0]);
    struct mt_tensor sums = mt_tensor_rows(out, 0, absorbed->query.dim[0]);
    enum mt_status status = absorb_queries(pass, kv_b, cache, absorbed, &queries);
    if (status != MT_OK) return status;
    struct mt_tensor keys = mt_pass_heads(&cache->latent, 1);
    status = mt_attention_forward(pass->device,
                                  &(struct mt_attention_forward_args){
                                      .q = mt_pass_heads(&absorbed->query, desc->heads),
                                      .k = keys,
                                      .v = mt_tensor_columns(&keys, 0, desc->latent_rank),
                                      .q_offsets = mt_tensor_rows(&pass->offsets, 0, sequences + 1),
                                      .k_offsets = mt_tensor_rows(&pass->key_offsets, 0, sequences + 1),
                                      .k_starts = mt_tensor_rows(&pass->key_starts, 0, sequences),
                                      .out = mt_pass_heads(&absorbed->sum, desc->heads),
                                      .scale = desc->score_scale,
                                      .window = desc->window,
                                  });
    if (status != MT_OK) return status;
    return expand_sums(pass, kv_b, cache, absorbed, &sums);
}
