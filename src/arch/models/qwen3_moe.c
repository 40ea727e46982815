/* Qwen3-MoE: queries and keys normalised per head; softmax over all experts, the k best normalised or not. */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS, MT_KEY_WINDOW,    MT_KEY_EXPERT_WIDTH,
    MT_KEY_SPARSE_STEP,    MT_KEY_NORM_TOPK, MT_KEY_AUX_LOSS,
};

static enum mt_status read_layers(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = mt_arch_read_window_switch(root, config);
    return status == MT_OK ? mt_arch_read_dense_layers(root, config) : status;
}

static const struct mt_tensor_row layer[] = {
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROW("self_attn.q_norm.weight", NORMS, ALWAYS, HEAD, NONE),
    MT_ROW("self_attn.k_norm.weight", NORMS, ALWAYS, HEAD, NONE),
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_DENSE,
    MT_ROWS_EXPERTS,
};

const struct mt_arch mt_arch_qwen3_moe = {
    .name = "qwen3_moe",
    .defaults =
        {
            .use_qk_norm = true,
            .norm_epsilon = 1e-6,
            .rope = {.theta = 1e4},
            .kv_heads = 4,
            .sliding_window = 4096,        // without effect unless use_sliding_window is true
            .aux_loss_coefficient = 0.001, // norm_topk_prob is false, although the published files say true
            .bos = -1,
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    .read = read_layers,
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.router = "mlp.gate", .linear_router = true, .vllm_head = true, .llama = "qwen3moe"},
    .qk_norm = MT_QK_NORM_HEAD,
};
