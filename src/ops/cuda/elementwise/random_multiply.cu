/*
 * random_multiply: y = x m or y += x m, m an f32 made from the element's own random number, the same as
 * ref's. Dropout: a warp draws 32 mask words, one a lane, and hands them round while it multiplies their
 * elements. Jitter: four neighbouring elements share one block of random words.
 */
#include "ops/cuda/common/wide.cuh"
#include "ops/cuda/elementwise/mask_draw.cuh"

/* Element (row, column) times `factor` into y, in double, rounded as ref does it. */
__device__ static inline void multiply_single(const struct mt_random_multiply_args &a, int64_t row,
                                              int64_t column, float factor)
{
    double product = cuda_get2(a.x, row, column) * (double)factor;
    if (a.accumulate) {
        if (a.y.dtype == MT_F32) product = (double)(float)product;
        product += cuda_get2(a.y, row, column);
    }
    cuda_put2(a.y, row, column, product);
}

/* Eight elements times factors into y. */
template <bool ACCUMULATE>
__device__ static inline void multiply_eight(const struct mt_random_multiply_args &a,
                                             const struct wide_place &place, const float (&factor)[CUDA_WIDE])
{
    float x[CUDA_WIDE];
    float y[CUDA_WIDE];
    wide_load2(a.x, place, x);
    if (ACCUMULATE) wide_load2(a.y, place, y);
#pragma unroll
    for (int j = 0; j < CUDA_WIDE; j++) {
        float product = __fmul_rn(x[j], factor[j]);
        y[j] = ACCUMULATE ? __fadd_rn(y[j], product) : product;
    }
    wide_store2(a.y, place, y);
}

// ------------------------------------------------------------------ dropout

/* Rows of any width and type: a lane has one column of each word. */
__global__ static void drop_kernel(struct mt_random_multiply_args a, struct mask_draw draw, float kept)
{
    int64_t width = a.x.dim[1];
    int64_t row_words = (width + MT_MASK_BITS - 1) / MT_MASK_BITS;
    int64_t total = a.x.dim[0] * row_words;
    int64_t step = (int64_t)gridDim.x * CUDA_WARPS * 32;
    for (int64_t first = cuda_warp() * 32; first < total; first += step) {
        uint32_t own = mask_word_kept(draw, (uint64_t)(first + cuda_lane()));
        for (int i = 0; i < 32 && first + i < total; i++) {
            uint32_t word = __shfl_sync(CUDA_EVERY, own, i);
            int64_t row = (first + i) / row_words;
            int64_t column = (first + i - row * row_words) * MT_MASK_BITS + cuda_lane();
            float factor = (word >> cuda_lane() & 1u) != 0 ? kept : 0.0f;
            if (column < width) multiply_single(a, row, column, factor);
        }
    }
}

/* Rows of whole words: a lane has a quarter of a word's elements, and the next of the eighth word after. */
template <bool ACCUMULATE>
__global__ static void wide_drop_kernel(struct mt_random_multiply_args a, struct mask_draw draw, float kept,
                                        struct wide_shape shape)
{
    const int quarters = MT_MASK_BITS / CUDA_WIDE;
    int64_t total = shape.rows * shape.eights;
    int64_t step = (int64_t)gridDim.x * CUDA_WARPS * 32;
    for (int64_t first = cuda_warp() * 32; first < total / quarters; first += step) {
        uint32_t own = mask_word_kept(draw, (uint64_t)(first + cuda_lane()));
#pragma unroll
        for (int i = 0; i < quarters; i++) {
            int quarter = i * 32 + cuda_lane();
            uint32_t bits =
                __shfl_sync(CUDA_EVERY, own, quarter / quarters) >> quarter % quarters * CUDA_WIDE;
            float factor[CUDA_WIDE];
#pragma unroll
            for (int j = 0; j < CUDA_WIDE; j++) factor[j] = (bits >> j & 1u) != 0 ? kept : 0.0f;
            int64_t eight = first * quarters + quarter;
            if (eight < total) multiply_eight<ACCUMULATE>(a, wide_place_at(shape, eight), factor);
        }
    }
}

