/*
 * DeepSeek-V2 and V2-Lite: latent attention with YaRN, softmax scores, the k best of all experts or of the
 * best groups (by their best expert, the rest masked with 0), weights as they are times a factor.
 */
#include "model/arch/arch.h"

enum mt_status mt_arch_deepseek_v2(struct mt_context *ctx, const struct mt_hf_config *config,
                                   struct mt_model_desc *desc)
{
    if (config->scoring != MT_HF_SCORING_SOFTMAX) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "scoring_func is sigmoid; a deepseek_v2 router knows softmax only");
    }
    if (config->topk == MT_HF_TOPK_NOAUX) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "topk_method is noaux_tc; a deepseek_v2 router knows greedy and group_limited_greedy");
    }
    if (config->norm_topk_prob) {
        // DeepSeek's code then leaves the factor out; transformers ignores the key.
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "norm_topk_prob is true, which existing code reads in two ways for deepseek_v2");
    }
    if (!config->rope_interleave) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "rope_interleave is false; deepseek_v2 stores neighbouring pairs");
    }
    mt_arch_latent_attention(config, desc);
    desc->names = mt_arch_mlp_names;
    desc->loaders = (struct mt_model_loaders){.router = "mlp.gate"};
    desc->router.kind = MT_ROUTER_SOFTMAX;
    desc->router.scale = (float)config->routed_scaling_factor;
    if (config->topk == MT_HF_TOPK_GROUP_LIMITED && config->topk_groups < config->groups) {
        desc->router.group_rule = MT_GROUP_MAX;
        desc->router.groups = (int)config->groups;
        desc->router.groups_kept = (int)config->topk_groups;
    }
    return MT_OK;
}
