/*
 * balance_quantile: both selections walk down from the largest, each step to the next in the order (value
 * falling, place rising). Scores and margins are rounded to the type of probs, so that every device selects
 * the same number.
 */
#include <math.h>

#include "ops/ref/ref.h"

static double rounded(const struct mt_balance_quantile_args *a, double value)
{
    return a->probs.dtype == MT_F32 ? (double)(float)value : value;
}

static double score(const struct mt_balance_quantile_args *a, int64_t i, int64_t j)
{
    double bias = mt_tensor_present(&a->bias) ? ref_get1(&a->bias, j) : 0.0;
    return rounded(a, ref_get2(&a->probs, i, j) + bias);
}

static bool counts(const struct mt_balance_quantile_args *a, int64_t i)
{
    return !mt_tensor_present(&a->mask) || ref_int1(&a->mask, i) != 0;
}

/* Masked tokens come last, with what is no number. */
static double margin(const struct mt_balance_quantile_args *a, int64_t i, int64_t j)
{
    return counts(a, i) ? ref_get2(&a->margin, j, i) : NAN;
}

/* The value `before` others stand before, among `count` numbers of a row: a token's scores, or a margin's. */
static double select_one(const struct mt_balance_quantile_args *a,
                         double (*value_of)(const struct mt_balance_quantile_args *, int64_t, int64_t),
                         int64_t row, bool of_token, int64_t count, int64_t before)
{
    double last = INFINITY;
    int64_t last_place = -1;
    for (int64_t step = 0; step <= before; step++) {
        double best = NAN;
        int64_t best_place = count;
        for (int64_t p = 0; p < count; p++) {
            double value = of_token ? value_of(a, row, p) : value_of(a, p, row);
            if (!ref_comes_before(last, last_place, value, p)) continue;
            if (best_place == count || ref_comes_before(value, p, best, best_place)) {
                best = value;
                best_place = p;
            }
        }
        last = best;
        last_place = best_place;
    }
    return last;
}

enum mt_status mt_ref_balance_quantile(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_balance_quantile_args *a = args;
    int64_t tokens = a->probs.dim[0];
    int64_t experts = a->probs.dim[1];
    int64_t unmasked = 0;
    for (int64_t i = 0; i < tokens; i++) {
        bool own = counts(a, i);
        unmasked += own;
        double threshold = own ? select_one(a, score, i, true, experts, a->slots) : 0.0;
        for (int64_t j = 0; j < experts; j++)
            ref_set2(&a->margin, j, i, own ? rounded(a, ref_get2(&a->probs, i, j) - threshold) : 0.0);
    }
    int64_t before = unmasked * a->slots / experts;
    if (before > unmasked - 1) before = unmasked - 1;
    for (int64_t j = 0; j < experts; j++) {
        double found = unmasked > 0 ? select_one(a, margin, j, false, tokens, before) : 0.0;
        ref_set1(&a->sum, j, (double)unmasked * found);
    }
    ref_set1(&a->rows, 0, (double)unmasked);
    return MT_OK;
}
