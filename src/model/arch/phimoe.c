/*
 * Phi-3.5-MoE: LayerNorm with bias (its epsilon is spelt rms_norm_eps), biases in attention and head,
 * LongRoPE with the magnitudes of the config, SparseMixer with router_jitter_noise as its threshold, also in
 * evaluation.
 */
#include "model/arch/arch.h"

enum mt_status mt_arch_phimoe(struct mt_context *ctx, const struct mt_hf_config *config,
                              struct mt_model_desc *desc)
{
    (void)ctx;
    mt_arch_grouped_attention(config, desc);
    desc->names = mt_arch_sparse_block_names;
    desc->loaders =
        (struct mt_model_loaders){.router = "mlp.router", .linear_router = true, .vllm_head = true};
    desc->norm = MT_NORM_LAYER;
    desc->router.kind = MT_ROUTER_SPARSEMIXER;
    desc->router.jitter = (float)config->router_jitter_noise;
    desc->input_jitter = (float)config->input_jitter_noise;
    return MT_OK;
}
