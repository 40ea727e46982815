/*
 * DeepSeek-V3 and Moonlight: latent attention, sigmoid scores, selection by score plus correction bias among
 * the best groups (by their two best experts, the rest masked with -inf), weights without the bias,
 * normalised and then always times a factor. The copies of the paper's authors say scoring_func softmax, and
 * mean it.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEYS_LATENT,
    MT_KEYS_DEEPSEEK_EXPERTS,
    MT_KEYS_DEEPSEEK_CHOICE,
};

static const struct mt_tensor_row layer[] = {
    MT_ROWS_LATENT_ATTENTION, MT_ROWS_NORM_WEIGHTS, MT_ROWS_DENSE,
    MT_ROW_CORRECTION,        MT_ROWS_EXPERTS,      MT_ROWS_SHARED("mlp.shared_experts"),
};

static enum mt_status refuse(struct mt_context *ctx, const struct mt_hf_config *config)
{
    if (config->topk == MT_HF_TOPK_NOAUX) return MT_OK;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                   "topk_method is not noaux_tc; a deepseek_v3 router supports only noaux_tc");
}

const struct mt_arch mt_arch_deepseek_v3 = {
    .name = "deepseek_v3",
    .defaults =
        {
            .norm_epsilon = 1e-6,
            .rope = {.theta = 1e4},
            .q_lora_rank = 1536,
            .kv_lora_rank = 512,
            .qk_nope_head_dim = 128,
            .qk_rope_head_dim = 64,
            .v_head_dim = 128,
            .rope_interleave = true,
            .first_k_dense = 3,
            .shared_experts = 1,
            .scoring = MT_HF_SCORING_SIGMOID,
            .topk = MT_HF_TOPK_NOAUX,
            .norm_topk_prob = true,
            .groups = 8,
            .topk_groups = 4,
            .routed_scaling_factor = 2.5,
            .aux_loss_coefficient = 0.001,
            .bos = 0,
            MT_DEFAULT_EOS(1),
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.router = "mlp.gate", .llama = "deepseek2", .llama_lacks = mt_arch_llama_latent_lacks},
    .router_epsilon = 1e-20f,
    .refuse = refuse,
};
