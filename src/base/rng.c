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

void mt_rng_normals(uint64_t seed, uint64_t stream, uint64_t block, float normal[4])
{
    // A block of four words makes four normals: each pair of words gives one sine and one cosine.
    struct mt_rng_block words = mt_rng_words(seed, stream, block);
    for (unsigned pair = 0; pair < 4; pair += 2) {
        double radius = sqrt(-2.0 * log((double)mt_rng_unit_open(words.word[pair])));
        double angle = 6.283185307179586 * (double)mt_rng_unit(words.word[pair + 1]);
        normal[pair] = (float)(radius * cos(angle));
        normal[pair + 1] = (float)(radius * sin(angle));
    }
}

float mt_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    float normal[4];
    mt_rng_normals(seed, stream, index / 4, normal);
    return normal[index % 4];
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
