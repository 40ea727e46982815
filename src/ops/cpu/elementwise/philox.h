/*
 * Many Philox blocks side by side, one per SIMD lane: the same words as mt_rng_words and mt_rng_words7 give
 * one at a time.
 *
 * A round is two products of 32-bit halves. On x86 that is one instruction for a register of them, which
 * clang finds in a 64-bit multiplication and gcc has to be told: it would multiply all 64 bits, three times
 * as slowly. There a lane has 64 bits, the lower half of which is the word; elsewhere it has 32.
 */
#ifndef MT_OPS_CPU_PHILOX_H
#define MT_OPS_CPU_PHILOX_H

#include <string.h>

#include "base/rng.h"
#include "ops/cpu/vector.h"

// Registers that hold one word of the blocks computed together: enough of them that a product is ready when
// its turn comes. Where there are 16 registers some words wait in memory: that costs less than waiting for
// products.
#if defined(__AVX512F__)
#define PHILOX_LANES     8
#define PHILOX_REGISTERS 4
#elif defined(__AVX2__)
#define PHILOX_LANES     4
#define PHILOX_REGISTERS 4
#elif defined(__x86_64__)
#define PHILOX_LANES     2
#define PHILOX_REGISTERS 2
#else
#define PHILOX_LANES     4
#define PHILOX_REGISTERS 4
#endif
#define PHILOX_BLOCKS (PHILOX_LANES * PHILOX_REGISTERS) // computed together
#define PHILOX_WORDS  (4 * PHILOX_BLOCKS)               // what draw_words gives

typedef uint32_t philox_words __attribute__((vector_size(PHILOX_LANES * 4)));
typedef uint64_t philox_numbers __attribute__((vector_size(PHILOX_LANES * 8)));

#if defined(__x86_64__)

typedef philox_numbers philox_vector; // the upper halves are left over and ignored

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

/* Both halves of the products of words. */
static inline void multiply_words(philox_vector a, philox_vector b, philox_vector *low, philox_vector *high)
{
    *low = multiply_halves(a, b);
    *high = *low >> 32;
}

/* A word in every lane, in the ignored halves, too: as memory gives it. */
static inline philox_vector philox_key(uint32_t key)
{
    typedef uint32_t all_words __attribute__((vector_size(PHILOX_LANES * 8)));
    return (philox_vector)((all_words){0} + key);
}

#else

typedef philox_words philox_vector;

/* Both halves of the products of words. */
static inline void multiply_words(philox_vector a, philox_vector b, philox_vector *low, philox_vector *high)
{
    uint32_t left[PHILOX_LANES];
    uint32_t right[PHILOX_LANES];
    uint32_t upper[PHILOX_LANES];
    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
#pragma omp simd
    for (int i = 0; i < PHILOX_LANES; i++) upper[i] = (uint32_t)((uint64_t)left[i] * right[i] >> 32);
    *low = a * b;
    memcpy(high, upper, sizeof upper);
}

/* A word in every lane. */
static inline philox_vector philox_key(uint32_t key)
{
    return (philox_vector){0} + key;
}

#endif

/* PHILOX_BLOCKS blocks: word w of block r·PHILOX_LANES + l is lane l of word[w][r]. */
struct philox_state {
    philox_vector word[4][PHILOX_REGISTERS];
};

#define PHILOX_FACTOR0 0xD2511F53u
#define PHILOX_FACTOR1 0xCD9E8D57u

/*
 * What is drawn: blocks of a stream whose numbers have one upper half. With it a quarter of the first four
 * products is the same for all of them: of the first round that of the stream, of the second that of what
 * this one became. They are made once, and stand in the keys they would be combined with. The keys are in
 * memory, from where they are read into all lanes at no cost.
 */
struct philox_keys {
    uint64_t seed;
    uint64_t stream;
    uint64_t upper; // half of the blocks' numbers
    uint32_t key[10][2];
};

