/* Qwen3-MoE: queries and keys normalised per head; softmax over all experts, the k best normalised or not. */
#include "model/arch/arch.h"

enum mt_status mt_arch_qwen3_moe(struct mt_context *ctx, const struct mt_hf_config *config,
                                 struct mt_model_desc *desc)
{
    (void)ctx;
    mt_arch_grouped_attention(config, desc);
    desc->names = mt_arch_mlp_names;
    desc->loaders = (struct mt_model_loaders){.router = "mlp.gate", .linear_router = true, .vllm_head = true};
    desc->qk_norm = MT_QK_NORM_HEAD;
    desc->router.kind = MT_ROUTER_SOFTMAX;
    desc->router.normalise = config->norm_topk_prob;
    return MT_OK;
}
