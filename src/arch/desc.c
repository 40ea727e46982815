/* From a config, and what no key of it says, to a description. */
#include "arch/desc.h"

#include <limits.h>
#include <math.h>

#include "arch/rope.h"

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

/* Attention with q, k and v projections: the first elements of a head are rotated, mostly all of them. */
static void describe_grouped(const struct mt_hf_config *config, struct mt_model_desc *desc)
{
    desc->attention = MT_ATTENTION_GROUPED;
    desc->rope_width = mt_hf_config_rotated(config);
    desc->score_scale = (float)(1.0 / sqrt((double)config->head_dim));
}

/* Multi-head latent attention: only the last rope_width elements are rotated. */
static void describe_latent(const struct mt_hf_config *config, struct mt_model_desc *desc)
{
    desc->attention = MT_ATTENTION_LATENT;
    desc->query_rank = config->q_lora_rank;
    desc->latent_rank = config->kv_lora_rank;
    desc->nope_width = config->qk_nope_head_dim;
    desc->rope_width = config->qk_rope_head_dim;
    double scale = 1.0 / sqrt((double)config->head_dim); // of nope and rope together
    desc->score_scale = (float)(scale * mt_rope_score_factor(&config->rope));
}

static enum mt_status describe_router(struct mt_context *ctx, const struct mt_hf_config *config,
                                      struct mt_router_config *router)
{
    static const enum mt_router_kind kinds[] = {
        [MT_HF_SCORING_SOFTMAX] = MT_ROUTER_SOFTMAX,
        [MT_HF_SCORING_SIGMOID] = MT_ROUTER_SIGMOID,
        [MT_HF_SCORING_SPARSEMIXER] = MT_ROUTER_SPARSEMIXER,
    };
    *router = (struct mt_router_config){
        .kind = kinds[config->scoring],
        .slots = (int)config->experts_per_token,
        .normalise = config->norm_topk_prob,
        .epsilon = config->arch->router_epsilon,
        .scale = (float)config->routed_scaling_factor,
        .jitter = (float)config->router_jitter_noise,
    };
    if (config->topk == MT_HF_TOPK_GREEDY || config->topk_groups >= config->groups) return MT_OK;
    bool best_two = config->topk == MT_HF_TOPK_NOAUX;
    if (best_two && config->experts / config->groups < 2) {
        return mt_fail(
            ctx, MT_ERR_UNSUPPORTED,
            "n_group is %lld, so each group has one expert, but the router judges a group by its best two",
            (long long)config->groups);
    }
    router->group_rule = best_two ? MT_GROUP_TOP2_SUM : MT_GROUP_MAX;
    router->groups = (int)config->groups;
    router->groups_kept = (int)config->topk_groups;
    return MT_OK;
}

enum mt_status mt_model_describe(struct mt_context *ctx, const struct mt_hf_config *config,
                                 struct mt_model_desc *desc)
{
    const struct mt_arch *arch = config->arch;
    *desc = (struct mt_model_desc){
        .config = config,
        .vocabulary = config->vocab_size,
        .width = config->hidden_size,
        .layers = config->layers,
        .tied_head = config->tie_word_embeddings,
        .head_bias = config->lm_head_bias,
        .norm = arch->norm,
        .norm_epsilon = (float)config->norm_epsilon,
        .latent_epsilon = LATENT_EPSILON,
        .heads = config->heads,
        .key_heads = config->kv_heads,
        .head_width = config->head_dim,
        .value_width = config->v_head_dim,
        .attention_bias = config->attention_bias,
        .rope_layout = config->rope_interleave ? MT_ROPE_INTERLEAVED : MT_ROPE_HALF,
        .qk_norm = config->use_qk_norm ? arch->qk_norm : MT_QK_NORM_NONE,
        .clip = (float)config->clip_qkv,
        .window = window_of(config),
        .dense_width = config->intermediate_size,
        .expert_width = config->moe_intermediate_size,
        .shared_width = config->shared_width,
        .swiglu_limit = (float)config->swiglu_limit,
        .swiglu_alpha = (float)config->swiglu_alpha,
        .experts = (int)config->experts,
        .correction_bias = config->topk == MT_HF_TOPK_NOAUX,
        .input_jitter = (float)config->input_jitter_noise,
        .names = arch->names,
        .loaders = arch->loaders,
        .stored = arch->stored,
    };
    if (mt_hf_config_is_mla(config)) {
        describe_latent(config, desc);
    } else {
        describe_grouped(config, desc);
    }
    enum mt_status status = check_rope(ctx, &config->rope);
    if (status == MT_OK && arch->refuse != NULL) status = arch->refuse(ctx, config);
    if (status == MT_OK) status = describe_router(ctx, config, &desc->router);
    if (status != MT_OK) return mt_fail_within(ctx, status, "%s", arch->name);
    return MT_OK;
}

bool mt_model_layer_is_moe(const struct mt_model_desc *desc, int64_t layer)
{
    return mt_hf_config_layer_is_moe(desc->config, layer);
}

int mt_model_window(const struct mt_model_desc *desc, int64_t layer)
{
    const bool *windowed = desc->config->windowed;
    return windowed == NULL || windowed[layer] ? desc->window : 0;
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
