/* The widened form: gather, kv_b, keys put together, attention. */
#include "model/layers/attention_widened.h"

void mt_attention_widened_plan(struct mt_attention_widened *widened, const struct mt_pass *pass,
                               const struct mt_layer_params *params, struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t keys = pass->cached.prompt_keys;
    widened->latent = mt_plan_2d(work, pass->type, keys, desc->latent_rank + desc->rope_width);
    widened->kv = mt_plan_2d(work, pass->type, keys, desc->heads * (desc->nope_width + desc->value_width));
    widened->key = mt_plan_2d(work, pass->type, keys, desc->heads * desc->head_width);
    widened->lora = mt_linear_plan_lora(work, pass, &params->kv_b, keys, NULL);
}

/* Keys and values of the heads, from the latents the cache has. */
static enum mt_status widen(const struct mt_pass *pass, const struct mt_linear *kv_b,
                            const struct mt_layer_cache *cache, const struct mt_attention_widened *w)
{
    const struct mt_model_desc *desc = pass->desc;
    enum mt_status status = mt_embedding_forward(
        pass->device, &(struct mt_embedding_forward_args){
                          .table = cache->latent, .ids = pass->cached.prompt_key_places, .y = w->latent});
    if (status != MT_OK) return status;
    struct mt_tensor latent = mt_tensor_columns(&w->latent, 0, desc->latent_rank);
    const struct mt_linear_output output = {.linear = kv_b, .trace = &w->lora, .y = &w->kv};
    status = mt_linear_forward(pass, &output, 1, NULL, &latent, false);
    if (status != MT_OK) return status;
    struct mt_tensor heads = mt_pass_heads(&w->kv, desc->heads);
    return mt_mla_key_forward(
        pass->device, &(struct mt_mla_key_forward_args){
                          .nope = mt_tensor_columns(&heads, 0, desc->nope_width),
                          .shared = mt_tensor_columns(&w->latent, desc->latent_rank, desc->rope_width),
                          .positions = pass->cached.prompt_turns, // it was rotated on its way into the cache
                          .cosine = pass->cached.still_cosine,
                          .sine = pass->cached.still_sine,
                          .key = mt_pass_heads(&w->key, desc->heads),
                          .layout = desc->rope_layout});
}

enum mt_status mt_attention_widened_forward(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                            const struct mt_layer_cache *cache,
                                            const struct mt_attention_widened *widened,
                                            const struct mt_tensor *q, const struct mt_tensor *out)
{
    const struct mt_model_desc *desc = pass->desc;
    enum mt_status status = widen(pass, kv_b, cache, widened);
    if (status != MT_OK) return status;
    int64_t first = pass->tokens - pass->cached.prompt_tokens;
    struct mt_tensor rows = mt_tensor_rows(q, first, pass->cached.prompt_tokens);
    struct mt_tensor queries = mt_pass_heads(&rows, desc->heads);
    struct mt_tensor rotated = mt_tensor_columns(&queries, desc->nope_width, desc->rope_width);
    status = mt_pass_rotate(pass, &rotated, first, false, &rotated);
    if (status != MT_OK) return status;
    struct mt_tensor sums = mt_tensor_rows(out, first, pass->cached.prompt_tokens);
    struct mt_tensor heads = mt_pass_heads(&widened->kv, desc->heads);
    return mt_attention_forward(pass->device,
                                &(struct mt_attention_forward_args){
                                    .q = queries,
                                    .k = mt_pass_heads(&widened->key, desc->heads),
                                    .v = mt_tensor_columns(&heads, desc->nope_width, desc->value_width),
                                    .q_offsets = pass->cached.prompt_offsets,
                                    .k_offsets = pass->cached.prompt_key_offsets,
                                    .out = mt_pass_heads(&sums, desc->heads),
                                    .scale = desc->score_scale,
                                    .window = desc->window,
                                });
}
