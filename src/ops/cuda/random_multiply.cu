/*
 * random_multiply: y = x m or y += x m, m an f32 made from the element's own random word, the same as ref's.
 * Four neighbouring elements share one block of random words.
 */
#include "ops/cuda/philox.cuh"
#include "ops/cuda/wide.cuh"

/* `kept` is 1/(1 - amount): what dropout leaves of 1. */
__device__ static inline float multiplier(const struct mt_random_multiply_args &a, float kept, uint32_t word)
{
    float unit = cuda_random_unit(word);
    if (a.kind == MT_RANDOM_JITTER) return fmaf(a.amount, 2.0f * unit - 1.0f, 1.0f);
    return unit < a.amount ? 0.0f : kept;
}

__global__ static void multiply_kernel(struct mt_random_multiply_args a, float kept)
{
    int64_t column = cuda_thread();
    int64_t width = a.x.dim[1];
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        uint32_t word = cuda_random_word(a.seed, a.stream, (uint64_t)(row * width + column));
        float m = multiplier(a, kept, word);
        double product = cuda_get2(a.x, row, column) * (double)m;
        if (a.accumulate) {
            if (a.y.dtype == MT_F32) product = (double)(float)product;
            product += cuda_get2(a.y, row, column);
        }
        cuda_put2(a.y, row, column, product);
    }
}

/* The multipliers of the four elements of a block of words. */
__device__ static inline void four_multipliers(const struct mt_random_multiply_args &a, float kept,
                                               uint64_t block, float *m)
{
    uint4 words = cuda_random_block(a.seed, a.stream, block);
    m[0] = multiplier(a, kept, words.x);
    m[1] = multiplier(a, kept, words.y);
    m[2] = multiplier(a, kept, words.z);
    m[3] = multiplier(a, kept, words.w);
}

__global__ static void wide_kernel(struct mt_random_multiply_args a, float kept, struct wide_shape shape)
{
    for (int64_t i = cuda_thread(); i < shape.rows * shape.eights; i += cuda_thread_count()) {
        struct wide_place place = wide_place_at(shape, i);
        float x[CUDA_WIDE];
        float y[CUDA_WIDE];
        float m[CUDA_WIDE];
        wide_load2(a.x, place, x);
        if (a.accumulate) wide_load2(a.y, place, y);
        // Element row·d + column is the 8i-th, whether or not there are gaps between rows.
        four_multipliers(a, kept, 2 * (uint64_t)i, m);
        four_multipliers(a, kept, 2 * (uint64_t)i + 1, m + 4);
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) {
            float product = __fmul_rn(x[j], m[j]);
            y[j] = a.accumulate ? __fadd_rn(y[j], product) : product;
        }
        wide_store2(a.y, place, y);
    }
}

enum mt_status mt_cuda_random_multiply(struct mt_device *device, const void *args)
{
    const struct mt_random_multiply_args *a = static_cast<const struct mt_random_multiply_args *>(args);
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    float kept = 1.0f / (1.0f - a->amount);
    if (cuda_is_wide(&a->x) && cuda_is_wide(&a->y)) {
        bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
        struct wide_shape shape = wide_shape_of(&a->y, flat);
        unsigned blocks = cuda_blocks(shape.rows * shape.eights);
        wide_kernel<<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(*a, kept, shape);
    } else {
        multiply_kernel<<<cuda_grid(a->x.dim[0], a->x.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a,
                                                                                                       kept);
    }
    return cuda_launched(device, "random_multiply");
}
