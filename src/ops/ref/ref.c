/* The reference device's table: it has every op. */
#include "ops/ref/ref.h"

#include <stdio.h>

enum mt_status mt_ref_init(struct mt_device *device, int threads)
{
    static const mt_op_run_fn table[MT_OP_COUNT] = {
        [MT_OP_gemm] = mt_ref_gemm,
        [MT_OP_grouped_gemm] = mt_ref_grouped_gemm,
        [MT_OP_grouped_gemm_dw] = mt_ref_grouped_gemm_dw,
        [MT_OP_rmsnorm_forward] = mt_ref_rmsnorm_forward,
        [MT_OP_rmsnorm_backward] = mt_ref_rmsnorm_backward,
        [MT_OP_cross_entropy] = mt_ref_cross_entropy,
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
