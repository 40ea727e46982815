/* Matrices described to the copy engine, by a function of the driver that is looked up once. */
#include "ops/cuda/products/tensor_map.cuh"

#include <cudaTypedefs.h>

static enum mt_status find_encoder(const struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaDriverEntryPointQueryResult found;
    if (state->encode_map != NULL) return MT_OK;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &state->encode_map, 12000,
                                                         cudaEnableDefault, &found);
    return cuda_status(device, error, "finding cuTensorMapEncodeTiled");
}

enum mt_status cuda_make_map(const struct mt_device *device, const struct map_shape *shape, CUtensorMap *map)
{
    enum mt_status status = find_encoder(device);
    if (status != MT_OK) return status;
    PFN_cuTensorMapEncodeTiled_v12000 encode =
        reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(cuda_state_of(device)->encode_map);
    cuuint64_t size[3] = {shape->size[0], shape->size[1], shape->size[2]};
    cuuint64_t stride[2] = {shape->stride[0], shape->stride[1]};
    cuuint32_t box[3] = {shape->box[0], shape->box[1], shape->box[2]};
    cuuint32_t each[3] = {1, 1, 1};
    bool words = shape->words;
    CUtensorMapL2promotion fetched = words         ? CU_TENSOR_MAP_L2_PROMOTION_L2_64B
                                     : shape->once ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                                   : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    CUresult result =
        encode(map, words ? CU_TENSOR_MAP_DATA_TYPE_INT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
               (cuuint32_t)shape->dimensions, const_cast<void *>(shape->data), size, stride, box, each,
               CU_TENSOR_MAP_INTERLEAVE_NONE, words ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
               fetched, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_INTERNAL, "cuda: describing a matrix to the copy engine: error %d",
                   (int)result);
}

enum mt_status cuda_map_heads(const struct mt_device *device, const struct mt_tensor *t, int rows,
                              CUtensorMap *map)
{
    struct map_shape shape = {};
    shape.data = t->data;
    shape.dimensions = 3;
    for (int i = 0; i < 3; i++) shape.size[i] = (uint64_t)t->dim[2 - i];
    shape.stride[0] = (uint64_t)t->stride[1] * 2;
    shape.stride[1] = (uint64_t)t->stride[0] * 2;
    shape.box[0] = WGMMA_LINE;
    shape.box[1] = 1;
    shape.box[2] = (uint32_t)rows;
    return cuda_make_map(device, &shape, map);
}
