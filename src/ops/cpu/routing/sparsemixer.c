/*
 * SparseMixer-2. Who competes, who wins and who is drawn is decided in double, operation by operation as
 * ref decides it: a rounding at the threshold must not choose another expert. Noise is drawn only for
 * the experts that compete, which are one or two of a token's as a rule.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "ops/cpu/level.h"

/* One slot of one token. */
struct contest {
    const float *logits; // [n]
    int32_t experts;     // n
    int32_t excluded;    // the first slot's choice; -1 in the first slot
    int32_t argmax;
    double highest;
    double threshold; // 2·jitter
    double sum;       // Σ exp(z - highest) over those that compete
};

static inline bool competes(const struct contest *c, int32_t j)
{
    double z = (double)c->logits[j];
    double size = fabs(z) > c->highest ? fabs(z) : c->highest;
    return j != c->excluded && !((c->highest - z) / size > c->threshold);
}

static inline double probability(const struct contest *c, int32_t j)
{
    return competes(c, j) ? exp((double)c->logits[j] - c->highest) / c->sum : 0.0;
}

static struct contest open_contest(const float *logits, int64_t experts, int32_t excluded, float jitter)
{
    struct contest c = {.logits = logits,
                        .experts = (int32_t)experts,
                        .excluded = excluded,
                        .argmax = excluded == 0 ? 1 : 0,
                        .highest = -INFINITY,
                        .threshold = 2.0 * (double)jitter};
    for (int32_t j = 0; j < c.experts; j++) {
        if (j == excluded || !((double)logits[j] > c.highest)) continue;
        c.highest = (double)logits[j];
        c.argmax = j;
    }
    for (int32_t j = 0; j < c.experts; j++) {
        if (competes(&c, j)) c.sum += exp((double)logits[j] - c.highest);
    }
    return c;
}

/* Gumbel-max: a draw from the masked softmax. `first` is the element of expert 0's noise. */
static int32_t sample(const struct contest *c, uint64_t seed, uint64_t stream, uint64_t first)
{
    double best = -INFINITY;
    int32_t chosen = c->argmax;
    for (int32_t j = 0; j < c->experts; j++) {
        if (!competes(c, j)) continue;
        double u = (double)mt_rng_unit_open(mt_rng_u32(seed, stream, first + (uint64_t)j));
        double noisy = (double)c->logits[j] - log(-log(u));
        if (!(noisy > best)) continue;
        best = noisy;
        chosen = j;
    }
    return chosen;
}

void MT_CPU(sparsemixer_forward)(struct mt_device *device, const struct mt_sparsemixer_forward_args *a)
{
    int64_t tokens = a->logits.dim[0];
    int64_t experts = a->logits.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *experts)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        int32_t *expert = (int32_t *)a->expert.data + i * a->expert.stride[0];
        float *weight = cpu_row(&a->weight, i);
        int32_t chosen = -1;
        for (int slot = 0; slot < 2; slot++) {
            struct contest c = open_contest(cpu_row(&a->logits, i), experts, chosen, a->jitter);
            double factor = 1.0;
            chosen = c.argmax;
            if (a->training) {
                uint64_t first = ((uint64_t)i * 2 + (uint64_t)slot) * ((uint64_t)experts + 1);
                chosen = sample(&c, a->seed, a->stream, first);
                bool lucky = mt_rng_uniform(a->seed, a->stream, first + (uint64_t)experts) > 0.75f;
                if (chosen != c.argmax && !lucky) factor = 1.0 / 3.0;
            }
            expert[slot] = chosen;
            weight[slot] = (float)(factor * probability(&c, chosen));
        }
    }
}

/* Adds one slot's gradient. */
static void add_slot_gradient(const struct contest *c, int32_t chosen, double dweight, float *dlogits)
{
    double pull = dweight * probability(c, chosen);
    for (int32_t j = 0; j < c->experts; j++) {
        double own = j == chosen ? 1.0 : 0.0;
        dlogits[j] += (float)(pull * (own - probability(c, j)));
    }
}

void MT_CPU(sparsemixer_backward)(struct mt_device *device, const struct mt_sparsemixer_backward_args *a)
{
    int64_t tokens = a->logits.dim[0];
    int64_t experts = a->logits.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *experts)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const float *logits = cpu_row(&a->logits, i);
        const int32_t *expert = (const int32_t *)a->expert.data + i * a->expert.stride[0];
        const float *dweight = cpu_row(&a->dweight, i);
        float *dlogits = cpu_row(&a->dlogits, i);
        if (!a->accumulate) memset(dlogits, 0, (size_t)experts * sizeof(float));
        for (int slot = 0; slot < 2; slot++) {
            struct contest c = open_contest(logits, experts, slot == 0 ? -1 : expert[0], a->jitter);
            add_slot_gradient(&c, expert[slot], (double)dweight[slot], dlogits);
        }
    }
}
