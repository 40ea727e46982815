/*
 * GLM-4.5, GLM-4.5-Air and GLM-4.6: grouped attention that rotates the first half of each head, with biases
 * on queries, keys and values but not on the output, and queries and keys normalised per head where
 * use_qk_norm says so (the large ones); DeepSeek-V3's router and experts. No key names the router: the class
 * has one. The layer for multi-token prediction that the files have after the last one is not read.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEY_BOOL("use_qk_norm", use_qk_norm),
    MT_KEYS_DEEPSEEK_EXPERTS,
};

static const struct mt_tensor_row layer[] = {
    MT_ROWS_QUERY_KEY_VALUE,
    MT_ROW("self_attn.o_proj.weight", ATTENTION, ALWAYS, HIDDEN, QUERY),
    MT_ROW("self_attn.q_norm.weight", NORMS, QK_NORM, HEAD, NONE),
    MT_ROW("self_attn.k_norm.weight", NORMS, QK_NORM, HEAD, NONE),
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_DENSE,
    MT_ROW_CORRECTION,
    MT_ROWS_EXPERTS,
    MT_ROWS_SHARED("mlp.shared_experts"),
};

// llama.cpp sets the precision of these products, and stops where a pair is added to one (August 2026).
static const char *const llama_lacks[] = {
    "self_attn.o_proj",
    "mlp.down_proj",
    "mlp.shared_experts.down_proj",
    NULL,
};

const struct mt_arch mt_arch_glm4_moe = {
    .name = "glm4_moe",
    .defaults =
        {
            .norm_epsilon = 1e-5,
            .rope = {.theta = 1e4},
            .rotated_share = 0.5,
            .kv_heads = 8,
            .first_k_dense = 1,
            .shared_experts = 1,
            .scoring = MT_HF_SCORING_SIGMOID,
            .topk = MT_HF_TOPK_NOAUX,
            .norm_topk_prob = true,
            .bos = -1,
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.router = "mlp.gate", .llama = "glm4moe", .llama_lacks = llama_lacks},
    .qk_norm = MT_QK_NORM_HEAD,
    .router_epsilon = 1e-20f,
};
