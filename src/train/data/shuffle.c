/* The permutation: eight rounds of Feistel, each keyed by the counter-based generator. */
#include "train/data/shuffle.h"

#include <assert.h>

#include "base/rng.h"

#define ROUNDS 8

static uint64_t permute(uint64_t seed, uint64_t stream, int half_bits, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        // right has at most 32 bits: the round's number stands above it.
        struct mt_rng_block block = mt_rng_words(seed, stream, round << 32 | right);
        uint64_t mixed = left ^ (block.word[0] & mask);
        left = right;
        right = mixed;
    }
    return left << half_bits | right;
}

uint64_t mt_shuffle(uint64_t seed, uint64_t stream, uint64_t count, uint64_t index)
{
    assert(index < count);
    int half_bits = 1;
    while (half_bits < 32 && (uint64_t)1 << (2 * half_bits) < count) half_bits++;
    uint64_t value = index;
    do {
        value = permute(seed, stream, half_bits, value);
    } while (value >= count);
    return value;
}
