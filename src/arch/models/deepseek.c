/*
 * DeepSeek-MoE-16B: softmax over all experts, the k best as they are (or normalised), shared experts beside
 * them. Its own code knows neither groups, a correction bias nor a scaling factor.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEYS_DEEPSEEK_EXPERTS,
    MT_KEYS_DEEPSEEK_CHOICE,
};

static const struct mt_tensor_row layer[] = {
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_DENSE,
    MT_ROWS_EXPERTS,
    MT_ROWS_SHARED("mlp.shared_experts"),
};

static enum mt_status refuse(struct mt_context *ctx, const struct mt_hf_config *config)
{
    if (config->scoring != MT_HF_SCORING_SOFTMAX) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "scoring_func is sigmoid; a deepseek router supports only softmax");
    }
    if (config->topk != MT_HF_TOPK_GREEDY) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "topk_method is not greedy; a deepseek router supports only greedy");
    }
    if (config->routed_scaling_factor != 1.0) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "routed_scaling_factor is %g; a deepseek router has no such factor",
                       config->routed_scaling_factor);
    }
    return MT_OK;
}

const struct mt_arch mt_arch_deepseek = {
    .name = "deepseek",
    .defaults =
        {
            .norm_epsilon = 1e-6,
            .rope = {.theta = 1e4},
            .aux_loss_coefficient = 0.001,
            .bos = 100000,
            MT_DEFAULT_EOS(100001),
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.own_code = "deepseek",
                .llama = "deepseek",
                .llama_neighbours = true}, // a class of its own, published with the model
    .router_epsilon = 1e-20f,
    .refuse = refuse,
};
