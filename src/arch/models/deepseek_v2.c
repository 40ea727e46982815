/*
 * DeepSeek-V2 and V2-Lite: latent attention with YaRN, softmax scores, the k best of all experts or of the
 * best groups (by their best expert, the rest masked with 0), weights as they are times a factor.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEYS_LATENT,
    MT_KEYS_DEEPSEEK_EXPERTS,
    MT_KEYS_DEEPSEEK_CHOICE,
};

static const struct mt_tensor_row layer[] = {
    MT_ROWS_LATENT_ATTENTION,
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_DENSE,
    MT_ROW_CORRECTION, // of files that say noaux_tc; they can be looked at, not run
    MT_ROWS_EXPERTS,
    MT_ROWS_SHARED("mlp.shared_experts"),
};

static enum mt_status refuse(struct mt_context *ctx, const struct mt_hf_config *config)
{
    if (config->scoring != MT_HF_SCORING_SOFTMAX) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "scoring_func is sigmoid; a deepseek_v2 router supports only softmax");
    }
    if (config->topk == MT_HF_TOPK_NOAUX) {
        return mt_fail(
            ctx, MT_ERR_UNSUPPORTED,
            "topk_method is noaux_tc; a deepseek_v2 router supports only greedy and group_limited_greedy");
    }
    if (config->norm_topk_prob) {
        // DeepSeek's code then leaves the factor out; transformers ignores the key.
        return mt_fail(
            ctx, MT_ERR_UNSUPPORTED,
            "norm_topk_prob is true, but existing programs disagree on what that means for deepseek_v2");
    }
    if (!config->rope_interleave) {
        return mt_fail(
            ctx, MT_ERR_UNSUPPORTED,
            "rope_interleave is false, but deepseek_v2 stores the pairs of RoPE next to each other");
    }
    return MT_OK;
}

const struct mt_arch mt_arch_deepseek_v2 = {
    .name = "deepseek_v2",
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
            .shared_experts = 2,
            .aux_loss_coefficient = 0.001,
            .bos = 1,
            MT_DEFAULT_EOS(2),
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.router = "mlp.gate", .llama = "deepseek2", .llama_lacks = mt_arch_llama_latent_lacks},
    .refuse = refuse,
};
