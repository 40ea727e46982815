/* topk_weights: a handful of numbers per token, summed in double. */
#include <string.h>

#include "ops/cpu/level.h"

/* The chosen probabilities, added up, plus epsilon; 1 where nothing is normalised. */
static double divisor(const float *probs, const int32_t *expert, int64_t slots, bool normalise, float epsilon)
{
    if (!normalise) return 1.0;
    double sum = 0.0;
    for (int64_t s = 0; s < slots; s++) {
        if (expert[s] >= 0) sum += (double)probs[expert[s]];
    }
    return sum + (double)epsilon;
}

static const int32_t *index_row(const struct mt_tensor *index, int64_t i)
{
    return (const int32_t *)index->data + i * index->stride[0];
}

void MT_CPU(topk_weights_forward)(struct mt_device *device, const struct mt_topk_weights_forward_args *a)
{
    int64_t tokens = a->expert.dim[0];
    int64_t slots = a->expert.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *slots)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const float *probs = cpu_row(&a->probs, i);
        const int32_t *expert = index_row(&a->expert, i);
        float *weight = cpu_row(&a->weight, i);
        double factor = (double)a->scale / divisor(probs, expert, slots, a->normalise, a->epsilon);
        for (int64_t s = 0; s < slots; s++) {
            weight[s] = expert[s] < 0 ? 0.0f : (float)(factor * (double)probs[expert[s]]);
        }
    }
}

void MT_CPU(topk_weights_backward)(struct mt_device *device, const struct mt_topk_weights_backward_args *a)
{
    int64_t tokens = a->expert.dim[0];
    int64_t slots = a->expert.dim[1];
    int64_t experts = a->probs.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *experts)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const float *probs = cpu_row(&a->probs, i);
        const int32_t *expert = index_row(&a->expert, i);
        const float *dweight = cpu_row(&a->dweight, i);
        float *dprobs = cpu_row(&a->dprobs, i);
        double denominator = divisor(probs, expert, slots, a->normalise, a->epsilon);
        double dot = 0.0; // Σ g p over the chosen
        for (int64_t s = 0; s < slots; s++) {
            if (expert[s] >= 0) dot += (double)dweight[s] * (double)probs[expert[s]];
        }
        double pull = a->normalise ? dot / denominator : 0.0;
        double factor = (double)a->scale / denominator;
        if (!a->accumulate) memset(dprobs, 0, (size_t)experts * sizeof(float));
        for (int64_t s = 0; s < slots; s++) {
            if (expert[s] >= 0) dprobs[expert[s]] += (float)(factor * ((double)dweight[s] - pull));
        }
    }
}
