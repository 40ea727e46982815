/* reduce: sum, sum of squares, largest magnitude (NaN if there is one), or the count of NaN and inf. */
#include <math.h>

#include "ops/ref/elements.h"

/* The larger; NaN wins, so that it cannot hide behind a number. */
static double larger(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    return a > b ? a : b;
}

static double combined(enum mt_reduce_kind kind, double total, double x)
{
    switch (kind) {
    case MT_REDUCE_SUM: return total + x;
    case MT_REDUCE_SUM_SQUARES: return total + x * x;
    case MT_REDUCE_MAX_ABS: return larger(total, fabs(x));
    case MT_REDUCE_NONFINITE: return total + (isfinite(x) ? 0.0 : 1.0);
    }
    return total;
}

enum mt_status mt_ref_reduce(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_reduce_args *a = args;
    double total = 0.0;
    for (int64_t i = 0; i < mt_tensor_count(&a->x); i++) {
        total = combined(a->kind, total, ref_get_element(&a->x, i));
    }
    if (a->accumulate) {
        double before = ref_get1(&a->out, 0);
        total = a->kind == MT_REDUCE_MAX_ABS ? larger(before, total) : before + total;
    }
    ref_set1(&a->out, 0, total);
    return MT_OK;
}
