/*
 * DeepSeek-MoE-16B: softmax over all experts, the k best as they are (or normalised), shared experts beside
 * them. Its own code knows neither groups, a correction bias nor a scaling factor.
 */
#include "model/arch/arch.h"

enum mt_status mt_arch_deepseek(struct mt_context *ctx, const struct mt_hf_config *config,
                                struct mt_model_desc *desc)
{
    if (config->scoring != MT_HF_SCORING_SOFTMAX) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "scoring_func is sigmoid; a deepseek router knows softmax only");
    }
    if (config->topk != MT_HF_TOPK_GREEDY) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "topk_method is not greedy; a deepseek router knows no other");
    }
    if (config->routed_scaling_factor != 1.0) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "routed_scaling_factor is %g; a deepseek router has no such factor",
                       config->routed_scaling_factor);
    }
    mt_arch_grouped_attention(config, desc);
    desc->names = mt_arch_mlp_names;
    desc->loaders = (struct mt_model_loaders){0}; // a class of its own, published with the model
    desc->router.kind = MT_ROUTER_SOFTMAX;
    desc->router.normalise = config->norm_topk_prob;
    desc->router.epsilon = 1e-20f;
    return MT_OK;
}
