/* Attention by Hopper's own instructions: what it takes, and maps for the copy engine. */
#include <cudaTypedefs.h>

#include "ops/cuda/attention_hopper.cuh"

#define MOST_ITEMS (1 << 30) // tiles and heads: their number has 32 bits

static enum mt_status find_encoder(const struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaDriverEntryPointQueryResult found;
    if (state->encode_map != NULL) return MT_OK;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &state->encode_map, 12000,
                                                         cudaEnableDefault, &found);
    return cuda_status(device, error, "finding cuTensorMapEncodeTiled");
}

enum mt_status cuda_map_heads(const struct mt_device *device, const struct mt_tensor *t, int rows,
                              CUtensorMap *map)
{
    enum mt_status status = find_encoder(device);
    if (status != MT_OK) return status;
    PFN_cuTensorMapEncodeTiled_v12000 encode =
        reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(cuda_state_of(device)->encode_map);
    cuuint64_t sizes[3] = {(cuuint64_t)t->dim[2], (cuuint64_t)t->dim[1], (cuuint64_t)t->dim[0]};
    cuuint64_t strides[2] = {(cuuint64_t)t->stride[1] * 2, (cuuint64_t)t->stride[0] * 2};
    cuuint32_t box[3] = {WGMMA_LINE, 1, (cuuint32_t)rows};
    cuuint32_t each[3] = {1, 1, 1};
    CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, t->data, sizes, strides, box, each,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_INTERNAL, "cuda: describing heads to the copy engine: error %d",
                   (int)result);
}

/* Whether the copy engine can read heads of this tensor. */
static bool is_readable(const struct mt_tensor *t)
{
    return t->dtype == MT_BF16 && t->dim[0] > 0 && t->dim[1] > 0 && t->dim[2] > 0 && t->stride[0] % 8 == 0 &&
           t->stride[1] % 8 == 0 && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
}

static bool fits(const struct mt_device *device, const struct mt_tensor *q, const struct mt_tensor *k,
                 const struct mt_tensor *v, float scale)
{
    // The highest score is looked for before scaling.
    return cuda_state_of(device)->hopper && is_readable(q) && is_readable(k) && is_readable(v) &&
           scale > 0.0f && (q->dim[0] + k->dim[0]) * q->dim[1] < MOST_ITEMS;
}

bool cuda_attention_hopper_fits(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    // Rows between the stretches of a cache may hold anything, and would be multiplied by weights of 0.
    return fits(device, &a->q, &a->k, &a->v, a->scale) && !mt_tensor_present(&a->k_starts);
}

bool cuda_attention_backward_hopper_fits(const struct mt_device *device,
                                         const struct mt_attention_backward_args *a)
{
    return fits(device, &a->q, &a->k, &a->v, a->scale) && is_readable(&a->dout) && a->out.dtype == MT_BF16 &&
           is_readable(&a->out) && a->lse.dtype == MT_F32;
}
