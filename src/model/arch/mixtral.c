/*
 * Mixtral: softmax over all experts, the k best normalised to a sum of 1. Its router_jitter_noise multiplies
 * the whole block's input in training, so the experts see it too.
 */
#include "model/arch/arch.h"

enum mt_status mt_arch_mixtral(struct mt_context *ctx, const struct mt_hf_config *config,
                               struct mt_model_desc *desc)
{
    (void)ctx;
    mt_arch_grouped_attention(config, desc);
    desc->names = mt_arch_sparse_block_names;
    desc->loaders = (struct mt_model_loaders){.router = "mlp.gate", .linear_router = true, .vllm_head = true};
    desc->router.kind = MT_ROUTER_SOFTMAX;
    desc->router.normalise = true;
    desc->input_jitter = (float)config->router_jitter_noise;
    return MT_OK;
}
