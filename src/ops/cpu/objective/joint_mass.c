/* joint_mass on rows of floats, a token at a time, in double. */
#include "ops/cpu/level.h"
#include "ops/ref/tokens.h"

static double row_sum(const float *probs, int64_t experts)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < experts; j++) sum += (double)probs[j];
    return sum;
}

/* What the chosen have, not divided by anything. */
static double chosen_sum(const struct mt_tensor *probs, const struct mt_tensor *expert, int64_t i)
{
    const float *row = cpu_row(probs, i);
    double sum = 0.0;
    for (int64_t s = 0; s < expert->dim[1]; s++) {
        int32_t chosen = ref_int2(expert, i, s);
        if (chosen >= 0) sum += (double)row[chosen];
    }
    return sum;
}

static double mass_of(const struct mt_tensor *probs, const struct mt_tensor *expert, bool normalise,
                      int64_t i)
{
    double mass = chosen_sum(probs, expert, i);
    return normalise ? mass / row_sum(cpu_row(probs, i), probs->dim[1]) : mass;
}

void MT_CPU(joint_mass_forward)(struct mt_device *device, const struct mt_joint_mass_forward_args *a)
{
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->probs))) schedule(static)
    for (int64_t i = 0; i < a->probs.dim[0]; i++) {
        double product = 0.0;
        if (token_counts(&a->mask, i))
            product = mass_of(&a->probs, &a->expert, a->normalise_rows, i) *
                      mass_of(&a->other_probs, &a->other_expert, a->normalise_rows, i);
        ((float *)a->product.data)[i] = (float)product;
    }
}

static void backward_token(const struct mt_joint_mass_backward_args *a, int64_t i)
{
    float *dprobs = cpu_row(&a->dprobs, i);
    double pull =
        *(const double *)a->dproduct.data * mass_of(&a->other_probs, &a->other_expert, a->normalise_rows, i);
    if (a->normalise_rows) {
        double sum = row_sum(cpu_row(&a->probs, i), a->probs.dim[1]);
        pull /= sum;
        float less = (float)(pull * chosen_sum(&a->probs, &a->expert, i) / sum);
#pragma omp simd
        for (int64_t j = 0; j < a->probs.dim[1]; j++) dprobs[j] -= less;
    }
    for (int64_t s = 0; s < a->expert.dim[1]; s++) {
        int32_t chosen = ref_int2(&a->expert, i, s);
        if (chosen >= 0) dprobs[chosen] += (float)pull;
    }
}

void MT_CPU(joint_mass_backward)(struct mt_device *device, const struct mt_joint_mass_backward_args *a)
{
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->probs))) schedule(static)
    for (int64_t i = 0; i < a->probs.dim[0]; i++)
        if (token_counts(&a->mask, i)) backward_token(a, i);
}
