/* From a config to a description: what all architectures read alike, then the architecture's own file. */
#include "model/desc.h"

#include <limits.h>

#include "model/arch/arch.h"

#define LATENT_EPSILON 1e-6f // hard-coded in the latent norms of the MLA models; rms_norm_eps is not read

/* A window no sequence can fill is none. */
static int window_of(const struct mt_hf_config *config)
{
    return config->sliding_window < INT_MAX ? (int)config->sliding_window : 0;
}

/* With theta 1 all pairs turn alike, and YaRN has no pair to start its ramp at. */
static enum mt_status check_rope(struct mt_context *ctx, const struct mt_hf_rope *rope)
{
    if (rope->kind != MT_HF_ROPE_YARN || rope->theta > 1.0) return MT_OK;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED, "rope_theta is %g, yarn needs more than 1", rope->theta);
}

enum mt_status mt_model_describe(struct mt_context *ctx, const struct mt_hf_config *config,
                                 struct mt_model_desc *desc)
{
    *desc = (struct mt_model_desc){
        .config = config,
        .vocabulary = config->vocab_size,
        .width = config->hidden_size,
        .layers = config->layers,
        .tied_head = config->tie_word_embeddings,
        .head_bias = config->lm_head_bias,
        .norm = MT_NORM_RMS,
        .norm_epsilon = (float)config->norm_epsilon,
        .latent_epsilon = LATENT_EPSILON,
        .heads = config->heads,
        .key_heads = config->kv_heads,
        .head_width = config->head_dim,
        .value_width = config->v_head_dim,
        .attention_bias = config->attention_bias,
        .window = window_of(config),
        .dense_width = config->intermediate_size,
        .expert_width = config->moe_intermediate_size,
        .shared_width = config->shared_experts * config->moe_intermediate_size,
        .experts = (int)config->experts,
        .router = {.slots = (int)config->experts_per_token, .scale = 1.0f},
    };
    enum mt_status status = check_rope(ctx, &config->rope);
    if (status == MT_OK) status = mt_arch_table[config->model](ctx, config, desc);
    if (status != MT_OK) return mt_fail_within(ctx, status, "%s", mt_hf_model_name(config->model));
    return MT_OK;
}

bool mt_model_layer_is_moe(const struct mt_model_desc *desc, int64_t layer)
{
    return mt_hf_config_layer_is_moe(desc->config, layer);
}

int mt_model_moe_layers(const struct mt_model_desc *desc, int64_t *number)
{
    int count = 0;
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        if (!mt_model_layer_is_moe(desc, layer)) continue;
        if (number != NULL) number[count] = layer;
        count++;
    }
    return count;
}
