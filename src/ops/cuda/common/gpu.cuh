/* The GPU behind the device: whether there is one, and what it says when its memory is full. */
#ifndef MT_OPS_CUDA_GPU_CUH
#define MT_OPS_CUDA_GPU_CUH

#include "ops/cuda/common/common.cuh"

/*
 * What kernels are chosen by: the properties of this process's GPU; a sentence where it cannot be used.
 *
 * METIER_CUDA_LEVEL=86 (80, 89, 120) makes it pass for a card of that compute capability: the properties then
 * have that card's shared memory, if it is less, and no kernel of Hopper's own is chosen. The module may have
 * been built for that card's instructions (CMake's 86-virtual), which the driver translates.
 */
struct cuda_gpu {
    cudaDeviceProp properties;
    bool poses;
    bool hopper; // Hopper's own instructions are there, and were built in
};
enum mt_status cuda_find_gpu(const struct mt_device *device, struct cuda_gpu *gpu);

/* Free and total memory of the GPU, and what a context of ours takes of it. */
void cuda_memory_room(struct mt_device *device, struct mt_memory_room *room);

/* After an allocation of so many bytes failed: the sentence that says so. */
enum mt_status cuda_refuse_bytes(const struct mt_device *device, size_t bytes);

#endif
