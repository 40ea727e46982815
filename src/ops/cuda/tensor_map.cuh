/* Matrices described to the copy engine. */
#ifndef MT_OPS_CUDA_TENSOR_MAP_CUH
#define MT_OPS_CUDA_TENSOR_MAP_CUH

#include "ops/cuda/wgmma.cuh"

/* A bf16 tensor of up to three dimensions, innermost first, and the boxes it is read in. */
struct map_shape {
    const void *data;
    int dimensions;
    uint64_t size[3];
    uint64_t stride[2]; // bytes, of all but the innermost
    uint32_t box[3];    // WGMMA_LINE first
};

/* Boxes come permuted as wgmma.cuh says, with zeros beyond the tensor's ends. */
enum mt_status cuda_make_map(const struct mt_device *device, const struct map_shape *shape, CUtensorMap *map);

#endif
