/*
 * dropout_mask: a thread per 32 elements, which are eight blocks of random words where rows are whole blocks.
 * The draws are random_multiply's.
 */
#include <cmath>

#include "ops/cuda/philox.cuh"

/* A bit for each of four words: whether it is not below. */
__device__ static inline uint32_t four_bits(const uint4 &words, uint32_t below)
{
    return (uint32_t)(words.x >= below) | (uint32_t)(words.y >= below) << 1 |
           (uint32_t)(words.z >= below) << 2 | (uint32_t)(words.w >= below) << 3;
}

/* `below`: words under it are dropped (random_multiply.cu says why). */
__global__ static void mask_kernel(struct mt_dropout_mask_args a, struct random_keys keys, uint32_t below)
{
    int64_t words = a.mask.dim[1];
    for (int64_t i = cuda_thread(); i < a.mask.dim[0] * words; i += cuda_thread_count()) {
        int64_t row = i / words;
        int64_t first = (i - row * words) * 32; // column
        uint64_t element = (uint64_t)(row * a.width + first);
        uint32_t bits = 0;
        if (a.width % 32 == 0) {
#pragma unroll
            for (int block = 0; block < 8; block++) {
                uint4 drawn = cuda_random_block(keys, a.stream, element / 4 + (uint64_t)block);
                bits |= four_bits(drawn, below) << 4 * block;
            }
        } else {
            for (int j = 0; j < 32 && first + j < a.width; j++) {
                uint32_t word = cuda_random_word(a.seed, a.stream, element + (uint64_t)j);
                bits |= (uint32_t)(word >= below) << j;
            }
        }
        cuda_int_row(a.mask, row)[first / 32] = (int32_t)bits;
    }
}

enum mt_status mt_cuda_dropout_mask(struct mt_device *device, const void *args)
{
    const struct mt_dropout_mask_args *a = static_cast<const struct mt_dropout_mask_args *>(args);
    int64_t count = mt_tensor_count(&a->mask);
    if (count == 0) return MT_OK;
    uint32_t below = (uint32_t)std::ceil(a->amount * 0x1p24f) << 8;
    mask_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, random_keys_of(a->seed),
                                                                              below);
    return cuda_launched(device, "dropout_mask");
}
