/* Distributions on top of the Philox block function. */
#include "base/rng.h"

#include <assert.h>
#include <math.h>

uint32_t mt_rng_u32(uint64_t seed, uint64_t stream, uint64_t index)
{
    return mt_rng_words(seed, stream, index / 4).word[index % 4];
}

float mt_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return mt_rng_unit(mt_rng_u32(seed, stream, index));
}

float mt_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    // A block of four words makes four normals: each pair of words gives one sine and one cosine.
    struct mt_rng_block block = mt_rng_words(seed, stream, index / 4);
    unsigned slot = (unsigned)(index % 4);
    double radius_word = mt_rng_unit_open(block.word[slot & 2u]);
    double angle_word = mt_rng_unit(block.word[(slot & 2u) + 1]);
    double radius = sqrt(-2.0 * log(radius_word));
    double angle = 6.283185307179586 * angle_word;
    return (float)(radius * ((slot & 1u) ? sin(angle) : cos(angle)));
}

uint64_t mt_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound)
{
    assert(bound > 0);
    // The part of the 64-bit range that is a whole multiple of the bound; values past it are redrawn.
    uint64_t limit = UINT64_MAX - (UINT64_MAX % bound + 1) % bound;
    for (uint64_t attempt = 0;; attempt++) {
        // Attempts sit in their own key space, so element i never reads element i+1's numbers.
        struct mt_rng_block block = mt_rng_words(seed ^ (attempt * 0x9E3779B97F4A7C15u), stream, index);
        uint64_t value = (uint64_t)block.word[1] << 32 | block.word[0];
        if (value <= limit) return value % bound;
    }
}
