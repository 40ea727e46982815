/*
 * Caches of experts: misses by hand, the best possible by trying every way to make room, and properties that
 * hold for all choices.
 */
#include "analysis/expert_cache.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static struct mt_cache_misses misses_of(const uint16_t *choices, int64_t tokens, int slots, int experts,
                                        int capacity)
{
    struct mt_context ctx;
    struct mt_cache_misses misses;
    mt_context_init(&ctx, NULL);
    if (mt_expert_cache(&ctx, choices, tokens, slots, experts, capacity, &misses) != MT_OK)
        fail_msg("%s", ctx.message);
    assert_int_equal(ctx.live_bytes, 0);
    return misses;
}

static void assert_misses(const struct mt_cache_misses *misses, int64_t first, int64_t lru, int64_t lfu,
                          int64_t belady)
{
    assert_int_equal(misses->first, first);
    assert_int_equal(misses->misses[MT_CACHE_LRU], lru);
    assert_int_equal(misses->misses[MT_CACHE_LFU], lfu);
    assert_int_equal(misses->misses[MT_CACHE_BELADY], belady);
}

static void test_by_hand(void **state)
{
    // The textbook's string: 12 pages, room for 3. LRU 10, Belady 7; LFU by the rules of the header:
    // 1* 2* 3* 4*(1 goes) 1*(2) 2*(3) 5*(4) 1 2 3*(5) 4*(3) 5*(4).
    static const uint16_t textbook[] = {1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5};
    // A loop one longer than the cache: LRU misses always, Belady every other time. LFU keeps 0 and 1, which
    // have come round once more: 0* 1* 2*(0) 0*(1) 1*(2) 2*(0, of equals the longest ago) 0*(1) 1*(2).
    static const uint16_t loop[] = {0, 1, 2, 0, 1, 2, 0, 1};
    // Pairs at once, room for 3: 0* 1*; 2* 3*, for which by LRU and LFU 0 goes, the lower of two equals, and
    // by Belady 1, which is needed later; then LRU and LFU miss 0 and 1, Belady 1.
    static const uint16_t pairs[] = {0, 1, 2, 3, 0, 2, 0, 1, 0, 2};
    static const uint16_t twice[] = {4, 4, 4, 4};
    (void)state;
    struct mt_cache_misses misses = misses_of(textbook, 12, 1, 6, 3);
    assert_misses(&misses, 5, 10, 10, 7);
    misses = misses_of(loop, 8, 1, 3, 2);
    assert_misses(&misses, 3, 8, 8, 5);
    assert_true(mt_cache_miss_rate(&misses, MT_CACHE_BELADY) == 5.0 / 8.0);
    misses = misses_of(pairs, 5, 2, 4, 3);
    assert_misses(&misses, 4, 6, 6, 5);
    misses = misses_of(twice, 2, 2, 5, 2);
    assert_misses(&misses, 1, 1, 1, 1);
    misses = misses_of(NULL, 0, 2, 5, 2);
    assert_misses(&misses, 0, 0, 0, 0);
    assert_true(isnan(mt_cache_miss_rate(&misses, MT_CACHE_LRU)));
}

/* The fewest misses from `token` on with these experts in the cache: every way to make room is tried. */
static int fewest(const uint16_t *choices, int tokens, int slots, int experts, int capacity, int token,
                  unsigned cached)
{
    unsigned needed = 0;
    int best = 1 << 20;
    if (token == tokens) return 0;
    for (int s = 0; s < slots; s++) needed |= 1u << choices[token * slots + s];
    int missing = __builtin_popcount(needed & ~cached);
    for (unsigned kept = 0; kept < 1u << experts; kept++) {
        if ((kept & ~(cached & ~needed)) != 0) continue; // of those that may go
        unsigned after = kept | needed;
        if (__builtin_popcount(after) > capacity) continue;
        int rest = fewest(choices, tokens, slots, experts, capacity, token + 1, after);
        if (missing + rest < best) best = missing + rest;
    }
    return best;
}

static void draw(uint16_t *choices, int tokens, int slots, int experts, uint64_t seed)
{
    for (int i = 0; i < tokens; i++) {
        for (int s = 0; s < slots; s++) {
            // The next that the token does not have yet.
            int expert =
                (int)(mt_rng_uniform(seed, 7, (uint64_t)i * 64 + (uint64_t)s) * (float)experts) % experts;
            for (int t = 0; t < s; t++) {
                if (choices[i * slots + t] != expert) continue;
                expert = (expert + 1) % experts;
                t = -1;
            }
            choices[i * slots + s] = (uint16_t)expert;
        }
    }
}

static void test_belady_is_the_best(void **state)
{
    (void)state;
    for (int n = 0; n < 60; n++) {
        int slots = 1 + n % 3;
        int experts = slots + 2;
        uint16_t choices[7 * 3] = {0};
        draw(choices, 7, slots, experts, (uint64_t)n);
        for (int capacity = slots; capacity <= experts; capacity++) {
            struct mt_cache_misses misses = misses_of(choices, 7, slots, experts, capacity);
            assert_int_equal(misses.misses[MT_CACHE_BELADY],
                             fewest(choices, 7, slots, experts, capacity, 0, 0));
        }
    }
}

/* Room for all: first uses alone. More room: never more misses, by LRU and Belady. Nobody beats Belady. */
static void test_properties(void **state)
{
    enum { TOKENS = 400, SLOTS = 3, EXPERTS = 12 };
    static uint16_t choices[TOKENS * SLOTS];
    struct mt_cache_misses before = {0};
    (void)state;
    draw(choices, TOKENS, SLOTS, EXPERTS, 5);
    for (int capacity = SLOTS; capacity <= EXPERTS; capacity++) {
        struct mt_cache_misses misses = misses_of(choices, TOKENS, SLOTS, EXPERTS, capacity);
        for (int p = 0; p < MT_CACHE_POLICIES; p++)
            assert_true(misses.misses[p] >= misses.misses[MT_CACHE_BELADY] &&
                        misses.misses[p] >= misses.first);
        if (capacity > SLOTS) {
            assert_true(misses.misses[MT_CACHE_LRU] <= before.misses[MT_CACHE_LRU]);
            assert_true(misses.misses[MT_CACHE_BELADY] < before.misses[MT_CACHE_BELADY]);
        }
        before = misses;
    }
    assert_misses(&before, EXPERTS, EXPERTS, EXPERTS, EXPERTS);
}

static void test_refusals(void **state)
{
    static const uint16_t choices[] = {0, 1, 5, 2};
    struct mt_context ctx;
    struct mt_cache_misses misses;
    (void)state;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_expert_cache(&ctx, choices, 2, 2, 6, 1, &misses), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "expected 2 (experts of a token) to 6"));
    assert_int_equal(mt_expert_cache(&ctx, choices, 2, 2, 6, 7, &misses), MT_ERR_USAGE);
    assert_int_equal(mt_expert_cache(&ctx, choices, 2, 2, 5, 2, &misses), MT_ERR_SHAPE);
}

static enum mt_status replay(struct mt_context *ctx, const void *self)
{
    static const uint16_t choices[] = {0, 1, 5, 2};
    struct mt_cache_misses misses;
    (void)self;
    return mt_expert_cache(ctx, choices, 2, 2, 6, 3, &misses);
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(replay, NULL, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),    cmocka_unit_test(test_belady_is_the_best),
        cmocka_unit_test(test_properties), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
