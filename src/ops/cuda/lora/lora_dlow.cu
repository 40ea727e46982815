/*
 * lora_dlow: both results from one reading of dy on Hopper (lora_dlow_hopper.cu). Else for every map a thin
 * product (grouped_tiles.cu where it can be) and a thin gradient.
 */
#include "ops/cuda/lora/lora.cuh"
#include "ops/cuda/products/grouped.cuh"

static const struct mt_tensor no_mask = {};

static struct mt_grouped_gemm_args product_of(const struct mt_lora_dlow_args *l,
                                              const struct mt_lora_pair_gradient *map)
{
    struct mt_grouped_gemm_args product = {};
    product.x = map->dy;
    product.weight = map->b;
    product.experts = l->experts;
    product.offsets = l->offsets;
    product.y = map->dlow;
    product.alpha = map->scale;
    return product;
}

static struct mt_grouped_gemm_dw_args gradient_of(const struct mt_lora_dlow_args *l,
                                                  const struct mt_lora_pair_gradient *map)
{
    struct mt_grouped_gemm_dw_args gradient = {};
    gradient.dy = map->dy;
    gradient.x = map->low;
    gradient.dweight = map->db;
    gradient.experts = l->experts;
    gradient.offsets = l->offsets;
    gradient.alpha = map->db_scale;
    gradient.beta = 1.0f;
    return gradient;
}

size_t mt_cuda_lora_dlow_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_lora_dlow_args *l = static_cast<const struct mt_lora_dlow_args *>(args);
    if (cuda_lora_dlow_fits(device, l)) return cuda_lora_dlow_bytes(device, l);
    size_t most = 0;
    for (int i = 0; i < l->maps; i++) {
        struct mt_grouped_gemm_args product = product_of(l, &l->map[i]);
        size_t bytes = cuda_thin_fits(device, &product, &no_mask) ? cuda_grouped_tiles_bytes(&product)
                                                                  : cuda_product_bytes(device, &product);
        if (bytes > most) most = bytes;
        if (l->map[i].db == NULL) continue;
        struct mt_grouped_gemm_dw_args gradient = gradient_of(l, &l->map[i]);
        bytes = mt_cuda_grouped_gemm_dw_scratch(device, &gradient);
        if (bytes > most) most = bytes;
    }
    return most;
}

enum mt_status mt_cuda_lora_dlow(struct mt_device *device, const void *args)
{
    const struct mt_lora_dlow_args *l = static_cast<const struct mt_lora_dlow_args *>(args);
    if (cuda_lora_dlow_fits(device, l)) return cuda_lora_dlow_hopper(device, l, device->scratch.data);
    enum mt_status status = MT_OK;
    for (int i = 0; i < l->maps && status == MT_OK; i++) {
        struct mt_grouped_gemm_args product = product_of(l, &l->map[i]);
        status = cuda_thin_fits(device, &product, &no_mask)
                     ? cuda_grouped_tiles(device, &product, &no_mask, device->scratch.data)
                     : cuda_product(device, &product);
        if (status != MT_OK || l->map[i].db == NULL) continue;
        struct mt_grouped_gemm_dw_args gradient = gradient_of(l, &l->map[i]);
        status = mt_cuda_grouped_gemm_dw(device, &gradient);
    }
    return status;
}
