/*
 * cross_entropy: z_v = Σ_j h_j W_vj (+ b_v) (+ Σ_s l_s A_vs), lse = log Σ_v exp z_v, loss = lse - z_label.
 * Gradient of a row, with g_v = (exp(z_v - lse) - [v = label]) · dloss:
 * dh_j = Σ_v g_v W_vj; dW_vj += g_v h_j; db_v += g_v; dl_s = Σ_v g_v A_vs; dA_vs += g_v l_s.
 * Logits are recomputed wherever they are needed: nothing of size V is kept.
 */
#include <math.h>

#include "ops/ref/ref.h"

#define COLUMNS 64 // of dhidden summed in double at a time, before they are rounded once

static double logit(const struct mt_cross_entropy_args *a, int64_t row, int64_t v)
{
    double sum = mt_tensor_present(&a->bias) ? ref_get1(&a->bias, v) : 0.0;
    for (int64_t j = 0; j < a->hidden.dim[1]; j++) {
        sum += ref_get2(&a->hidden, row, j) * ref_get2(&a->weight, v, j);
    }
    if (!mt_tensor_present(&a->hidden_xa)) return sum;
    for (int64_t s = 0; s < a->hidden_xa.dim[1]; s++) {
        sum += ref_get2(&a->hidden_xa, row, s) * ref_get2(&a->weight_b, v, s);
    }
    return sum;
}

static double log_sum_exp(const struct mt_cross_entropy_args *a, int64_t row)
{
    int64_t vocabulary = a->weight.dim[0];
    double highest = -INFINITY;
    for (int64_t v = 0; v < vocabulary; v++) highest = fmax(highest, logit(a, row, v));
    double reference = isinf(highest) && highest < 0.0 ? 0.0 : highest; // all of them -inf: lse is -inf
    double sum = 0.0;
    for (int64_t v = 0; v < vocabulary; v++) sum += exp(logit(a, row, v) - reference);
    return sum == 0.0 ? -INFINITY : reference + log(sum);
}

static double logit_gradient(const struct mt_cross_entropy_args *a, int64_t row, int64_t v, double lse)
{
    double onehot = v == ref_int1(&a->labels, row) ? 1.0 : 0.0;
    return (exp(logit(a, row, v) - lse) - onehot) * ref_get1(&a->dloss, row);
}

/* Row of dhidden (or dhidden_xa) = Σ_v g_v · row v of the weight (or weight_b). */
static void input_gradient(const struct mt_cross_entropy_args *a, int64_t row, double lse,
                           const struct mt_tensor *weight, const struct mt_tensor *target)
{
    int64_t width = target->dim[1];
    for (int64_t start = 0; start < width; start += COLUMNS) {
        double sum[COLUMNS] = {0};
        int64_t columns = width - start < COLUMNS ? width - start : COLUMNS;
        for (int64_t v = 0; v < weight->dim[0]; v++) {
            double g = logit_gradient(a, row, v, lse);
            for (int64_t j = 0; j < columns; j++) sum[j] += g * ref_get2(weight, v, start + j);
        }
        for (int64_t j = 0; j < columns; j++) ref_set2(target, row, start + j, sum[j]);
    }
}

/* Row v of dweight (or dweight_b) += g_v · the row of hidden (or hidden_xa). */
static void weight_gradient(double g, const struct mt_tensor *hidden, int64_t row,
                            const struct mt_tensor *target, int64_t v)
{
    if (!mt_tensor_present(target)) return;
    for (int64_t j = 0; j < target->dim[1]; j++) {
        ref_set2(target, v, j, ref_get2(target, v, j) + g * ref_get2(hidden, row, j));
    }
}

static void row_gradients(const struct mt_cross_entropy_args *a, int64_t row, double lse)
{
    if (mt_tensor_present(&a->dhidden)) input_gradient(a, row, lse, &a->weight, &a->dhidden);
    if (mt_tensor_present(&a->dhidden_xa)) input_gradient(a, row, lse, &a->weight_b, &a->dhidden_xa);
    for (int64_t v = 0; v < a->weight.dim[0]; v++) {
        double g = logit_gradient(a, row, v, lse);
        weight_gradient(g, &a->hidden, row, &a->dweight, v);
        weight_gradient(g, &a->hidden_xa, row, &a->dweight_b, v);
        if (mt_tensor_present(&a->dbias)) ref_set1(&a->dbias, v, ref_get1(&a->dbias, v) + g);
    }
}

static void clear_row(const struct mt_tensor *tensor, int64_t row)
{
    if (!mt_tensor_present(tensor)) return;
    for (int64_t j = 0; j < tensor->dim[1]; j++) ref_set2(tensor, row, j, 0.0);
}

enum mt_status mt_ref_cross_entropy(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_cross_entropy_args *a = args;
    for (int64_t row = 0; row < a->hidden.dim[0]; row++) {
        int32_t label = ref_int1(&a->labels, row);
        bool has_lse = mt_tensor_present(&a->lse);
        double lse = label >= 0 || has_lse ? log_sum_exp(a, row) : 0.0;
        if (has_lse) ref_set1(&a->lse, row, lse);
        if (label < 0) {
            ref_set1(&a->loss, row, 0.0);
            clear_row(&a->dhidden, row);
            clear_row(&a->dhidden_xa, row);
            continue;
        }
        ref_set1(&a->loss, row, lse - logit(a, row, label));
        if (mt_tensor_present(&a->dloss)) row_gradients(a, row, lse);
    }
    return MT_OK;
}
