/*
 * random_multiply: y = x m or y += x m, m an f32 made from the element's own random number, the same as
 * ref's. Eight neighbouring elements of dropout, four of jitter, share one block of random words. Drawing
 * costs more than memory does, so the wide kernel spares what it can: keys and kinds are constants, and
 * dropout compares halves of words, not numbers made of them.
 */
#include "ops/cuda/philox.cuh"
#include "ops/cuda/wide.cuh"
#include "ops/dropout.h"

/* A call's own constants. */
struct multiplier {
    struct random_keys keys;
    uint32_t threshold; // dropout: halves under it give 0
    float kept;         // dropout: what the others give
    float amount;       // jitter
};

static struct multiplier multiplier_of(const struct mt_random_multiply_args *a)
{
    struct multiplier m = {};
    m.keys = random_keys_of(a->seed);
    m.threshold = mt_dropout_threshold(a->amount);
    m.kept = 1.0f / (1.0f - a->amount);
    m.amount = a->amount;
    return m;
}

/* What an element is multiplied by: of a half for dropout, of a word for jitter. */
template <bool DROPOUT> __device__ static inline float factor(const struct multiplier &m, uint32_t drawn)
{
    if (DROPOUT) return drawn < m.threshold ? 0.0f : m.kept;
    return fmaf(m.amount, 2.0f * cuda_random_unit(drawn) - 1.0f, 1.0f);
}

template <bool DROPOUT>
__global__ static void multiply_kernel(struct mt_random_multiply_args a, struct multiplier m)
{
    int64_t column = cuda_thread();
    int64_t width = a.x.dim[1];
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        uint64_t element = (uint64_t)(row * width + column);
        uint32_t drawn = DROPOUT ? cuda_random_half(a.seed, a.stream, element)
                                 : cuda_random_word(a.seed, a.stream, element);
        double product = cuda_get2(a.x, row, column) * (double)factor<DROPOUT>(m, drawn);
        if (a.accumulate) {
            if (a.y.dtype == MT_F32) product = (double)(float)product;
            product += cuda_get2(a.y, row, column);
        }
        cuda_put2(a.y, row, column, product);
    }
}

/* What the eight elements from 8i on draw. */
template <bool DROPOUT>
__device__ static inline void draw_eight(const struct multiplier &m, uint64_t stream, uint64_t i,
                                         uint32_t (&drawn)[CUDA_WIDE])
{
    uint4 first = cuda_random_block(m.keys, stream, DROPOUT ? i : 2 * i);
    const uint32_t word[4] = {first.x, first.y, first.z, first.w};
    if (DROPOUT) {
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) drawn[j] = j % 2 == 0 ? word[j / 2] & 0xffffu : word[j / 2] >> 16;
        return;
    }
    uint4 second = cuda_random_block(m.keys, stream, 2 * i + 1);
    const uint32_t later[4] = {second.x, second.y, second.z, second.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        drawn[j] = word[j];
        drawn[j + 4] = later[j];
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
        uint32_t drawn[CUDA_WIDE];
        wide_load2(a.x, place, x);
        if (ACCUMULATE) wide_load2(a.y, place, y);
        // Element row·d + column is the 8i-th, whether or not there are gaps between rows.
        draw_eight<DROPOUT>(m, a.stream, (uint64_t)i, drawn);
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) {
            float product = __fmul_rn(x[j], factor<DROPOUT>(m, drawn[j]));
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
