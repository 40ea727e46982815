/*
 * Class defaults: what transformers (or, for "deepseek", the model's own code) assumes for a key that
 * config.json leaves out. They matter because a key is often left out exactly when it has its default:
 * - norm_topk_prob is false everywhere but deepseek_v3, although Qwen3's published files say true;
 * - q_lora_rank: absent means 1536 in the two MLA classes; only an explicit null means "none";
 * - num_key_value_heads: 8 for mixtral and phimoe, 4 for qwen3_moe, otherwise as many as heads;
 * - rope_theta: 1e6 for mixtral and phimoe, 1e4 otherwise;
 * - rms_norm_eps: 1e-5 for mixtral, phimoe and olmoe, 1e-6 otherwise;
 * - scoring_func and topk_method: sigmoid and noaux_tc for deepseek_v3, softmax and greedy otherwise;
 * - sliding_window: 4096 for qwen3_moe, and without effect unless use_sliding_window is true.
 * Sizes (hidden_size, layers, heads, experts, ...) have class defaults too, but a file without them is
 * broken far more often than it is brief: they are required.
 */
#include "formats/hf/hf_config_parts.h"

static const struct mt_hf_defaults defaults[] = {
    [MT_HF_DEEPSEEK] =
        {
            .norm_epsilon = 1e-6,
            .rope_theta = 10000.0,
            .aux_loss_coefficient = 0.001,
            .routed_scaling_factor = 1.0,
            .groups = 1,
            .topk_groups = 1,
            .bos = 100000,
            .eos = 100001,
            .pad = -1,
            .own_expert_width = true,
        },
    [MT_HF_DEEPSEEK_V2] =
        {
            .norm_epsilon = 1e-6,
            .rope_theta = 10000.0,
            .aux_loss_coefficient = 0.001,
            .routed_scaling_factor = 1.0,
            .q_lora_rank = 1536,
            .groups = 1,
            .topk_groups = 1,
            .shared_experts = 2,
            .bos = 1,
            .eos = 2,
            .pad = -1,
            .mla = true,
            .own_expert_width = true,
        },
    [MT_HF_DEEPSEEK_V3] =
        {
            .norm_epsilon = 1e-6,
            .rope_theta = 10000.0,
            .aux_loss_coefficient = 0.001,
            .routed_scaling_factor = 2.5,
            .q_lora_rank = 1536,
            .groups = 8,
            .topk_groups = 4,
            .first_k_dense = 3,
            .shared_experts = 1,
            .bos = 0,
            .eos = 1,
            .pad = -1,
            .norm_topk_prob = true,
            .scoring = MT_HF_SCORING_SIGMOID,
            .topk = MT_HF_TOPK_NOAUX,
            .mla = true,
            .own_expert_width = true,
        },
    [MT_HF_MIXTRAL] =
        {
            .norm_epsilon = 1e-5,
            .rope_theta = 1000000.0,
            .aux_loss_coefficient = 0.001,
            .routed_scaling_factor = 1.0,
            .kv_heads = 8,
            .groups = 1,
            .topk_groups = 1,
            .bos = 1,
            .eos = 2,
            .pad = -1,
            .norm_topk_prob = true, // not a key of this class: the two weights always sum to one
        },
    [MT_HF_PHIMOE] =
        {
            .norm_epsilon = 1e-5,
            .rope_theta = 1000000.0,
            .aux_loss_coefficient = 0.001,
            .routed_scaling_factor = 1.0,
            .router_jitter_noise = 0.01,
            .kv_heads = 8,
            .groups = 1,
            .topk_groups = 1,
            .bos = 1,
            .eos = 2,
            .pad = -1,
            .scoring = MT_HF_SCORING_SPARSEMIXER,
        },
    [MT_HF_OLMOE] =
        {
            .norm_epsilon = 1e-5,
            .rope_theta = 10000.0,
            .aux_loss_coefficient = 0.01,
            .routed_scaling_factor = 1.0,
            .groups = 1,
            .topk_groups = 1,
            .bos = -1,
            .eos = 50279,
            .pad = 1,
        },
    [MT_HF_QWEN3_MOE] =
        {
            .norm_epsilon = 1e-6,
            .rope_theta = 10000.0,
            .aux_loss_coefficient = 0.001,
            .routed_scaling_factor = 1.0,
            .kv_heads = 4,
            .groups = 1,
            .topk_groups = 1,
            .sliding_window = 4096,
            .bos = -1,
            .eos = -1,
            .pad = -1,
            .own_expert_width = true,
        },
};

const struct mt_hf_defaults *mt_hf_defaults(enum mt_hf_model model)
{
    return &defaults[model];
}
