/* What this level overrides, in the order of metier/ops.h. Ops without a line stay with ref. */
#include "ops/cpu/level.h"

const struct mt_op_impl *MT_CPU(table)(void)
{
    static const struct mt_op_impl table[MT_OP_COUNT] = {
        // op = {run, scratch}
        [MT_OP_gemm] = {MT_CPU(gemm), MT_CPU(gemm_scratch)},
        [MT_OP_grouped_gemm] = {MT_CPU(grouped_gemm), MT_CPU(grouped_gemm_scratch)},
        [MT_OP_grouped_gemm_dw] = {MT_CPU(grouped_gemm_dw), MT_CPU(grouped_gemm_dw_scratch)},
        [MT_OP_embedding_forward] = {MT_CPU(embedding_forward), NULL},
        [MT_OP_embedding_backward] = {MT_CPU(embedding_backward), NULL},
        [MT_OP_rmsnorm_forward] = {MT_CPU(rmsnorm_forward), MT_CPU(rmsnorm_forward_scratch)},
        [MT_OP_rmsnorm_backward] = {MT_CPU(rmsnorm_backward), MT_CPU(rmsnorm_backward_scratch)},
        [MT_OP_layernorm_forward] = {MT_CPU(layernorm_forward), MT_CPU(layernorm_forward_scratch)},
        [MT_OP_layernorm_backward] = {MT_CPU(layernorm_backward), MT_CPU(layernorm_backward_scratch)},
        [MT_OP_rope] = {MT_CPU(rope), MT_CPU(rope_scratch)},
        [MT_OP_mla_key_forward] = {MT_CPU(mla_key_forward), MT_CPU(mla_key_forward_scratch)},
        [MT_OP_mla_key_backward] = {MT_CPU(mla_key_backward), MT_CPU(mla_key_backward_scratch)},
        [MT_OP_attention_forward] = {MT_CPU(attention_forward), MT_CPU(attention_forward_scratch)},
        [MT_OP_attention_backward] = {MT_CPU(attention_backward), MT_CPU(attention_backward_scratch)},
        [MT_OP_swiglu_forward] = {MT_CPU(swiglu_forward), NULL},
        [MT_OP_swiglu_backward] = {MT_CPU(swiglu_backward), NULL},
        [MT_OP_bias_forward] = {MT_CPU(bias_forward), MT_CPU(bias_forward_scratch)},
        [MT_OP_bias_backward] = {MT_CPU(bias_backward), MT_CPU(bias_backward_scratch)},
        [MT_OP_axpby] = {MT_CPU(axpby), NULL},
        [MT_OP_fill] = {MT_CPU(fill), NULL},
        [MT_OP_copy] = {MT_CPU(copy), NULL},
        [MT_OP_clamp_forward] = {MT_CPU(clamp_forward), NULL},
        [MT_OP_clamp_backward] = {MT_CPU(clamp_backward), NULL},
        [MT_OP_random_multiply] = {MT_CPU(random_multiply), NULL},
        [MT_OP_router_score_forward] = {MT_CPU(router_score_forward), NULL},
        [MT_OP_router_score_backward] = {MT_CPU(router_score_backward), NULL},
        [MT_OP_topk] = {MT_CPU(topk), MT_CPU(topk_scratch)},
        [MT_OP_topk_weights_forward] = {MT_CPU(topk_weights_forward), NULL},
        [MT_OP_topk_weights_backward] = {MT_CPU(topk_weights_backward), NULL},
        [MT_OP_sparsemixer_forward] = {MT_CPU(sparsemixer_forward), NULL},
        [MT_OP_sparsemixer_backward] = {MT_CPU(sparsemixer_backward), NULL},
        [MT_OP_dispatch_plan] = {MT_CPU(dispatch_plan), MT_CPU(dispatch_plan_scratch)},
        [MT_OP_dispatch_forward] = {MT_CPU(dispatch_forward), NULL},
        [MT_OP_dispatch_backward] = {MT_CPU(dispatch_backward), NULL},
        [MT_OP_combine_forward] = {MT_CPU(combine_forward), NULL},
        [MT_OP_combine_backward] = {MT_CPU(combine_backward), NULL},
        [MT_OP_cross_entropy] = {MT_CPU(cross_entropy), MT_CPU(cross_entropy_scratch)},
        [MT_OP_adamw] = {MT_CPU(adamw), NULL},
        [MT_OP_reduce] = {MT_CPU(reduce), MT_CPU(reduce_scratch)},
        [MT_OP_router_orth_forward] = {MT_CPU(router_orth_forward), MT_CPU(router_orth_forward_scratch)},
        [MT_OP_router_orth_backward] = {MT_CPU(router_orth_backward), MT_CPU(router_orth_backward_scratch)},
        [MT_OP_ortho_forward] = {MT_CPU(ortho_forward), MT_CPU(ortho_forward_scratch)},
        [MT_OP_ortho_backward] = {MT_CPU(ortho_backward), MT_CPU(ortho_backward_scratch)},
    };
    return table;
}
