/*
 * Products of few rows with bf16 weights on the tensor cores, as in decoding: reading the weights is all that
 * should take time, and it starts everywhere at once.
 *
 * A block makes some columns of y for up to 8 · TILES rows. Its warps share the steps, and their sums are
 * added up in shared memory in a fixed order. Weights are an instruction's left operand, rows of x the right
 * one. Both go from memory to registers without a detour: a lane reads 16 bytes wherever it needs four, and
 * which step, or column, the instruction takes for which does not matter as long as both operands agree.
 */
#ifndef MT_OPS_CUDA_THIN_CUH
#define MT_OPS_CUDA_THIN_CUH

#include "ops/cuda/common/mma.cuh"

/* 16 bytes of a weight, or zeros; nobody reads them again: the first cache is for the rows. */
__device__ static inline uint4 thin_weight(const __nv_bfloat16 *place, bool there)
{
    uint4 value = make_uint4(0, 0, 0, 0);
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %5, 0;\n"
                 "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)
                 : "l"(place), "r"((int)there));
    return value;
}

#define THIN_SHARED 8 // warps whose sums have room in shared memory

/* The warps' sums: of each warp, COUNT fragments of four numbers a lane. */
template <int COUNT> struct thin_sums {
    float value[THIN_SHARED][COUNT][4][32];
};

/* Adds to a warp's sums those of a warp THIN_SHARED further on. All threads call it. */
template <int COUNT>
__device__ static inline void thin_fold(struct thin_sums<COUNT> &all, float (&sums)[COUNT][4])
{
    int warp = (int)threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (warp >= THIN_SHARED) all.value[warp - THIN_SHARED][i][e][cuda_lane()] = sums[i][e];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (warp < THIN_SHARED) sums[i][e] += all.value[warp][i][e][cuda_lane()];
        }
    }
    __syncthreads();
}

/* Puts the sums of WARPS warps, 8 or 16, where everybody may read them. All threads call it. */
template <int WARPS, int COUNT>
__device__ static inline void thin_share(struct thin_sums<COUNT> &all, float (&sums)[COUNT][4])
{
    static_assert(WARPS == THIN_SHARED || WARPS == 2 * THIN_SHARED, "sums are folded once");
    int warp = (int)threadIdx.x / 32;
    if constexpr (WARPS > THIN_SHARED) thin_fold(all, sums);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (warp < THIN_SHARED) all.value[warp][i][e][cuda_lane()] = sums[i][e];
        }
    }
    __syncthreads();
}

/* One number's sum over the warps, in their order. */
template <int COUNT>
__device__ static inline float thin_sum(const struct thin_sums<COUNT> &all, int fragment, int element,
                                        int lane)
{
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < THIN_SHARED; warp++) sum += all.value[warp][fragment][element][lane];
    return sum;
}

/* Rows of x as both kernels read them: bf16, in parts of 16 bytes. */
static inline bool thin_reads(const struct mt_tensor *x)
{
    bool aligned = reinterpret_cast<uintptr_t>(x->data) % 16 == 0;
    for (int axis = 0; axis + 1 < x->rank; axis++)
        aligned = aligned && (x->dim[axis] == 1 || x->stride[axis] % 8 == 0);
    int64_t inner = x->dim[x->rank - 1];
    return x->dtype == MT_BF16 && aligned && inner > 0 && inner % 8 == 0;
}

#endif
