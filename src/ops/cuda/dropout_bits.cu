/*
 * dropout_bits: a thread makes a word of 32 columns. Where rows begin with a block of random words that is
 * four blocks; elsewhere the blocks that hold its elements are found one element after the other.
 */
#include "ops/cuda/philox.cuh"
#include "ops/dropout.h"

/* The bits of one block's eight elements, the first in the lowest. */
__device__ static inline uint32_t eight_bits(uint4 block, uint32_t threshold)
{
    const uint32_t word[4] = {block.x, block.y, block.z, block.w};
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if ((word[i] & 0xffffu) >= threshold) bits |= 1u << (2 * i);
        if (word[i] >> 16 >= threshold) bits |= 2u << (2 * i);
    }
    return bits;
}

/* columns is a multiple of 8. */
__global__ static void whole_kernel(struct mt_dropout_bits_args a, struct random_keys keys,
                                    uint32_t threshold)
{
    int64_t words = a.bits.dim[1];
    for (int64_t i = cuda_thread(); i < a.bits.dim[0] * words; i += cuda_thread_count()) {
        int64_t row = i / words;
        int64_t w = i - row * words;
        uint64_t block = (uint64_t)(row * (a.columns / 8) + w * 4);
        uint32_t bits = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (w * 32 + j * 8 < a.columns)
                bits |= eight_bits(cuda_random_block(keys, a.stream, block + j), threshold) << (8 * j);
        }
        cuda_int_row(a.bits, row)[w] = (int32_t)bits;
    }
}

__global__ static void single_kernel(struct mt_dropout_bits_args a, uint32_t threshold)
{
    int64_t words = a.bits.dim[1];
    for (int64_t i = cuda_thread(); i < a.bits.dim[0] * words; i += cuda_thread_count()) {
        int64_t row = i / words;
        int64_t w = i - row * words;
        uint32_t bits = 0;
        for (int j = 0; j < 32 && w * 32 + j < a.columns; j++) {
            uint64_t element = (uint64_t)(row * a.columns + w * 32 + j);
            if (cuda_random_half(a.seed, a.stream, element) >= threshold) bits |= 1u << j;
        }
        cuda_int_row(a.bits, row)[w] = (int32_t)bits;
    }
}

enum mt_status mt_cuda_dropout_bits(struct mt_device *device, const void *args)
{
    const struct mt_dropout_bits_args *a = static_cast<const struct mt_dropout_bits_args *>(args);
    int64_t count = mt_tensor_count(&a->bits);
    uint32_t threshold = mt_dropout_threshold(a->amount);
    if (count == 0) return MT_OK;
    if (a->columns % 8 == 0) {
        whole_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, cuda_stream(device)>>>(
            *a, random_keys_of(a->seed), threshold);
    } else {
        single_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, threshold);
    }
    return cuda_launched(device, "dropout_bits");
}
