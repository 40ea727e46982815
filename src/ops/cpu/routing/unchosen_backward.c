/* unchosen_backward: a dot product for each token that did not choose the expert, added up in double. */
#include "ops/cpu/level.h"

/* scale / D of a token; 0 where it has chosen the expert. */
static double factor_of(const struct mt_unchosen_backward_args *a, int64_t i)
{
    const float *probs = cpu_row(&a->probs, i);
    const int32_t *expert = (const int32_t *)a->expert.data + i * a->expert.stride[0];
    double divisor = a->normalise ? (double)a->epsilon : 1.0;
    for (int64_t s = 0; s < a->expert.dim[1]; s++) {
        if (expert[s] == a->number) return 0.0;
        if (a->normalise && expert[s] >= 0) divisor += (double)probs[expert[s]];
    }
    return (double)a->scale / divisor;
}

static double dot_of(const float *x, const float *y, int64_t width)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; c++) sum += (double)x[c] * (double)y[c];
    return sum;
}

void MT_CPU(unchosen_backward)(struct mt_device *device, const struct mt_unchosen_backward_args *a)
{
    int64_t tokens = a->dy.dim[0];
    int64_t width = a->dy.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *width)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        double factor = factor_of(a, i);
        if (factor == 0.0) continue;
        double dot = dot_of(cpu_row(&a->dy, i), cpu_row(&a->outputs, i), width);
        float *target = cpu_row(&a->dprobs, i) + a->number;
        *target = (float)((double)*target + factor * dot);
    }
}
