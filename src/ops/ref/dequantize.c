/* dequantize: y_e = code value · scale in f32, rounded to bf16; experts without rows are skipped. */
#include "ops/ref/ref.h"
#include "tensor/quantised.h"

enum mt_status mt_ref_dequantize(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dequantize_args *a = args;
    bool sorted = mt_tensor_present(&a->offsets);
    for (int e = 0; e < a->experts; e++) {
        bool unused = sorted && ref_int1(&a->offsets, e) == ref_int1(&a->offsets, e + 1);
        if (unused || !mt_quantised_present(&a->stored[e])) continue;
        mt_dequantise(&a->stored[e], MT_BF16, a->y[e].data);
    }
    return MT_OK;
}
