/* The reference device's table: it has every op. */
#include "ops/ref/ref.h"

#include <stdio.h>

enum mt_status mt_ref_init(struct mt_device *device, int threads)
{
    static const mt_op_run_fn table[MT_OP_COUNT] = {
        [MT_OP_embedding_forward] = mt_ref_embedding_forward,
        [MT_OP_embedding_backward] = mt_ref_embedding_backward,
        [MT_OP_gemm] = mt_ref_gemm,
        [MT_OP_grouped_gemm] = mt_ref_grouped_gemm,
        [MT_OP_grouped_gemm_dw] = mt_ref_grouped_gemm_dw,
        [MT_OP_rmsnorm_forward] = mt_ref_rmsnorm_forward,
        [MT_OP_rmsnorm_backward] = mt_ref_rmsnorm_backward,
        [MT_OP_router_score_forward] = mt_ref_router_score_forward,
        [MT_OP_router_score_backward] = mt_ref_router_score_backward,
        [MT_OP_topk] = mt_ref_topk,
        [MT_OP_topk_weights_forward] = mt_ref_topk_weights_forward,
        [MT_OP_topk_weights_backward] = mt_ref_topk_weights_backward,
        [MT_OP_sparsemixer_forward] = mt_ref_sparsemixer_forward,
        [MT_OP_sparsemixer_backward] = mt_ref_sparsemixer_backward,
        [MT_OP_dispatch_plan] = mt_ref_dispatch_plan,
        [MT_OP_dispatch_forward] = mt_ref_dispatch_forward,
        [MT_OP_dispatch_backward] = mt_ref_dispatch_backward,
        [MT_OP_combine_forward] = mt_ref_combine_forward,
        [MT_OP_combine_backward] = mt_ref_combine_backward,
        [MT_OP_layernorm_forward] = mt_ref_layernorm_forward,
        [MT_OP_layernorm_backward] = mt_ref_layernorm_backward,
        [MT_OP_swiglu_forward] = mt_ref_swiglu_forward,
        [MT_OP_swiglu_backward] = mt_ref_swiglu_backward,
        [MT_OP_bias_forward] = mt_ref_bias_forward,
        [MT_OP_bias_backward] = mt_ref_bias_backward,
        [MT_OP_axpby] = mt_ref_axpby,
        [MT_OP_fill] = mt_ref_fill,
        [MT_OP_copy] = mt_ref_copy,
        [MT_OP_clamp_forward] = mt_ref_clamp_forward,
        [MT_OP_clamp_backward] = mt_ref_clamp_backward,
        [MT_OP_random_multiply] = mt_ref_random_multiply,
        [MT_OP_adamw] = mt_ref_adamw,
        [MT_OP_reduce] = mt_ref_reduce,
    };
    (void)threads; // always one: the definition has no order but its own
    for (int op = 0; op < MT_OP_COUNT; op++) {
        device->impl[op] = (struct mt_op_impl){.run = table[op]};
        device->own[op] = table[op] != NULL;
    }
    device->threads = 1;
    (void)snprintf(device->description, sizeof device->description, "ref, plain loops in double, 1 thread");
    return MT_OK;
}
