/* From an op's number to the check of its arguments. */
#include "ops/check/check.h"

enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args)
{
    switch (op) {
    case MT_OP_gemm: return mt_check_gemm(device, args);
    case MT_OP_grouped_gemm: return mt_check_grouped_gemm(device, args);
    case MT_OP_grouped_gemm_dw: return mt_check_grouped_gemm_dw(device, args);
    case MT_OP_rmsnorm_forward: return mt_check_rmsnorm_forward(device, args);
    case MT_OP_rmsnorm_backward: return mt_check_rmsnorm_backward(device, args);
    case MT_OP_cross_entropy: return mt_check_cross_entropy(device, args);
    default: break;
    }
    return mt_fail(device->ctx, MT_ERR_INTERNAL, "op %d has no argument check", (int)op);
}
