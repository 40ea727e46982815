/* Sums and maxima over a warp or a block. The trees are fixed: the same bits every time. */
#ifndef MT_OPS_CUDA_SUMS_CUH
#define MT_OPS_CUDA_SUMS_CUH

#include "ops/cuda/common/common.cuh"

/* The sum over the warp, in every lane. */
__device__ static inline double warp_sum(double value)
{
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(CUDA_EVERY, value, offset);
    return value;
}

/* The maximum over the warp, in every lane; numbers win over NaN, as with fmax. */
__device__ static inline double warp_max(double value)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        value = fmax(value, __shfl_xor_sync(CUDA_EVERY, value, offset));
    }
    return value;
}

/* The sum over a block of CUDA_THREADS, in every thread. All threads must call it. */
__device__ static inline double block_sum(double value)
{
    __shared__ double partial[CUDA_WARPS];
    value = warp_sum(value);
    __syncthreads(); // a previous sum may still be read
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    double total = 0.0;
    for (int i = 0; i < CUDA_WARPS; i++) total += partial[i];
    return total;
}

/* The maximum over a block of CUDA_THREADS, in every thread. All threads must call it. */
__device__ static inline double block_max(double value)
{
    __shared__ double partial[CUDA_WARPS];
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    double highest = partial[0];
    for (int i = 1; i < CUDA_WARPS; i++) highest = fmax(highest, partial[i]);
    return highest;
}

#endif
