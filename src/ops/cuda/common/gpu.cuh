/* The GPU behind the device: whether there is one, and what it says when its memory is full. */
#ifndef MT_OPS_CUDA_GPU_CUH
#define MT_OPS_CUDA_GPU_CUH

#include "ops/cuda/common/common.cuh"

/* The first GPU's properties; a sentence where none can be used. */
enum mt_status cuda_find_gpu(const struct mt_device *device, cudaDeviceProp *properties);

/* Free and total memory of the GPU, and what a context of ours takes of it. */
void cuda_memory_room(struct mt_device *device, struct mt_memory_room *room);

/* After an allocation of so many bytes failed: the sentence that says so. */
enum mt_status cuda_refuse_bytes(const struct mt_device *device, size_t bytes);

#endif
