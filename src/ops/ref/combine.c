/*
 * combine, for a token with expert rows x_s: y = (y +) base + Σ_s w_s x_s, gram[s,m] = <x_s, x_m>.
 * Backward: dw_s = <dy, x_s>, dx_s = w_s dy + Σ_m C[s,m] x_m, C the coupling times factor.
 */
#include "ops/ref/ref.h"

static void gram_of_token(const struct mt_combine_forward_args *a, int64_t i)
{
    int64_t slots = a->row_of_slot.dim[1];
    for (int64_t s = 0; s < slots; s++) {
        for (int64_t m = 0; m < slots; m++) {
            int32_t row = ref_int2(&a->row_of_slot, i, s);
            int32_t other = ref_int2(&a->row_of_slot, i, m);
            double dot = 0.0;
            for (int64_t j = 0; j < a->rows.dim[1] && row >= 0 && other >= 0; j++) {
                dot += ref_get2(&a->rows, row, j) * ref_get2(&a->rows, other, j);
            }
            ref_set3(&a->gram, i, s, m, dot);
        }
    }
}

enum mt_status mt_ref_combine_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_combine_forward_args *a = args;
    for (int64_t i = 0; i < a->row_of_slot.dim[0]; i++) {
        for (int64_t j = 0; j < a->rows.dim[1] && mt_tensor_present(&a->y); j++) {
            double sum = mt_tensor_present(&a->base) ? ref_get2(&a->base, i, j) : 0.0;
            if (a->accumulate) sum += ref_get2(&a->y, i, j);
            for (int64_t s = 0; s < a->row_of_slot.dim[1]; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row >= 0) sum += ref_get2(&a->weight, i, s) * ref_get2(&a->rows, row, j);
            }
            ref_set2(&a->y, i, j, sum);
        }
        if (mt_tensor_present(&a->gram)) gram_of_token(a, i);
    }
    return MT_OK;
}

/* factor · Σ_m coupling[i,s,m] · column[m]; slots without a row have a zero there. */
static double coupled(const struct mt_combine_backward_args *a, int64_t i, int64_t s, const double *column)
{
    double sum = 0.0;
    for (int64_t m = 0; m < a->row_of_slot.dim[1] && mt_tensor_present(&a->coupling); m++) {
        if (ref_int2(&a->row_of_slot, i, m) >= 0) sum += ref_get3(&a->coupling, i, s, m) * column[m];
    }
    return mt_tensor_present(&a->factor) ? ref_get1(&a->factor, 0) * sum : sum;
}

enum mt_status mt_ref_combine_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_combine_backward_args *a = args;
    int64_t slots = a->row_of_slot.dim[1];
    bool has_dy = mt_tensor_present(&a->dy);
    for (int64_t i = 0; i < a->row_of_slot.dim[0]; i++) {
        double dweight[MT_MAX_SLOTS] = {0};
        for (int64_t j = 0; j < a->rows.dim[1]; j++) {
            double dy = has_dy ? ref_get2(&a->dy, i, j) : 0.0;
            double column[MT_MAX_SLOTS] = {0}; // x_s[j], read before drows, maybe the same memory, is written
            for (int64_t s = 0; s < slots; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row >= 0) column[s] = ref_get2(&a->rows, row, j);
                dweight[s] += dy * column[s];
            }
            for (int64_t s = 0; s < slots; s++) {
                int32_t row = ref_int2(&a->row_of_slot, i, s);
                if (row < 0) continue;
                ref_set2(&a->drows, row, j, ref_get2(&a->weight, i, s) * dy + coupled(a, i, s, column));
            }
        }
        for (int64_t s = 0; s < slots && has_dy; s++) {
            bool has_row = ref_int2(&a->row_of_slot, i, s) >= 0;
            ref_set2(&a->dweight, i, s, has_row ? dweight[s] : 0.0);
        }
    }
    return MT_OK;
}
