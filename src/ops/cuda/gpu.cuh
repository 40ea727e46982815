/* The GPU behind the device: whether there is one, and what it says when its memory is full. */
#ifndef MT_OPS_CUDA_GPU_CUH
#define MT_OPS_CUDA_GPU_CUH

#include "ops/cuda/common.cuh"

/* The first GPU's properties; a sentence where none can be used. */
enum mt_status cuda_find_gpu(const struct mt_device *device, cudaDeviceProp *properties);

/* After an allocation of so many bytes failed: the sentence that says so. */
enum mt_status cuda_refuse_bytes(const struct mt_device *device, size_t bytes);

#endif