/* For the stream's blocks from `block` on, as far as they have its upper half. */
static inline struct philox_keys philox_keys_of(uint64_t seed, uint64_t stream, uint64_t block)
{
    struct philox_keys keys = {.seed = seed, .stream = stream, .upper = block >> 32};
    for (uint32_t round = 0; round < 10; round++) {
        keys.key[round][0] = (uint32_t)seed + round * 0x9E3779B9u;
        keys.key[round][1] = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
    }
    uint64_t of_stream = (uint64_t)PHILOX_FACTOR1 * (uint32_t)stream;
    uint32_t word0 = (uint32_t)(of_stream >> 32) ^ (uint32_t)keys.upper ^ keys.key[0][0];
    uint64_t of_word0 = (uint64_t)PHILOX_FACTOR0 * word0;
    keys.key[0][1] ^= (uint32_t)(stream >> 32);
    keys.key[1][0] ^= (uint32_t)of_stream;
    keys.key[1][1] ^= (uint32_t)(of_word0 >> 32);
    keys.key[2][1] ^= (uint32_t)of_word0;
    return keys;
}

/* The blocks with these lower halves of their numbers. `rounds` is a constant wherever this is inlined. */
VECTOR_INLINE void philox_draw(const struct philox_keys *keys, const philox_vector block[PHILOX_REGISTERS],
                               int rounds, struct philox_state *s)
{
    const philox_vector factor0 = (philox_vector){0} + PHILOX_FACTOR0;
    const philox_vector factor1 = (philox_vector){0} + PHILOX_FACTOR1;
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) {
        philox_vector low0, high0, low1, high1;
        multiply_words(factor0, block[r], &low0, &high0);
        multiply_words(factor1, high0 ^ philox_key(keys->key[0][1]), &low1, &high1);
        s->word[0][r] = high1 ^ philox_key(keys->key[1][0]);
        s->word[1][r] = low1;
        s->word[2][r] = low0 ^ philox_key(keys->key[1][1]);
        s->word[3][r] = (philox_vector){0}; // is in the next key
    }
    UNROLL
    for (int round = 2; round < rounds; round++) {
        philox_vector key0 = philox_key(keys->key[round][0]);
        philox_vector key1 = philox_key(keys->key[round][1]);
        UNROLL
        for (int r = 0; r < PHILOX_REGISTERS; r++) {
            philox_vector low0, high0, low1, high1;
            multiply_words(factor0, s->word[0][r], &low0, &high0);
            multiply_words(factor1, s->word[2][r], &low1, &high1);
            s->word[0][r] = high1 ^ s->word[1][r] ^ key0;
            s->word[1][r] = low1;
            s->word[2][r] = high0 ^ s->word[3][r] ^ key1;
            s->word[3][r] = low0;
        }
    }
}

/* The words of a register's blocks, one block after the other. */
#if defined(__x86_64__)

static inline void store_words(const struct philox_state *s, int r, uint32_t *words)
{
    philox_vector front = (s->word[0][r] & 0xFFFFFFFFu) | s->word[1][r] << 32;
    philox_vector back = (s->word[2][r] & 0xFFFFFFFFu) | s->word[3][r] << 32;
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

#else

static inline void store_words(const struct philox_state *s, int r, uint32_t *words)
{
    for (int lane = 0; lane < PHILOX_LANES; lane++) {
        for (int w = 0; w < 4; w++) words[4 * lane + w] = s->word[w][r][lane];
    }
}

#endif

/*
 * Words of elements 4·first … 4·first + PHILOX_WORDS - 1 of a stream, as mt_rng_words has them. `keys` are
 * for blocks up to `first`; where the upper half changes on the way to the last one, they are drawn one by
 * one.
 */
static inline void draw_words(const struct philox_keys *keys, uint64_t first, uint32_t *words)
{
    philox_vector block[PHILOX_REGISTERS];
    struct philox_state s;
    philox_vector lane = {0};
    if ((first + PHILOX_BLOCKS - 1) >> 32 != keys->upper) {
        for (uint64_t i = 0; i < PHILOX_BLOCKS; i++) {
            struct mt_rng_block drawn = mt_rng_words(keys->seed, keys->stream, first + i);
            memcpy(words + 4 * i, drawn.word, sizeof drawn.word);
        }
        return;
    }
    for (uint32_t i = 0; i < PHILOX_LANES; i++) lane[i] = i;
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++)
        block[r] = lane + ((uint32_t)first + (uint32_t)(r * PHILOX_LANES));
    philox_draw(keys, block, 10, &s);
    UNROLL
    for (int r = 0; r < PHILOX_REGISTERS; r++) store_words(&s, r, words + r * 4 * PHILOX_LANES);
}

#endif
