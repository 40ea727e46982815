/* From an op's number to the check of its arguments. */
#include "ops/check/check.h"

enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args)
{
    switch (op) {
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
    default: break;
    }
    return mt_fail(device->ctx, MT_ERR_INTERNAL, "op %d has no argument check", (int)op);
}
