/*
 * lora_low: one kernel for all maps on Hopper (lora_low_hopper.cu), which reads f32 rows as bf16 roundings
 * made beforehand. Else a thin product per map, which takes the mask as it reads x (grouped_tiles.cu) where
 * it can, or what the mask keeps of x is made once, in scratch, for all maps that need it. Exact ones are
 * gemm's, then.
 */
#include "ops/cuda/elementwise/mask.cuh"
#include "ops/cuda/lora/lora.cuh"
#include "ops/cuda/products/grouped.cuh"

/* Map i as a product, its mask left out but for the scale. */
static struct mt_grouped_gemm_args product_of(const struct mt_lora_low_args *l, int i)
{
    struct mt_grouped_gemm_args product = {};
    product.x = l->x;
    product.weight = l->a[i];
    product.experts = l->experts;
    product.offsets = l->offsets;
    product.y = l->low[i];
    product.transpose_weight = true;
    product.alpha = mt_tensor_present(&l->mask) ? l->alpha * l->mask_scale : l->alpha;
    return product;
}

/* An exact map, which has no offsets, likewise. */
static struct mt_gemm_args exact_product_of(const struct mt_lora_low_args *l, int i)
{
    struct mt_gemm_args product = {};
    product.a = l->x;
    product.b = l->a[i][0];
    product.c = l->low[i];
    product.transpose_b = true;
    product.exact = true;
    product.alpha = mt_tensor_present(&l->mask) ? l->alpha * l->mask_scale : l->alpha;
    return product;
}

/* Whether gemm makes a map; an absent matrix is no operand of its. */
static bool is_exact(const struct mt_lora_low_args *l, int i)
{
    return l->exact && mt_tensor_present(&l->a[i][0]);
}

/* Scratch: what the products need themselves, then what the mask keeps of x. */
struct pieces {
    size_t product, x; // bytes
};

static struct pieces pieces_of(const struct mt_device *device, const struct mt_lora_low_args *l)
{
    struct pieces pieces = {};
    for (int i = 0; i < l->maps; i++) {
        struct mt_grouped_gemm_args product = product_of(l, i);
        struct mt_gemm_args exact = exact_product_of(l, i);
        size_t bytes = 0;
        if (!l->exact && cuda_thin_fits(device, &product, &l->mask)) {
            bytes = cuda_grouped_tiles_bytes(&product);
        } else {
            if (mt_tensor_present(&l->mask)) {
                pieces.x = cuda_masked_bytes(&l->x);
                product.x = mt_tensor_2d(NULL, l->x.dtype, l->x.dim[0], l->x.dim[1]);
                exact.a = product.x;
            }
            bytes =
                is_exact(l, i) ? mt_cuda_gemm_scratch(device, &exact) : cuda_product_bytes(device, &product);
        }
        if (bytes > pieces.product) pieces.product = bytes;
    }
    pieces.product = (pieces.product + 255) / 256 * 256;
    return pieces;
}

/* The same of x rounded to bf16, at `memory`. */
static struct mt_lora_low_args rounded_of(const struct mt_lora_low_args *l, void *memory)
{
    struct mt_lora_low_args rounded = *l;
    rounded.x = mt_tensor_2d(memory, MT_BF16, l->x.dim[0], l->x.dim[1]);
    return rounded;
}

static bool is_rounded_first(const struct mt_device *device, const struct mt_lora_low_args *l)
{
    struct mt_lora_low_args rounded = rounded_of(l, NULL);
    return l->x.dtype == MT_F32 && !l->exact && cuda_lora_low_fits(device, &rounded);
}

static enum mt_status run_rounded(struct mt_device *device, const struct mt_lora_low_args *l)
{
    struct mt_lora_low_args rounded = rounded_of(l, device->scratch.data);
    cuda_round(device, &l->x, rounded.x.data);
    enum mt_status status = cuda_launched(device, "rounding rows");
    char *behind = static_cast<char *>(rounded.x.data) + cuda_halves(mt_tensor_count(&l->x));
    return status == MT_OK ? cuda_lora_low_hopper(device, &rounded, behind) : status;
}

size_t mt_cuda_lora_low_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_lora_low_args *l = static_cast<const struct mt_lora_low_args *>(args);
    if (cuda_lora_low_fits(device, l)) return cuda_lora_low_bytes(l);
    if (is_rounded_first(device, l)) return cuda_halves(mt_tensor_count(&l->x)) + cuda_lora_low_bytes(l);
    struct pieces pieces = pieces_of(device, l);
    return pieces.product + pieces.x;
}

enum mt_status mt_cuda_lora_low(struct mt_device *device, const void *args)
{
    const struct mt_lora_low_args *l = static_cast<const struct mt_lora_low_args *>(args);
    if (cuda_lora_low_fits(device, l)) return cuda_lora_low_hopper(device, l, device->scratch.data);
    if (is_rounded_first(device, l)) return run_rounded(device, l);
    struct pieces pieces = pieces_of(device, l);
    char *scratch = static_cast<char *>(device->scratch.data);
    struct mt_tensor kept = l->x;
    enum mt_status status = MT_OK;
    if (pieces.x > 0) status = cuda_mask(device, &l->x, &l->mask, scratch + pieces.product, &kept);
    for (int i = 0; i < l->maps && status == MT_OK; i++) {
        struct mt_grouped_gemm_args product = product_of(l, i);
        if (is_exact(l, i)) {
            struct mt_gemm_args exact = exact_product_of(l, i);
            exact.a = kept;
            status = mt_cuda_gemm(device, &exact);
        } else if (!l->exact && cuda_thin_fits(device, &product, &l->mask)) {
            status = cuda_grouped_tiles(device, &product, &l->mask, scratch);
        } else {
            product.x = kept;
            status = cuda_product(device, &product);
        }
    }
    return status;
}
