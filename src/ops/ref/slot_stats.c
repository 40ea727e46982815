/*
 * slot_stats: the statistics of column_stats for rows given by their k slots, and how many slots chose each
 * expert. A token's experts are taken to differ: each slot adds by itself, weight² to squares.
 * Backward: dw_s = dsum_e + 2 w_s dsquares_e + 2 drow_squares Σ_m w_m, e the slot's expert.
 */
#include "ops/ref/tokens.h"

/* Σ of the weights of a token's slots that have an expert. */
static double token_weight(const struct mt_tensor *expert, const struct mt_tensor *weight, int64_t i)
{
    double total = 0.0;
    for (int64_t s = 0; s < expert->dim[1]; s++) {
        if (ref_int2(expert, i, s) >= 0) total += ref_get2(weight, i, s);
    }
    return total;
}

enum mt_status mt_ref_slot_stats_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_slot_stats_forward_args *a = args;
    bool has_weight = mt_tensor_present(&a->weight);
    ref_clear(&a->count);
    ref_clear(&a->first);
    ref_clear(&a->sum);
    ref_clear(&a->squares);
    ref_clear(&a->row_squares);
    ref_clear(&a->rows);
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        if (!token_counts(&a->mask, i)) continue;
        int64_t b = token_segment(&a->segment, i);
        double total = has_weight ? token_weight(&a->expert, &a->weight, i) : 0.0;
        ref_add1(&a->row_squares, b, total * total);
        ref_add1(&a->rows, b, 1.0);
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            if (e < 0) continue;
            double w = has_weight ? ref_get2(&a->weight, i, s) : 0.0;
            ref_add2(&a->count, b, e, 1.0);
            if (s == 0) ref_add2(&a->first, b, e, 1.0);
            ref_add2(&a->sum, b, e, w);
            ref_add2(&a->squares, b, e, w * w);
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_slot_stats_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_slot_stats_backward_args *a = args;
    for (int64_t i = 0; i < a->expert.dim[0]; i++) {
        bool counts = token_counts(&a->mask, i);
        int64_t b = token_segment(&a->segment, i);
        double both = 2.0 * token_weight(&a->expert, &a->weight, i) * ref_optional1(&a->drow_squares, b);
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            int32_t e = ref_int2(&a->expert, i, s);
            double dw = 0.0;
            if (counts && e >= 0) {
                double w = ref_get2(&a->weight, i, s);
                dw = ref_get2(&a->dsum, b, e) + 2.0 * w * ref_optional2(&a->dsquares, b, e) + both;
            }
            ref_set2(&a->dweight, i, s, a->accumulate ? ref_get2(&a->dweight, i, s) + dw : dw);
        }
    }
    return MT_OK;
}
