/*
 * What the kernels of this folder share: typed element access, the stream, error conversion.
 */
#ifndef MT_OPS_CUDA_COMMON_CUH
#define MT_OPS_CUDA_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/cuda.h"

struct cuda_state {
    cudaStream_t stream;
    int multiprocessors;
};

static inline cudaStream_t cuda_stream(const struct mt_device *device)
{
    return static_cast<const struct cuda_state *>(device->state)->stream;
}

/* Turns a CUDA error into a status; `what` names the call. */
static inline enum mt_status cuda_status(const struct mt_device *device, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return MT_OK;
    enum mt_status status = error == cudaErrorMemoryAllocation ? MT_ERR_MEMORY : MT_ERR_INTERNAL;
    return mt_fail(device->ctx, status, "cuda: %s: %s", what, cudaGetErrorString(error));
}

/* The status of a kernel launch: bad launch parameters; what fails later is seen at the next synchronisation.
 */
static inline enum mt_status cuda_launched(const struct mt_device *device, const char *what)
{
    return cuda_status(device, cudaGetLastError(), what);
}

/*
 * Elements of any float type, read and written as float. The switch is uniform over a kernel, so it costs
 * a predictable branch; kernels that are bound by more than memory take the type as a template parameter.
 */
struct cuda_view {
    void *data;
    enum mt_dtype dtype;
    int64_t row; // elements between rows
};

static inline struct cuda_view cuda_view_of(const struct mt_tensor *tensor)
{
    struct cuda_view view = {tensor->data, tensor->dtype, tensor->rank >= 2 ? tensor->stride[0] : 0};
    return view;
}

__device__ static inline float cuda_load(const struct cuda_view &view, int64_t row, int64_t column)
{
    int64_t at = row * view.row + column;
    switch (view.dtype) {
    case MT_BF16: return __bfloat162float(static_cast<const __nv_bfloat16 *>(view.data)[at]);
    case MT_F16: return __half2float(static_cast<const __half *>(view.data)[at]);
    default: return static_cast<const float *>(view.data)[at];
    }
}

__device__ static inline void cuda_store(const struct cuda_view &view, int64_t row, int64_t column,
                                         float value)
{
    int64_t at = row * view.row + column;
    switch (view.dtype) {
    case MT_BF16: static_cast<__nv_bfloat16 *>(view.data)[at] = __float2bfloat16_rn(value); break;
    case MT_F16: static_cast<__half *>(view.data)[at] = __float2half_rn(value); break;
    default: static_cast<float *>(view.data)[at] = value; break;
    }
}

#endif
