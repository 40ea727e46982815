/*
 * Do a server's experts have each other's pairs? Orders that loaders mix up are tried: each expert has the
 * pair of the next, or of the one before it, from the last to the first, and in the order of the numbers'
 * digits (0, 1, 10, 11, 2,
 * ...), both ways. Any other order is not found.
 */
#ifndef MT_INFER_PROBE_EXPERTS_H
#define MT_INFER_PROBE_EXPERTS_H

#include "infer/probe/values.h"

struct mt_experts_search {
    struct mt_variants *variants;         // borrowed; its source is left as it was
    const struct mt_probe_values *values; // borrowed
    const float *strength;                // of each part
    double *logs, *scratch;               // [values->count]
    double enough;                        // noise to be reached: below it no further order is tried
    int32_t *source;                      // [variants->experts] out: whose pair each has
    double noise;                         // out: with that source
};

enum mt_status mt_experts_search(struct mt_experts_search *search);

#endif
