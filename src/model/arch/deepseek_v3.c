/*
 * DeepSeek-V3 and Moonlight: latent attention, sigmoid scores, selection by score plus correction bias among
 * the best groups (by their two best experts, the rest masked with -inf), weights without the bias,
 * normalised and then always times a factor. The copies of the paper's authors say scoring_func softmax, and
 * mean it.
 */
#include "model/arch/arch.h"

enum mt_status mt_arch_deepseek_v3(struct mt_context *ctx, const struct mt_hf_config *config,
                                   struct mt_model_desc *desc)
{
    if (config->topk != MT_HF_TOPK_NOAUX) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "topk_method is not noaux_tc; a deepseek_v3 router knows no other");
    }
    mt_arch_latent_attention(config, desc);
    desc->names = mt_arch_mlp_names;
    desc->loaders = (struct mt_model_loaders){.router = "mlp.gate"};
    desc->correction_bias = true;
    desc->router.kind = config->scoring == MT_HF_SCORING_SIGMOID ? MT_ROUTER_SIGMOID : MT_ROUTER_SOFTMAX;
    desc->router.normalise = config->norm_topk_prob;
    desc->router.epsilon = 1e-20f;
    desc->router.scale = (float)config->routed_scaling_factor;
    if (config->topk_groups < config->groups) {
        if (config->experts / config->groups < 2) {
            return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                           "n_group %lld leaves one expert in a group, and a group is judged by its best two",
                           (long long)config->groups);
        }
        desc->router.group_rule = MT_GROUP_TOP2_SUM;
        desc->router.groups = (int)config->groups;
        desc->router.groups_kept = (int)config->topk_groups;
    }
    return MT_OK;
}
