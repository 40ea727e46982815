/*
 * SparseMixer-2, slot by slot. With z the logits still allowed and m their maximum, expert j competes
 * unless (m - z_j) / max(|z_j|, m) > 2·jitter; p is the softmax over those that compete.
 * Evaluation: e = argmax z, w = p_e. Training: e = argmax z_j - log(-log u_j) over those that compete,
 * w = p_e · c, c = 1 if e is the argmax or u_n > 0.75, else 1/3.
 * Backward (both): dz_j += g · p_e · (1[j = e] - p_j), the mask and c being constants.
 * A NaN logit is never the maximum before a number, always competes, and makes the weight NaN.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/ref/ref.h"

struct contest {
    const struct mt_tensor *logits;
    int64_t i;        // token
    int32_t excluded; // the first slot's choice; -1 in the first slot
    double threshold; // 2·jitter
    double highest;
    int32_t argmax;
    double sum; // Σ exp(z - highest) over those that compete
};

static bool competes(const struct contest *c, int64_t j)
{
    if (j == c->excluded) return false;
    double z = ref_get2(c->logits, c->i, j);
    return !((c->highest - z) / fmax(fabs(z), c->highest) > c->threshold);
}

static double probability(const struct contest *c, int64_t j)
{
    return competes(c, j) ? exp(ref_get2(c->logits, c->i, j) - c->highest) / c->sum : 0.0;
}

static struct contest open_contest(const struct mt_tensor *logits, int64_t i, int32_t excluded, float jitter)
{
    struct contest c = {.logits = logits, .i = i, .excluded = excluded, .threshold = 2.0 * (double)jitter};
    c.highest = -INFINITY;
    c.argmax = excluded == 0 ? 1 : 0;
    for (int32_t j = 0; j < logits->dim[1]; j++) {
        double z = ref_get2(logits, i, j);
        if (j == excluded || !(z > c.highest)) continue;
        c.highest = z;
        c.argmax = j;
    }
    for (int64_t j = 0; j < logits->dim[1]; j++) {
        if (competes(&c, j)) c.sum += exp(ref_get2(logits, i, j) - c.highest);
    }
    return c;
}

/* Gumbel-max: a draw from p. `first` is the element of the draw that belongs to expert 0. */
static int32_t sample(const struct contest *c, const struct mt_sparsemixer_forward_args *a, uint64_t first)
{
    double best = -INFINITY;
    int32_t chosen = c->argmax;
    for (int32_t j = 0; j < c->logits->dim[1]; j++) {
        if (!competes(c, j)) continue;
        double u = (double)mt_rng_unit_open(mt_rng_u32(a->seed, a->stream, first + (uint64_t)j));
        double noisy = ref_get2(c->logits, c->i, j) - log(-log(u));
        if (!(noisy > best)) continue;
        best = noisy;
        chosen = j;
    }
    return chosen;
}

enum mt_status mt_ref_sparsemixer_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_sparsemixer_forward_args *a = args;
    uint64_t experts = (uint64_t)a->logits.dim[1];
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        int32_t chosen = -1;
        for (int slot = 0; slot < 2; slot++) {
            struct contest c = open_contest(&a->logits, i, chosen, a->jitter);
            double factor = 1.0;
            chosen = c.argmax;
            if (a->training) {
                uint64_t first = ((uint64_t)i * 2 + (uint64_t)slot) * (experts + 1);
                chosen = sample(&c, a, first);
                bool lucky = mt_rng_uniform(a->seed, a->stream, first + experts) > 0.75f;
                if (chosen != c.argmax && !lucky) factor = 1.0 / 3.0;
            }
            ref_set2(&a->expert, i, slot, (double)chosen);
            ref_set2(&a->weight, i, slot, factor * probability(&c, chosen));
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_sparsemixer_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_sparsemixer_backward_args *a = args;
    int64_t experts = a->logits.dim[1];
    for (int64_t i = 0; i < a->logits.dim[0]; i++) {
        int32_t e1 = ref_int2(&a->expert, i, 0);
        int32_t e2 = ref_int2(&a->expert, i, 1);
        struct contest first = open_contest(&a->logits, i, -1, a->jitter);
        struct contest second = open_contest(&a->logits, i, e1, a->jitter);
        double g1 = ref_get2(&a->dweight, i, 0) * probability(&first, e1);
        double g2 = ref_get2(&a->dweight, i, 1) * probability(&second, e2);
        for (int64_t j = 0; j < experts; j++) {
            double dz = g1 * ((j == e1 ? 1.0 : 0.0) - probability(&first, j)) +
                        g2 * ((j == e2 ? 1.0 : 0.0) - probability(&second, j));
            ref_set2(&a->dlogits, i, j, a->accumulate ? ref_get2(&a->dlogits, i, j) + dz : dz);
        }
    }
    return MT_OK;
}
