/* Attention by Hopper's own instructions: what it takes, and maps for the copy engine. */
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/products/tensor_map.cuh"

#define MOST_ITEMS (1 << 30) // tiles and heads: their number has 32 bits

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
