/*
 * random_multiply: y = x m or y += x m, m an f32 made from the element's own random word, the same as ref's.
 * Four neighbouring elements share one block of random words. Drawing costs more than memory does, so the
 * wide kernel spares what it can: keys and kinds are constants, and dropout compares words, not numbers made
 * of them.
 */
#include <cmath>

#include "ops/cuda/philox.cuh"
#include "ops/cuda/wide.cuh"

/* A call's own constants. */
struct multiplier {
    struct random_keys keys;
    uint32_t below; // dropout: words under it give 0
    float kept;     // dropout: what the others give
    float amount;   // jitter
};

/*
 * u < amount, without making u: u is word >> 8 in units of 2^-24, so it is below amount exactly when word >>
 * 8 is below amount · 2^24 rounded up, which is exact and less than 2^24.
 */
static struct multiplier multiplier_of(const struct mt_random_multiply_args *a)
{
    struct multiplier m = {};
    m.keys = random_keys_of(a->seed);
    m.below = (uint32_t)std::ceil(a->amount * 0x1p24f) << 8;
    m.kept = 1.0f / (1.0f - a->amount);
    m.amount = a->amount;
    return m;
}

template <bool DROPOUT> __device__ static inline float factor(const struct multiplier &m, uint32_t word)
{
    if (DROPOUT) return word < m.below ? 0.0f : m.kept;
    return fmaf(m.amount, 2.0f * cuda_random_unit(word) - 1.0f, 1.0f);
}

template <bool DROPOUT>
__global__ static void multiply_kernel(struct mt_random_multiply_args a, struct multiplier m)
{
    int64_t column = cuda_thread();
    int64_t width = a.x.dim[1];
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        uint32_t word = cuda_random_word(a.seed, a.stream, (uint64_t)(row * width + column));
        double product = cuda_get2(a.x, row, column) * (double)factor<DROPOUT>(m, word);
        if (a.accumulate) {
            if (a.y.dtype == MT_F32) product = (double)(float)product;
            product += cuda_get2(a.y, row, column);
        }
        cuda_put2(a.y, row, column, product);
    }
}

template <bool DROPOUT, bool ACCUMULATE>
__global__ static void wide_kernel(struct mt_random_multiply_args a, struct multiplier m,
                                   struct wide_shape shape)
{
    for (int64_t i = cuda_thread(); i < shape.rows * shape.eights; i += cuda_thread_count()) {
        struct wide_place place = wide_place_at(shape, i);
        float x[CUDA_WIDE];
        float y[CUDA_WIDE];
        wide_load2(a.x, place, x);
        if (ACCUMULATE) wide_load2(a.y, place, y);
        // Element row·d + column is the 8i-th, whether or not there are gaps between rows.
        uint4 low = cuda_random_block(m.keys, a.stream, 2 * (uint64_t)i);
        uint4 high = cuda_random_block(m.keys, a.stream, 2 * (uint64_t)i + 1);
        const uint32_t word[CUDA_WIDE] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) {
            float product = __fmul_rn(x[j], factor<DROPOUT>(m, word[j]));
            y[j] = ACCUMULATE ? __fadd_rn(y[j], product) : product;
        }
        wide_store2(a.y, place, y);
    }
}

template <bool DROPOUT>
static void launch(cudaStream_t stream, const struct mt_random_multiply_args &a, const struct multiplier &m)
{
    if (!cuda_is_wide(&a.x) || !cuda_is_wide(&a.y)) {
        multiply_kernel<DROPOUT><<<cuda_grid(a.x.dim[0], a.x.dim[1]), CUDA_THREADS, 0, stream>>>(a, m);
        return;
    }
    bool flat = mt_tensor_is_contiguous(&a.x) && mt_tensor_is_contiguous(&a.y);
    struct wide_shape shape = wide_shape_of(&a.y, flat);
    unsigned blocks = cuda_blocks(shape.rows * shape.eights);
    if (a.accumulate) {
        wide_kernel<DROPOUT, true><<<blocks, CUDA_THREADS, 0, stream>>>(a, m, shape);
    } else {
        wide_kernel<DROPOUT, false><<<blocks, CUDA_THREADS, 0, stream>>>(a, m, shape);
    }
}

enum mt_status mt_cuda_random_multiply(struct mt_device *device, const void *args)
{
    const struct mt_random_multiply_args *a = static_cast<const struct mt_random_multiply_args *>(args);
    struct multiplier m = multiplier_of(a);
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    if (a->kind == MT_RANDOM_DROPOUT) {
        launch<true>(cuda_stream(device), *a, m);
    } else {
        launch<false>(cuda_stream(device), *a, m);
    }
    return cuda_launched(device, "random_multiply");
}
