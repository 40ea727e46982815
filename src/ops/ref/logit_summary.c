/* logit_summary: the first of the highest, or -1 where a logit is not finite; log Σ exp. */
#include <math.h>

#include "ops/ref/ref.h"

static int64_t highest_of(const struct mt_tensor *logits, int64_t r)
{
    int64_t highest = -1;
    for (int64_t j = 0; j < logits->dim[1]; j++) {
        double x = ref_get2(logits, r, j);
        if (!isfinite(x)) return -1;
        if (highest < 0 || x > ref_get2(logits, r, highest)) highest = j;
    }
    return highest;
}

static double log_sum_of(const struct mt_tensor *logits, int64_t r, int64_t highest)
{
    double sum = 0.0;
    if (highest < 0) return (double)NAN;
    double most = ref_get2(logits, r, highest);
    for (int64_t j = 0; j < logits->dim[1]; j++) sum += exp(ref_get2(logits, r, j) - most);
    return most + log(sum);
}

enum mt_status mt_ref_logit_summary(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_logit_summary_args *a = args;
    int32_t *out = a->highest.data;
    for (int64_t r = 0; r < a->logits.dim[0]; r++) {
        int64_t highest = highest_of(&a->logits, r);
        out[r] = (int32_t)highest;
        if (mt_tensor_present(&a->log_sum)) ref_set1(&a->log_sum, r, log_sum_of(&a->logits, r, highest));
    }
    return MT_OK;
}
