/*
 * Many Philox blocks side by side, one per SIMD lane: the same words as mt_rng_words one at a time.
 *
 * A round is two products of 32-bit halves. On x86 that is one instruction for a register of them, which
 * clang finds in a 64-bit multiplication and gcc has to be told: it would multiply all 64 bits, three times
 * as slowly. multiply_halves names it; where that is not needed the compiler
 * vectorises mt_rng_words itself.
 */
#ifndef MT_OPS_CPU_PHILOX_H
#define MT_OPS_CPU_PHILOX_H

#include <string.h>

#include "base/rng.h"
#include "ops/cpu/vector.h"

#if defined(__x86_64__)

// Registers that hold one word of the blocks computed together: enough of them that a product is ready when
// its turn comes, so few that the four words and the constants stay in registers.
#if defined(__AVX512F__)
#define PHILOX_LANES     8
#define PHILOX_REGISTERS 4
#elif defined(__AVX2__)
#define PHILOX_LANES     4
#define PHILOX_REGISTERS 2
#else
#define PHILOX_LANES     2
#define PHILOX_REGISTERS 2
#endif
#define PHILOX_BLOCKS (PHILOX_LANES * PHILOX_REGISTERS) // computed together

// 64-bit lanes whose lower halves are the words; the upper halves are left over and ignored.
typedef uint64_t philox_vector __attribute__((vector_size(PHILOX_LANES * 8)));

/* The 64-bit products of the lower halves. */
static inline philox_vector multiply_halves(philox_vector a, philox_vector b)
{
#if defined(__clang__)
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#else
    typedef int halves __attribute__((vector_size(PHILOX_LANES * 8)));
#if defined(__AVX512F__)
    typedef long long products __attribute__((vector_size(PHILOX_LANES * 8)));
    return (philox_vector)__builtin_ia32_pmuludq512_mask((halves)a, (halves)b, (products){0}, 0xFF);
#elif defined(__AVX2__)
    return (philox_vector)__builtin_ia32_pmuludq256((halves)a, (halves)b);
#else
    return (philox_vector)__builtin_ia32_pmuludq128((halves)a, (halves)b);
#endif
#endif
}

/* Words of the lanes, in lane order: 4·PHILOX_LANES of them. */
static inline void store_words(philox_vector word0, philox_vector word1, philox_vector word2,
                               philox_vector word3, uint32_t *words)
{
    philox_vector front = (word0 & 0xFFFFFFFFu) | word1 << 32;
    philox_vector back = (word2 & 0xFFFFFFFFu) | word3 << 32;
#if PHILOX_LANES == 8
    philox_vector low = __builtin_shufflevector(front, back, 0, 8, 1, 9, 2, 10, 3, 11);
    philox_vector high = __builtin_shufflevector(front, back, 4, 12, 5, 13, 6, 14, 7, 15);
#elif PHILOX_LANES == 4
    philox_vector low = __builtin_shufflevector(front, back, 0, 4, 1, 5);
    philox_vector high = __builtin_shufflevector(front, back, 2, 6, 3, 7);
#else
    philox_vector low = __builtin_shufflevector(front, back, 0, 2);
    philox_vector high = __builtin_shufflevector(front, back, 1, 3);
#endif
    memcpy(words, &low, sizeof low);
    memcpy(words + 2 * PHILOX_LANES, &high, sizeof high);
}

/* Words of elements 4·first … 4·first + PHILOX_WORDS - 1 of a stream. */
static inline void draw_words(uint64_t seed, uint64_t stream, uint64_t first, uint32_t *words)
{
    philox_vector lane = {0};
    for (int i = 0; i < PHILOX_LANES; i++) lane[i] = (uint64_t)i;
    philox_vector word[4][PHILOX_REGISTERS];
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        philox_vector block = lane + (first + (uint64_t)(r * PHILOX_LANES));
        word[0][r] = block;
        word[1][r] = block >> 32;
        word[2][r] = (philox_vector){0} + (uint32_t)stream;
        word[3][r] = (philox_vector){0} + (stream >> 32);
    }
    const philox_vector factor0 = (philox_vector){0} + 0xD2511F53u;
    const philox_vector factor1 = (philox_vector){0} + 0xCD9E8D57u;
    philox_vector key0 = (philox_vector){0} + (uint32_t)seed;
    philox_vector key1 = (philox_vector){0} + (seed >> 32);
    UNROLL
    for (int round = 0; round < 10; round++) {
        UNROLL
        for (int r = 0; r < PHILOX_REGISTERS; r++) {
            philox_vector low = multiply_halves(factor0, word[0][r]);
            philox_vector high = multiply_halves(factor1, word[2][r]);
            word[0][r] = high >> 32 ^ word[1][r] ^ key0;
            word[1][r] = high;
            word[2][r] = low >> 32 ^ word[3][r] ^ key1;
            word[3][r] = low;
        }
        key0 += 0x9E3779B9u; // the carry stays in the ignored half
        key1 += 0xBB67AE85u;
    }
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        store_words(word[0][r], word[1][r], word[2][r], word[3][r], words + r * 4 * PHILOX_LANES);
    }
}

#else

#define PHILOX_BLOCKS 16 // computed together

/* Words of elements 4·first … 4·first + PHILOX_WORDS - 1 of a stream. */
static inline void draw_words(uint64_t seed, uint64_t stream, uint64_t first, uint32_t *words)
{
#pragma omp simd
    for (int block = 0; block < PHILOX_BLOCKS; block++) {
        struct mt_rng_block drawn = mt_rng_words(seed, stream, first + (uint64_t)block);
        for (int i = 0; i < 4; i++) words[4 * block + i] = drawn.word[i];
    }
}

#endif

#define PHILOX_WORDS (4 * PHILOX_BLOCKS) // what draw_words gives

#endif
