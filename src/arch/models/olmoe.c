/*
 * OLMoE: queries and keys normalised over all heads at once, then q, k and v clipped; softmax over all
 * experts, the k best as they are (or normalised).
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEY_REAL("clip_qkv", clip_qkv, 1e-6, 1e6),
    MT_KEY_NORM_TOPK,
    MT_KEY_AUX_LOSS,
};

static const struct mt_tensor_row layer[] = {
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROW("self_attn.q_norm.weight", NORMS, ALWAYS, QUERY, NONE),
    MT_ROW("self_attn.k_norm.weight", NORMS, ALWAYS, KEY_VALUE, NONE),
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_EXPERTS,
};

const struct mt_arch mt_arch_olmoe = {
    .name = "olmoe",
    .defaults =
        {
            .use_qk_norm = true,
            .norm_epsilon = 1e-5,
            .rope = {.theta = 1e4},
            .aux_loss_coefficient = 0.01,
            .bos = -1,
            MT_DEFAULT_EOS(50279),
            .pad = 1,
        },
    MT_ARCH_KEYS(keys),
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.router = "mlp.gate", .linear_router = true, .llama = "olmoe"},
    .qk_norm = MT_QK_NORM_WHOLE,
};
