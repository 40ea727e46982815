/*
 * OLMoE: queries and keys normalised over all heads at once, then q, k and v clipped; softmax over all
 * experts, the k best as they are (or normalised).
 */
#include "model/arch/arch.h"

enum mt_status mt_arch_olmoe(struct mt_context *ctx, const struct mt_hf_config *config,
                             struct mt_model_desc *desc)
{
    (void)ctx;
    mt_arch_grouped_attention(config, desc);
    desc->names = mt_arch_mlp_names;
    desc->loaders = (struct mt_model_loaders){.router = "mlp.gate", .linear_router = true};
    desc->qk_norm = MT_QK_NORM_WHOLE;
    desc->clip = (float)config->clip_qkv;
    desc->router.kind = MT_ROUTER_SOFTMAX;
    desc->router.normalise = config->norm_topk_prob;
    return MT_OK;
}
