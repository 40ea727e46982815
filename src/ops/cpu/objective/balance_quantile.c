/*
 * balance_quantile: tokens first, each to its threshold and margins; then experts, each a selection in four
 * passes over its margins, a byte of their keys at a time. A key is an integer that orders as the number
 * does, NaN below all: what is selected does not depend on how.
 */
#include "ops/cpu/level.h"

static inline uint32_t key_of(float value)
{
    uint32_t bits = mt_float_bits(value + 0.0f); // -0 and +0 are the same
    if (value != value) return 0;
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

static inline float value_of(uint32_t key)
{
    if (key == 0) return mt_float_from_bits(0x7fc00000u);
    return mt_float_from_bits((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

static bool counts(const struct mt_balance_quantile_args *a, int64_t i)
{
    return !mt_tensor_present(&a->mask) || ((const int32_t *)a->mask.data)[i] != 0;
}

/* The largest score that `slots` others stand before. */
static float threshold_of(const struct mt_balance_quantile_args *a, const float *probs)
{
    int64_t experts = a->probs.dim[1];
    const float *bias = a->bias.data;
    uint32_t last = UINT32_MAX; // above the key of every number
    int64_t left = a->slots + 1;
    // Equal scores are stepped over together.
    while (true) {
        uint32_t best = 0;
        int64_t equal = 0;
        for (int64_t j = 0; j < experts; j++) {
            uint32_t key = key_of(bias != NULL ? probs[j] + bias[j] : probs[j]);
            if (key >= last || key < best) continue;
            equal = key == best ? equal + 1 : 1;
            best = key;
        }
        left -= equal;
        last = best;
        if (left <= 0 || best == 0) return value_of(best);
    }
}

/* The margin of an expert that `before` others stand before. */
static float select_margin(const struct mt_balance_quantile_args *a, int64_t expert, int64_t before)
{
    const float *margin = cpu_row(&a->margin, expert);
    int64_t tokens = a->probs.dim[0];
    uint32_t prefix = 0;
    int64_t left = before;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t found[256] = {0};
        for (int64_t i = 0; i < tokens; i++) {
            uint32_t key = key_of(margin[i]);
            bool fits = shift == 24 || key >> (shift + 8) == prefix;
            if (fits && counts(a, i)) found[key >> shift & 255]++;
        }
        int byte = 255;
        for (; byte > 0 && left >= found[byte]; byte--) left -= found[byte];
        prefix = prefix << 8 | (uint32_t)byte;
    }
    return value_of(prefix);
}

void MT_CPU(balance_quantile)(struct mt_device *device, const struct mt_balance_quantile_args *a)
{
    int64_t tokens = a->probs.dim[0];
    int64_t experts = a->probs.dim[1];
    int threads = cpu_threads(device, tokens * experts);
    int64_t unmasked = 0;
    for (int64_t i = 0; i < tokens; i++) unmasked += counts(a, i);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const float *probs = cpu_row(&a->probs, i);
        bool own = counts(a, i);
        float threshold = own ? threshold_of(a, probs) : 0.0f;
        for (int64_t j = 0; j < experts; j++) cpu_row(&a->margin, j)[i] = own ? probs[j] - threshold : 0.0f;
    }
    int64_t before = cpu_min(unmasked * a->slots / experts, unmasked - 1);
    double *sum = a->sum.data;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t j = 0; j < experts; j++) {
        double found = unmasked > 0 ? (double)select_margin(a, j, before) : 0.0;
        sum[j] = (double)unmasked * found;
    }
    *(double *)a->rows.data = (double)unmasked;
}
