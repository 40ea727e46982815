/* lora_da: a thin gradient for every map, which takes the mask as it reads x where it can. */
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/lora.cuh"

static struct mt_grouped_gemm_dw_args gradient_of(const struct mt_lora_da_args *l, int i)
{
    struct mt_grouped_gemm_dw_args gradient = {};
    gradient.dy = l->dlow[i];
    gradient.x = l->x;
    gradient.dweight = l->da[i];
    gradient.experts = l->experts;
    gradient.offsets = l->offsets;
    gradient.mask = l->mask;
    gradient.mask_scale = l->mask_scale;
    gradient.alpha = 1.0f;
    gradient.beta = 1.0f;
    return gradient;
}

size_t mt_cuda_lora_da_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_lora_da_args *l = static_cast<const struct mt_lora_da_args *>(args);
    if (cuda_lora_da_fits(device, l)) return cuda_lora_da_bytes(device, l);
    size_t most = 0;
    for (int i = 0; i < l->maps; i++) {
        struct mt_grouped_gemm_dw_args gradient = gradient_of(l, i);
        size_t bytes = mt_cuda_grouped_gemm_dw_scratch(device, &gradient);
        if (bytes > most) most = bytes;
    }
    return most;
}

enum mt_status mt_cuda_lora_da(struct mt_device *device, const void *args)
{
    const struct mt_lora_da_args *l = static_cast<const struct mt_lora_da_args *>(args);
    if (cuda_lora_da_fits(device, l)) return cuda_lora_da_hopper(device, l, device->scratch.data);
    enum mt_status status = MT_OK;
    for (int i = 0; i < l->maps && status == MT_OK; i++) {
        struct mt_grouped_gemm_dw_args gradient = gradient_of(l, i);
        status = mt_cuda_grouped_gemm_dw(device, &gradient);
    }
    return status;
}
