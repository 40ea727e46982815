/*
 * Eight neighbouring elements at a time: 16 bytes of bf16, or twice 16 of f32, in one or two loads. Kernels
 * that memory bounds use it wherever all their operands allow (cuda_is_wide); the others keep to single
 * elements.
 */
#ifndef MT_OPS_CUDA_WIDE_CUH
#define MT_OPS_CUDA_WIDE_CUH

#include "ops/cuda/common/common.cuh"

#define CUDA_WIDE 8 // elements

/* True for f32 and bf16 of any rank whose every row can be read in aligned eights; for absent tensors, too.
 */
static inline bool cuda_is_wide(const struct mt_tensor *t)
{
    if (!mt_tensor_present(t)) return true;
    bool known = t->dtype == MT_F32 || t->dtype == MT_BF16;
    if (!known || t->dim[t->rank - 1] % CUDA_WIDE != 0) return false;
    for (int axis = 0; axis + 1 < t->rank; axis++) {
        if (t->dim[axis] > 1 && t->stride[axis] % CUDA_WIDE != 0) return false;
    }
    return reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
}

__device__ static inline void wide_load(const void *data, enum mt_dtype dtype, int64_t at,
                                        float (&value)[CUDA_WIDE])
{
    if (dtype == MT_BF16) {
        const __nv_bfloat16 *source = static_cast<const __nv_bfloat16 *>(data) + at;
        uint4 raw = *reinterpret_cast<const uint4 *>(source);
        const unsigned pair[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            value[2 * i] = __uint_as_float(pair[i] << 16); // bf16 is the upper half of an f32
            value[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
        }
        return;
    }
    const float4 *source = reinterpret_cast<const float4 *>(static_cast<const float *>(data) + at);
    float4 low = source[0];
    float4 high = source[1];
    value[0] = low.x;
    value[1] = low.y;
    value[2] = low.z;
    value[3] = low.w;
    value[4] = high.x;
    value[5] = high.y;
    value[6] = high.z;
    value[7] = high.w;
}

__device__ static inline unsigned wide_pair(float low, float high)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<unsigned *>(&both);
}

__device__ static inline void wide_store(void *data, enum mt_dtype dtype, int64_t at,
                                         const float (&value)[CUDA_WIDE])
{
    if (dtype == MT_BF16) {
        uint4 *target = reinterpret_cast<uint4 *>(static_cast<__nv_bfloat16 *>(data) + at);
        *target = make_uint4(wide_pair(value[0], value[1]), wide_pair(value[2], value[3]),
                             wide_pair(value[4], value[5]), wide_pair(value[6], value[7]));
        return;
    }
    float4 *target = reinterpret_cast<float4 *>(static_cast<float *>(data) + at);
    target[0] = make_float4(value[0], value[1], value[2], value[3]);
    target[1] = make_float4(value[4], value[5], value[6], value[7]);
}

/* What a value becomes by being stored. */
__device__ static inline void wide_round(enum mt_dtype dtype, float (&value)[CUDA_WIDE])
{
    if (dtype != MT_BF16) return;
#pragma unroll
    for (int i = 0; i < CUDA_WIDE; i++) value[i] = __bfloat162float(__float2bfloat16_rn(value[i]));
}

/* A matrix walked in eights: as one long row where every operand is without gaps. */
struct wide_shape {
    int64_t rows;
    int64_t eights; // of a row
};

static inline struct wide_shape wide_shape_of(const struct mt_tensor *t, bool flat)
{
    struct wide_shape shape = {t->dim[0], t->dim[1] / CUDA_WIDE};
    if (flat) shape = {1, mt_tensor_count(t) / CUDA_WIDE};
    return shape;
}

/* Where eight number `i` lies. */
struct wide_place {
    int64_t row, column;
};

__device__ static inline struct wide_place wide_place_at(const struct wide_shape &shape, int64_t i)
{
    if (shape.rows == 1) return {0, i * CUDA_WIDE}; // spares the division
    int64_t row = i / shape.eights;
    return {row, (i - row * shape.eights) * CUDA_WIDE};
}

__device__ static inline void wide_load2(const struct mt_tensor &t, const struct wide_place &place,
                                         float (&value)[CUDA_WIDE])
{
    wide_load(t.data, t.dtype, place.row * t.stride[0] + place.column, value);
}

__device__ static inline void wide_store2(const struct mt_tensor &t, const struct wide_place &place,
                                          const float (&value)[CUDA_WIDE])
{
    wide_store(t.data, t.dtype, place.row * t.stride[0] + place.column, value);
}

/* Threads of a block that takes one row of `width` elements: an eight each, full warps, at most CUDA_THREADS.
 */
static inline unsigned wide_row_threads(int64_t width)
{
    int64_t threads = (width / CUDA_WIDE + 31) / 32 * 32;
    return (unsigned)(threads < CUDA_THREADS ? threads : CUDA_THREADS);
}

/*
 * The sums over the block of COUNT floats, in every thread; a fixed tree. `partial` is shared memory, of
 * COUNT · CUDA_WARPS floats. All threads must call it.
 */
template <int COUNT> __device__ static inline void wide_block_sums(float (&value)[COUNT], float *partial)
{
    int warps = (int)blockDim.x / 32;
    __syncthreads(); // a previous sum may still be read
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        for (int offset = 16; offset > 0; offset /= 2) {
            value[i] += __shfl_xor_sync(CUDA_EVERY, value[i], offset);
        }
        if (cuda_lane() == 0) partial[i * CUDA_WARPS + (int)threadIdx.x / 32] = value[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        value[i] = 0.0f;
        for (int warp = 0; warp < warps; warp++) value[i] += partial[i * CUDA_WARPS + warp];
    }
}

/* One step of wide_warp_sums: HALF numbers are handed on, and as many added up. */
template <int HALF> __device__ static inline void wide_hand_on(float (&value)[32], int lane)
{
    bool upper = (lane & HALF) != 0;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float given = upper ? value[i] : value[i + HALF];
        float own = upper ? value[i + HALF] : value[i];
        value[i] = own + __shfl_xor_sync(CUDA_EVERY, given, HALF);
    }
    if constexpr (HALF > 1) wide_hand_on<HALF / 2>(value, lane);
}

/*
 * The sums over the warp of 32 floats of each lane: lane l gets that of number l. 31 exchanges instead of
 * 160, in a fixed tree.
 */
__device__ static inline float wide_warp_sums(float (&value)[32])
{
    wide_hand_on<16>(value, cuda_lane());
    return value[0];
}

#endif
