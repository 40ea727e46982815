/* dispatch_plan: a stable counting sort of the (token, slot) pairs by expert. */
#include "ops/ref/ref.h"

enum mt_status mt_ref_dispatch_plan(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dispatch_plan_args *a = args;
    int64_t tokens = a->expert.dim[0];
    int64_t slots = a->expert.dim[1];
    int64_t row = 0;
    ref_set1(&a->offsets, 0, 0.0);
    for (int64_t e = 0; e < a->offsets.dim[0] - 1; e++) {
        for (int64_t i = 0; i < tokens; i++) {
            for (int64_t s = 0; s < slots; s++) {
                if (ref_int2(&a->expert, i, s) != e) continue;
                ref_set2(&a->row_of_slot, i, s, (double)row);
                ref_set1(&a->slot_of_row, row, (double)(i * slots + s));
                row++;
            }
        }
        ref_set1(&a->offsets, e + 1, (double)row);
    }
    for (; row < tokens * slots; row++) ref_set1(&a->slot_of_row, row, -1.0);
    for (int64_t i = 0; i < tokens; i++) {
        for (int64_t s = 0; s < slots; s++) {
            if (ref_int2(&a->expert, i, s) < 0) ref_set2(&a->row_of_slot, i, s, -1.0);
        }
    }
    return MT_OK;
}
