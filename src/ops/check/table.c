/* From an op's number to the check of its arguments. */
#include "ops/check/check.h"

enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args)
{
    switch (op) {
    case MT_OP_embedding_forward: return mt_check_embedding_forward(device, args);
    case MT_OP_embedding_backward: return mt_check_embedding_backward(device, args);
    case MT_OP_gemm: return mt_check_gemm(device, args);
    case MT_OP_grouped_gemm: return mt_check_grouped_gemm(device, args);
    case MT_OP_grouped_gemm_dw: return mt_check_grouped_gemm_dw(device, args);
    case MT_OP_rmsnorm_forward: return mt_check_rmsnorm_forward(device, args);
    case MT_OP_rmsnorm_backward: return mt_check_rmsnorm_backward(device, args);
    case MT_OP_router_score_forward: return mt_check_router_score_forward(device, args);
    case MT_OP_router_score_backward: return mt_check_router_score_backward(device, args);
    case MT_OP_topk: return mt_check_topk(device, args);
    case MT_OP_topk_weights_forward: return mt_check_topk_weights_forward(device, args);
    case MT_OP_topk_weights_backward: return mt_check_topk_weights_backward(device, args);
    case MT_OP_sparsemixer_forward: return mt_check_sparsemixer_forward(device, args);
    case MT_OP_sparsemixer_backward: return mt_check_sparsemixer_backward(device, args);
    case MT_OP_dispatch_plan: return mt_check_dispatch_plan(device, args);
    case MT_OP_dispatch_forward: return mt_check_dispatch_forward(device, args);
    case MT_OP_dispatch_backward: return mt_check_dispatch_backward(device, args);
    case MT_OP_combine_forward: return mt_check_combine_forward(device, args);
    case MT_OP_combine_backward: return mt_check_combine_backward(device, args);
    case MT_OP_layernorm_forward: return mt_check_layernorm_forward(device, args);
    case MT_OP_layernorm_backward: return mt_check_layernorm_backward(device, args);
    case MT_OP_swiglu_forward: return mt_check_swiglu_forward(device, args);
    case MT_OP_swiglu_backward: return mt_check_swiglu_backward(device, args);
    case MT_OP_bias_forward: return mt_check_bias_forward(device, args);
    case MT_OP_bias_backward: return mt_check_bias_backward(device, args);
    case MT_OP_axpby: return mt_check_axpby(device, args);
    case MT_OP_fill: return mt_check_fill(device, args);
    case MT_OP_copy: return mt_check_copy(device, args);
    case MT_OP_clamp_forward: return mt_check_clamp_forward(device, args);
    case MT_OP_clamp_backward: return mt_check_clamp_backward(device, args);
    case MT_OP_random_multiply: return mt_check_random_multiply(device, args);
    case MT_OP_adamw: return mt_check_adamw(device, args);
    case MT_OP_reduce: return mt_check_reduce(device, args);
    default: break;
    }
    return mt_fail(device->ctx, MT_ERR_INTERNAL, "op %d has no argument check", (int)op);
}