// ------------------------------------------------------------------ jitter

__device__ static inline float jitter_factor(float amount, uint32_t word)
{
    return fmaf(amount, 2.0f * cuda_random_unit(word) - 1.0f, 1.0f);
}

__global__ static void jitter_kernel(struct mt_random_multiply_args a)
{
    int64_t column = cuda_thread();
    int64_t width = a.x.dim[1];
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        uint32_t word = cuda_random_word(a.seed, a.stream, (uint64_t)(row * width + column));
        multiply_single(a, row, column, jitter_factor(a.amount, word));
    }
}

/* Drawing costs more than memory does, so the keys are constants. */
template <bool ACCUMULATE>
__global__ static void wide_jitter_kernel(struct mt_random_multiply_args a, struct random_keys keys,
                                          struct wide_shape shape)
{
    for (int64_t i = cuda_thread(); i < shape.rows * shape.eights; i += cuda_thread_count()) {
        // Element row·d + column is the 8i-th, whether or not there are gaps between rows.
        uint4 first = cuda_random_block(keys, a.stream, (uint64_t)(2 * i));
        uint4 second = cuda_random_block(keys, a.stream, (uint64_t)(2 * i + 1));
        const uint32_t word[CUDA_WIDE] = {first.x,  first.y,  first.z,  first.w,
                                          second.x, second.y, second.z, second.w};
        float factor[CUDA_WIDE];
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) factor[j] = jitter_factor(a.amount, word[j]);
        multiply_eight<ACCUMULATE>(a, wide_place_at(shape, i), factor);
    }
}

// ------------------------------------------------------------------ the op

/* Rows that can be taken in eights, as one long row where they are without gaps. */
static void launch_wide(cudaStream_t stream, const struct mt_random_multiply_args &a,
                        const struct mask_draw &draw, float kept)
{
    bool flat = mt_tensor_is_contiguous(&a.x) && mt_tensor_is_contiguous(&a.y);
    struct wide_shape shape = wide_shape_of(&a.y, flat);
    unsigned blocks = cuda_blocks(shape.rows * shape.eights);
    unsigned drops = cuda_blocks(shape.rows * shape.eights / (MT_MASK_BITS / CUDA_WIDE));
    if (a.kind == MT_RANDOM_DROPOUT && a.accumulate) {
        wide_drop_kernel<true><<<drops, CUDA_THREADS, 0, stream>>>(a, draw, kept, shape);
    } else if (a.kind == MT_RANDOM_DROPOUT) {
        wide_drop_kernel<false><<<drops, CUDA_THREADS, 0, stream>>>(a, draw, kept, shape);
    } else if (a.accumulate) {
        wide_jitter_kernel<true><<<blocks, CUDA_THREADS, 0, stream>>>(a, draw.keys, shape);
    } else {
        wide_jitter_kernel<false><<<blocks, CUDA_THREADS, 0, stream>>>(a, draw.keys, shape);
    }
}

enum mt_status mt_cuda_random_multiply(struct mt_device *device, const struct mt_random_multiply_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    int64_t rows = a->x.dim[0];
    int64_t width = a->x.dim[1];
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    struct mask_draw draw = mask_draw_of(a->amount, a->seed, a->stream);
    float kept = 1.0f / (1.0f - a->amount);
    bool wide = cuda_is_wide(&a->x) && cuda_is_wide(&a->y);
    if (a->kind == MT_RANDOM_DROPOUT && width % MT_MASK_BITS != 0) wide = false;
    if (wide) {
        launch_wide(stream, *a, draw, kept);
    } else if (a->kind == MT_RANDOM_DROPOUT) {
        drop_kernel<<<cuda_blocks(rows * mt_mask_words(width)), CUDA_THREADS, 0, stream>>>(*a, draw, kept);
    } else {
        jitter_kernel<<<cuda_grid(rows, width), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "random_multiply");
}
