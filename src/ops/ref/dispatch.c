/* dispatch: rows[r] = x[slot_of_row[r] / k]. Backward: dx[i] = Σ_s drows[row_of_slot[i,s]]. */
#include "ops/ref/ref.h"

enum mt_status mt_ref_dispatch_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dispatch_forward_args *a = args;
    for (int64_t r = 0; r < a->rows.dim[0]; r++) {
        int32_t slot = ref_int1(&a->slot_of_row, r);
        if (slot < 0) continue;
        for (int64_t j = 0; j < a->rows.dim[1]; j++) {
            ref_set2(&a->rows, r, j, ref_get2(&a->x, slot / a->slots, j));
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_dispatch_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dispatch_backward_args *a = args;
    for (int64_t i = 0; i < a->dx.dim[0]; i++) {
        for (int64_t j = 0; j < a->dx.dim[1]; j++) {
            double sum = a->accumulate ? ref_get2(&a->dx, i, j) : 0.0;
            for (int64_t s = 0; s < a->row_of_slot.dim[1]; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row >= 0) sum += ref_get2(&a->drows, row, j);
            }
            ref_set2(&a->dx, i, j, sum);
        }
    }
    return MT_OK;
}
