/*
 * Mixtral: softmax over all experts, the k best normalised to a sum of 1. Its router_jitter_noise multiplies
 * the whole block's input in training, so the experts see it too.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_WINDOW,
    MT_KEY_AUX_LOSS,
    MT_KEY_REAL("router_jitter_noise", input_jitter_noise, 0.0, 1.0),
};

static const struct mt_tensor_row layer[] = {
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_SPARSE_BLOCK,
};

const struct mt_arch mt_arch_mixtral = {
    .name = "mixtral",
    .defaults =
        {
            .norm_epsilon = 1e-5,
            .rope = {.theta = 1e6},
            .kv_heads = 8,
            .norm_topk_prob = true, // not a key of this class: the weights always sum to one
            .aux_loss_coefficient = 0.001,
            .bos = 1,
            MT_DEFAULT_EOS(2),
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_SPARSE_BLOCK},
    .loaders = {.router = "mlp.gate",
                .linear_router = true,
                .vllm_head = true,
                .llama = "llama",
                .llama_neighbours = true},
};
