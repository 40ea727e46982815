/*
 * logit_summary, a row at a time: whether all are finite, several at once, and the highest value, then the
 * place of the first that has it. The sum is in double, in the order of the columns, of exponentials in
 * float.
 */
#include <math.h>

#include "ops/cpu/elementwise/convert.h"

static int32_t highest_of(const float *x, int64_t count)
{
    float highest = -INFINITY;
    float zero = 0.0f; // it stays that as long as all numbers are finite
#pragma omp simd reduction(+ : zero)
    for (int64_t j = 0; j < count; j++) zero += x[j] * 0.0f;
    for (int64_t j = 0; j < count; j++) highest = x[j] > highest ? x[j] : highest;
    if (zero != 0.0f) return -1;
    for (int64_t j = 0; j < count; j++) {
        if (x[j] == highest) return (int32_t)j;
    }
    return -1;
}

static double log_sum_of(const float *x, int64_t count, int32_t highest)
{
    double sum = 1.0; // its own part
    if (highest < 0) return (double)NAN;
    for (int64_t j = 0; j < count; j++) {
        if (j != highest) sum += (double)expf(x[j] - x[highest]);
    }
    return (double)x[highest] + log(sum);
}

void MT_CPU(logit_summary)(struct mt_device *device, const struct mt_logit_summary_args *a)
{
    int64_t rows = a->logits.dim[0];
    int64_t width = a->logits.dim[1];
    bool sums = mt_tensor_present(&a->log_sum);
    int32_t *highest = a->highest.data;
    double *log_sum = a->log_sum.data;
#pragma omp parallel for num_threads(cpu_threads(device, rows *width)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *x = cpu_row(&a->logits, r);
        highest[r] = highest_of(x, width);
        if (sums) log_sum[r] = log_sum_of(x, width, highest[r]);
    }
}
