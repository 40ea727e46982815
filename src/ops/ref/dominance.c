/*
 * dominance: Σ over i and j ≠ i of [M_ij - α M_ii]₊ + [M_ji - α M_ii]₊, over n². An entry off the diagonal is
 * in two of these, one with the diagonal of its row and one with that of its column.
 */
#include <math.h>

#include "ops/ref/ref.h"

static double entry(const struct mt_tensor *squares, int64_t i, int64_t j)
{
    return sqrt(ref_get2(squares, i, j));
}

/* Entry (i,j) less α times entry (d,d). */
static double excess(const struct mt_tensor *squares, double alpha, int64_t i, int64_t j, int64_t d)
{
    return entry(squares, i, j) - alpha * entry(squares, d, d);
}

enum mt_status mt_ref_dominance_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dominance_forward_args *a = args;
    int64_t experts = a->squares.dim[0];
    double alpha = (double)a->alpha;
    double sum = 0.0;
    for (int64_t i = 0; i < experts; i++) {
        for (int64_t j = 0; j < experts; j++) {
            if (i == j) continue;
            sum += fmax(excess(&a->squares, alpha, i, j, i), 0.0);
            sum += fmax(excess(&a->squares, alpha, i, j, j), 0.0);
        }
    }
    ref_set1(&a->loss, 0, sum / (double)(experts * experts));
    return MT_OK;
}

/* ∂loss/∂M[i,j], times n². */
static double slope(const struct mt_tensor *squares, double alpha, int64_t i, int64_t j)
{
    if (i != j)
        return (excess(squares, alpha, i, j, i) > 0.0 ? 1.0 : 0.0) +
               (excess(squares, alpha, i, j, j) > 0.0 ? 1.0 : 0.0);
    double above = 0.0;
    for (int64_t m = 0; m < squares->dim[0]; m++) {
        if (m == i) continue;
        above += excess(squares, alpha, i, m, i) > 0.0 ? 1.0 : 0.0;
        above += excess(squares, alpha, m, i, i) > 0.0 ? 1.0 : 0.0;
    }
    return -alpha * above;
}

enum mt_status mt_ref_dominance_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dominance_backward_args *a = args;
    int64_t experts = a->squares.dim[0];
    double share = ref_get1(&a->dloss, 0) / (double)(experts * experts);
    double sum = 0.0;
    for (int64_t i = 0; i < experts; i++) {
        for (int64_t j = 0; j < experts; j++) {
            double gradient = share * slope(&a->squares, (double)a->alpha, i, j);
            double length = entry(&a->squares, i, j);
            sum += gradient * gradient;
            if (mt_tensor_present(&a->coupling))
                ref_set2(&a->coupling, i, j, length > 0.0 ? gradient / length : 0.0);
        }
    }
    if (mt_tensor_present(&a->sum)) ref_set1(&a->sum, 0, sum);
    return MT_OK;
}
