/*
 * Counter-based random numbers: Philox4x32 of ten rounds (Salmon et al., SC 2011). A number is a pure
 * function of (seed, stream, index), so any thread, rank or device that asks for the same place gets the same
 * value, and a resumed run needs no generator state.
 *
 * `stream` separates uses (a layer's dropout, the shuffling of an epoch); `index` is the element.
 */
#ifndef MT_BASE_RNG_H
#define MT_BASE_RNG_H

#include <stdint.h>

struct mt_rng_block {
    uint32_t word[4];
};

/* The bare block function: Philox4x32 on a 128-bit counter and a 64-bit key. */
static inline struct mt_rng_block mt_rng_philox(struct mt_rng_block counter, uint32_t key0, uint32_t key1,
                                                int rounds)
{
    for (int round = 0; round < rounds; round++) {
        uint64_t low = (uint64_t)0xD2511F53u * counter.word[0];
        uint64_t high = (uint64_t)0xCD9E8D57u * counter.word[2];
        counter = (struct mt_rng_block){{
            (uint32_t)(high >> 32) ^ counter.word[1] ^ key0,
            (uint32_t)high,
            (uint32_t)(low >> 32) ^ counter.word[3] ^ key1,
            (uint32_t)low,
        }};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* The counter of a block of a stream. */
static inline struct mt_rng_block mt_rng_place(uint64_t stream, uint64_t block)
{
    return (struct mt_rng_block){{
        (uint32_t)block,
        (uint32_t)(block >> 32),
        (uint32_t)stream,
        (uint32_t)(stream >> 32),
    }};
}

/* Four random words for elements 4·block … 4·block+3 of a stream. */
static inline struct mt_rng_block mt_rng_words(uint64_t seed, uint64_t stream, uint64_t block)
{
    return mt_rng_philox(mt_rng_place(stream, block), (uint32_t)seed, (uint32_t)(seed >> 32), 10);
}

/*
 * The same from seven rounds, the fewest that pass BigCrush (Salmon et al., table 2): for draws so many that
 * their cost shows. Other words than mt_rng_words'.
 */
static inline struct mt_rng_block mt_rng_words7(uint64_t seed, uint64_t stream, uint64_t block)
{
    return mt_rng_philox(mt_rng_place(stream, block), (uint32_t)seed, (uint32_t)(seed >> 32), 7);
}

/* 24 random bits as a float in [0, 1). */
static inline float mt_rng_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/*
 * 23 random bits as a float in (0, 1), both ends excluded: safe under log(x) and log(-log(x)). With one bit
 * more the largest value would round to 1.
 */
static inline float mt_rng_unit_open(uint32_t word)
{
    return ((float)(word >> 9) + 0.5f) * 0x1p-23f;
}

/* Element `index` of a stream: 32 random bits. */
uint32_t mt_rng_u32(uint64_t seed, uint64_t stream, uint64_t index);

/* Element `index` of a stream: uniform in [0, 1). */
float mt_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);

/* Element `index` of a stream: standard normal (Box-Muller on the block's words). */
float mt_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);

/* Elements 4·block … 4·block+3 of a stream, as mt_rng_normal gives them, for a quarter of the work. */
void mt_rng_normals(uint64_t seed, uint64_t stream, uint64_t block, float normal[4]);

/* Element `index` of a stream: an integer in [0, bound), without modulo bias; bound > 0. */
uint64_t mt_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);

#endif
