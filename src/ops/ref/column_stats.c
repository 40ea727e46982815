/*
 * column_stats: x' = x / D, D = Σ_m x_m with normalise_rows, else 1; sums of x', of x'² and of (Σ_j x'_j)²
 * over the tokens of each segment.
 * Backward, with R = Σ_j x'_j and g_j = dsum_j + 2 x'_j dsquares_j + 2 R drow_squares: dx_j = g_j, or with
 * normalise_rows (g_j - Σ_m g_m x'_m) / D.
 */
#include "ops/ref/tokens.h"

static double row_total(const struct mt_tensor *x, int64_t i)
{
    double total = 0.0;
    for (int64_t j = 0; j < x->dim[1]; j++) total += ref_get2(x, i, j);
    return total;
}

enum mt_status mt_ref_column_stats_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_column_stats_forward_args *a = args;
    ref_clear(&a->sum);
    ref_clear(&a->squares);
    ref_clear(&a->row_squares);
    ref_clear(&a->rows);
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        if (!token_counts(&a->mask, i)) continue;
        int64_t b = token_segment(&a->segment, i);
        double divisor = a->normalise_rows ? row_total(&a->x, i) : 1.0;
        double total = 0.0;
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            double x = ref_get2(&a->x, i, j) / divisor;
            total += x;
            ref_add2(&a->sum, b, j, x);
            ref_add2(&a->squares, b, j, x * x);
        }
        ref_add1(&a->row_squares, b, total * total);
        ref_add1(&a->rows, b, 1.0);
    }
    return MT_OK;
}

enum mt_status mt_ref_column_stats_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_column_stats_backward_args *a = args;
    int64_t experts = a->x.dim[1];
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        bool counts = token_counts(&a->mask, i);
        int64_t b = token_segment(&a->segment, i);
        double total = row_total(&a->x, i);
        double divisor = a->normalise_rows ? total : 1.0;
        double both = 2.0 * total / divisor * ref_optional1(&a->drow_squares, b); // the same for every j
        double pull = 0.0;                                                        // Σ g x'
        for (int64_t j = 0; j < experts && a->normalise_rows; j++) {
            double x = ref_get2(&a->x, i, j) / divisor;
            pull += (ref_get2(&a->dsum, b, j) + 2.0 * x * ref_optional2(&a->dsquares, b, j) + both) * x;
        }
        for (int64_t j = 0; j < experts; j++) {
            double x = ref_get2(&a->x, i, j) / divisor;
            double g = ref_get2(&a->dsum, b, j) + 2.0 * x * ref_optional2(&a->dsquares, b, j) + both;
            double dx = counts ? (g - pull) / divisor : 0.0;
            ref_set2(&a->dx, i, j, a->accumulate ? ref_get2(&a->dx, i, j) + dx : dx);
        }
    }
    return MT_OK;
}
