/* Matrices described to the copy engine. */
#ifndef MT_OPS_CUDA_TENSOR_MAP_CUH
#define MT_OPS_CUDA_TENSOR_MAP_CUH

#include "ops/cuda/common/wgmma.cuh"

/* A tensor of bf16 or of words, of up to three dimensions, innermost first, and the boxes it is read in. */
struct map_shape {
    const void *data;
    int dimensions;
    uint64_t size[3];
    uint64_t stride[2]; // bytes, of all but the innermost
    uint32_t box[3];    // of bf16 WGMMA_LINE first
    bool words;         // of 32 bits, not bf16
    bool once;          // read once, as a whole: the cache need not fetch more than is asked for
};

/* Boxes of bf16 come permuted as wgmma.cuh says, those of words as they are; zeros beyond the tensor's ends.
 */
enum mt_status cuda_make_map(const struct mt_device *device, const struct map_shape *shape, CUtensorMap *map);

/* Boxes of `rows` rows and WGMMA_LINE columns of one head of [T,H,D]; zeros beyond its ends. */
enum mt_status cuda_map_heads(const struct mt_device *device, const struct mt_tensor *t, int rows,
                              CUtensorMap *map);

#endif
