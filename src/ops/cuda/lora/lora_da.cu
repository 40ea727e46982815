/*
 * lora_da: one kernel for all maps on Hopper (lora_da_hopper.cu). Else a thin gradient for every map, which
 * takes the mask as it reads x (grouped_tiles.cu) where it can, or what the mask keeps of x is made once, in
 * scratch, for all maps that need it.
 */
#include "ops/cuda/elementwise/mask.cuh"
#include "ops/cuda/lora/lora.cuh"
#include "ops/cuda/products/grouped.cuh"

/* Map i as a gradient, its mask left out but for the scale. */
static struct mt_grouped_gemm_dw_args gradient_of(const struct mt_lora_da_args *l, int i)
{
    struct mt_grouped_gemm_dw_args gradient = {};
    gradient.dy = l->dlow[i];
    gradient.x = l->x;
    gradient.dweight = l->da[i];
    gradient.experts = l->experts;
    gradient.offsets = l->offsets;
    gradient.alpha = mt_tensor_present(&l->mask) ? l->mask_scale : 1.0f;
    gradient.beta = 1.0f;
    return gradient;
}

/* Scratch: what the gradients need themselves, then what the mask keeps of x. */
struct pieces {
    size_t gradient, x; // bytes
};

static struct pieces pieces_of(const struct mt_device *device, const struct mt_lora_da_args *l)
{
    struct pieces pieces = {};
    for (int i = 0; i < l->maps; i++) {
        struct mt_grouped_gemm_dw_args gradient = gradient_of(l, i);
        if (mt_tensor_present(&l->mask) && !cuda_dw_by_tiles(device, &gradient)) {
            pieces.x = cuda_masked_bytes(&l->x);
            gradient.x = mt_tensor_2d(NULL, l->x.dtype, l->x.dim[0], l->x.dim[1]);
        }
        size_t bytes = mt_cuda_grouped_gemm_dw_scratch(device, &gradient);
        if (bytes > pieces.gradient) pieces.gradient = bytes;
    }
    pieces.gradient = (pieces.gradient + 255) / 256 * 256;
    return pieces;
}

size_t mt_cuda_lora_da_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_lora_da_args *l = static_cast<const struct mt_lora_da_args *>(args);
    if (cuda_lora_da_fits(device, l)) return cuda_lora_da_bytes(device, l);
    struct pieces pieces = pieces_of(device, l);
    return pieces.gradient + pieces.x;
}

enum mt_status mt_cuda_lora_da(struct mt_device *device, const void *args)
{
    const struct mt_lora_da_args *l = static_cast<const struct mt_lora_da_args *>(args);
    if (cuda_lora_da_fits(device, l)) return cuda_lora_da_hopper(device, l, device->scratch.data);
    struct pieces pieces = pieces_of(device, l);
    char *scratch = static_cast<char *>(device->scratch.data);
    struct mt_tensor kept = l->x;
    enum mt_status status = MT_OK;
    if (pieces.x > 0) status = cuda_mask(device, &l->x, &l->mask, scratch + pieces.gradient, &kept);
    for (int i = 0; i < l->maps && status == MT_OK; i++) {
        struct mt_grouped_gemm_dw_args gradient = gradient_of(l, i);
        if (cuda_dw_by_tiles(device, &gradient)) {
            status = cuda_grouped_dw_tiles(device, &gradient, &l->mask, scratch);
        } else {
            gradient.x = kept;
            status = mt_cuda_grouped_gemm_dw(device, &gradient);
        }
    }
    return status;
}
