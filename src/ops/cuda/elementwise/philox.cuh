/* base/rng.h on the device: the same numbers, bit for bit. */
#ifndef MT_OPS_CUDA_PHILOX_CUH
#define MT_OPS_CUDA_PHILOX_CUH

#include "ops/cuda/common/common.cuh"

/* The keys of the rounds. Made once on the host, a kernel reads them as constants. */
struct random_keys {
    uint32_t key[2 * 10];
};

__host__ __device__ static inline struct random_keys random_keys_of(uint64_t seed)
{
    struct random_keys keys = {};
    for (uint32_t round = 0; round < 10; round++) {
        keys.key[2 * round] = (uint32_t)seed + round * 0x9E3779B9u;
        keys.key[2 * round + 1] = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
    }
    return keys;
}

/*
 * mt_rng_words: the four words of elements 4·block … 4·block + 3 of a stream; with 7 rounds mt_rng_words7.
 */
template <int ROUNDS = 10>
__device__ static inline uint4 cuda_random_block(const struct random_keys &keys, uint64_t stream,
                                                 uint64_t block)
{
    uint4 word =
        make_uint4((uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32));
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t low = (uint64_t)0xD2511F53u * word.x;
        uint64_t high = (uint64_t)0xCD9E8D57u * word.z;
        word = make_uint4((uint32_t)(high >> 32) ^ word.y ^ keys.key[2 * round], (uint32_t)high,
                          (uint32_t)(low >> 32) ^ word.w ^ keys.key[2 * round + 1], (uint32_t)low);
    }
    return word;
}

/* mt_rng_u32: element `index` of a stream. */
__device__ static inline uint32_t cuda_random_word(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint4 word = cuda_random_block(random_keys_of(seed), stream, index / 4);
    switch (index % 4) {
    case 0: return word.x;
    case 1: return word.y;
    case 2: return word.z;
    default: return word.w;
    }
}

/* mt_rng_unit: 24 bits as a float in [0, 1). */
__device__ static inline float cuda_random_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* mt_rng_unit_open: 23 bits as a float in (0, 1). */
__device__ static inline float cuda_random_unit_open(uint32_t word)
{
    return ((float)(word >> 9) + 0.5f) * 0x1p-23f;
}

#endif
