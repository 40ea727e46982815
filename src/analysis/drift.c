/* Drift from a base model. */
#include "analysis/drift.h"

#include <math.h>

double mt_drift_load(const double *load, const double *base, int experts)
{
    double total = 0.0;
    double base_total = 0.0;
    double shift = 0.0;
    for (int j = 0; j < experts; j++) {
        total += load[j];
        base_total += base[j];
    }
    if (!(total > 0.0) || !(base_total > 0.0)) return NAN;
    for (int j = 0; j < experts; j++) shift += fabs(load[j] / total - base[j] / base_total);
    return shift / 2.0;
}

static int shared_experts(const uint16_t *a, const uint16_t *b, int slots)
{
    int shared = 0;
    for (int i = 0; i < slots; i++) {
        for (int j = 0; j < slots; j++) shared += a[i] == b[j] ? 1 : 0; // an expert stands in a set once
    }
    return shared;
}

void mt_drift_choices(const uint16_t *choices, const uint16_t *base, int64_t tokens, int slots,
                      struct mt_drift_figures *figures)
{
    int64_t sets = 0;
    int64_t changed = 0;
    for (int64_t i = 0; i < tokens; i++) {
        int lost = slots - shared_experts(choices + i * slots, base + i * slots, slots);
        sets += lost > 0 ? 1 : 0;
        changed += lost;
    }
    figures->tokens = tokens;
    figures->sets_changed = tokens > 0 ? (double)sets / (double)tokens : NAN;
    figures->slots_changed = tokens > 0 ? (double)changed / ((double)tokens * slots) : NAN;
}

double mt_drift_weights(const float *weights, const float *base, int64_t count)
{
    double moved = 0.0;
    double length = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double difference = (double)weights[i] - (double)base[i];
        moved += difference * difference;
        length += (double)base[i] * (double)base[i];
    }
    return length > 0.0 ? sqrt(moved / length) : NAN;
}
