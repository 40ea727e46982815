/*
 * How often a fast memory with room for some of a layer's experts would have to fetch one: recorded choices,
 * replayed. A token needs all of its experts at once; what it needs and the memory lacks is a miss, each is
 * fetched, and others go for it, never those of the token at hand. The memory is empty at first, so every
 * expert's first use is a miss, too: `first` counts these, which no policy and no room avoids.
 *
 * Who goes:
 *   LRU     whose last use is longest ago
 *   LFU     who has been used least often so far, whether it was there or not; of equals as LRU
 *   Belady  whose next use is farthest ahead, or never: the fewest misses any policy can have
 * Of those that are still equal the lower number goes.
 */
#ifndef MT_ANALYSIS_EXPERT_CACHE_H
#define MT_ANALYSIS_EXPERT_CACHE_H

#include <stdint.h>

#include "metier/context.h"

enum mt_cache_policy { MT_CACHE_LRU, MT_CACHE_LFU, MT_CACHE_BELADY, MT_CACHE_POLICIES };

/* "LRU", "LFU", "Belady" */
const char *mt_cache_policy_name(enum mt_cache_policy policy);

struct mt_cache_misses {
    int64_t tokens;
    int64_t first;                     // experts' first uses, which are misses of every policy
    int64_t misses[MT_CACHE_POLICIES]; // all of them, the first uses included
};

/*
 * Replays choices [tokens,slots], each < experts, in their order, with room for `capacity` experts. An expert
 * that a token names twice counts once. Refused: a capacity below `slots` or above `experts`.
 */
enum mt_status mt_expert_cache(struct mt_context *ctx, const uint16_t *choices, int64_t tokens, int slots,
                               int experts, int capacity, struct mt_cache_misses *misses);

/* Misses per token; NaN without tokens. */
double mt_cache_miss_rate(const struct mt_cache_misses *misses, enum mt_cache_policy policy);

#endif
