/*
 * topk: the k experts that come first by (score falling, index rising), score = probs + bias. Scores and
 * group sums are rounded to the type of probs, so that every device decides ties alike. NaN comes last,
 * masked or not.
 */
#include <math.h>

#include "ops/ref/ref.h"

static double rounded(const struct mt_topk_args *a, double value)
{
    return a->probs.dtype == MT_F32 ? (double)(float)value : value;
}

static double score(const struct mt_topk_args *a, int64_t i, int64_t j)
{
    double bias = mt_tensor_present(&a->bias) ? ref_get1(&a->bias, j) : 0.0;
    return rounded(a, ref_get2(&a->probs, i, j) + bias);
}

static double group_score(const struct mt_topk_args *a, int64_t i, int64_t group)
{
    int64_t size = a->probs.dim[1] / a->groups;
    double best = NAN;
    double second = NAN;
    for (int64_t j = group * size; j < (group + 1) * size; j++) {
        double value = score(a, i, j);
        if (ref_comes_before(value, 0, best, 0)) {
            second = best;
            best = value;
        } else if (ref_comes_before(value, 0, second, 0)) {
            second = value;
        }
    }
    return a->group_rule == MT_GROUP_MAX ? best : rounded(a, best + second);
}

/* True when fewer than groups_kept groups stand before this one. */
static bool group_is_kept(const struct mt_topk_args *a, int64_t i, int64_t group)
{
    double own = group_score(a, i, group);
    int before = 0;
    for (int64_t other = 0; other < a->groups; other++) {
        before += ref_comes_before(group_score(a, i, other), other, own, group);
    }
    return before < a->groups_kept;
}

/* What the selection compares: the score, or the mask's value in a group that was not kept. */
static double masked_score(const struct mt_topk_args *a, int64_t i, int64_t j)
{
    double value = score(a, i, j);
    if (a->group_rule == MT_GROUP_NONE || isnan(value)) return value;
    int64_t size = a->probs.dim[1] / a->groups;
    if (group_is_kept(a, i, j / size)) return value;
    return a->group_rule == MT_GROUP_MAX ? 0.0 : -INFINITY;
}

enum mt_status mt_ref_topk(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_topk_args *a = args;
    int64_t experts = a->probs.dim[1];
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        double last = INFINITY; // the slot before; an imagined one stands before everything
        int64_t last_index = -1;
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            double best = 0.0;
            int64_t best_index = -1;
            for (int64_t j = 0; j < experts; j++) {
                double value = masked_score(a, i, j);
                if (!ref_comes_before(last, last_index, value, j)) continue;
                if (best_index < 0 || ref_comes_before(value, j, best, best_index)) {
                    best = value;
                    best_index = j;
                }
            }
            ref_set2(&a->expert, i, s, (double)best_index);
            last = best;
            last_index = best_index;
        }
    }
    return MT_OK;
}
