/*
 * Phi-3.5-MoE: LayerNorm with bias (its epsilon is spelt rms_norm_eps), biases in attention and head,
 * LongRoPE with the magnitudes of the config, SparseMixer with router_jitter_noise as its threshold, also in
 * evaluation.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEY_BOOL("lm_head_bias", lm_head_bias),
    MT_KEY_WINDOW,
    MT_KEY_AUX_LOSS,
    MT_KEY_REAL("router_jitter_noise", router_jitter_noise, 0.0, 1.0),
    MT_KEY_REAL("input_jitter_noise", input_jitter_noise, 0.0, 1.0),
};

static enum mt_status check_slots(const struct mt_json_node *root, struct mt_hf_config *config)
{
    if (config->experts_per_token == 2) return MT_OK;
    struct mt_json_node node;
    (void)mt_json_member(root, "num_experts_per_tok", &node);
    return mt_json_fail(&node, "is %lld, but phimoe's router picks exactly 2",
                        (long long)config->experts_per_token);
}

static const struct mt_tensor_row layer[] = {
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROWS_NORM_WEIGHTS,
    MT_ROW("input_layernorm.bias", NORMS, ALWAYS, HIDDEN, NONE),
    MT_ROW("post_attention_layernorm.bias", NORMS, ALWAYS, HIDDEN, NONE),
    MT_ROWS_SPARSE_BLOCK,
};

static const struct mt_tensor_row after[] = {
    MT_ROW("model.norm.weight", NORMS, ALWAYS, HIDDEN, NONE),
    MT_ROW("model.norm.bias", NORMS, ALWAYS, HIDDEN, NONE),
    MT_ROW("lm_head.weight", LM_HEAD, LM_HEAD, VOCAB, HIDDEN),
    MT_ROW("lm_head.bias", LM_HEAD, LM_HEAD_BIAS, VOCAB, NONE),
};

const struct mt_arch mt_arch_phimoe = {
    .name = "phimoe",
    .defaults =
        {
            .norm_epsilon = 1e-5,
            .rope = {.theta = 1e6, .mscale_required = true},
            .kv_heads = 8,
            .scoring = MT_HF_SCORING_SPARSEMIXER,
            .router_jitter_noise = 0.01,
            .aux_loss_coefficient = 0.001,
            .bos = 1,
            MT_DEFAULT_EOS(2),
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    .read = check_slots,
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(after),
    .names = {MT_NAMES_SPARSE_BLOCK},
    .loaders = {.router = "mlp.router", .linear_router = true, .vllm_head = true, .llama = "phimoe"},
    .norm = MT_NORM_LAYER,
};
