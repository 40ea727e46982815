/*
 * grouped_sum: one launch where Hopper's kernel fits (grouped_hopper.cu). Else term after term: a mask on a
 * product is a pass of its own, through scratch, and later terms are added to y.
 */
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/mask.cuh"

/* A term as a product, its mask left out but for the scale. */
static struct mt_grouped_gemm_args product_of(const struct mt_grouped_sum_args *a, int t)
{
    const struct mt_product_term *term = &a->terms[t];
    struct mt_grouped_gemm_args product = {};
    product.x = term->x;
    product.weight = term->weight;
    product.experts = a->experts;
    product.offsets = a->offsets;
    product.y = a->y;
    product.transpose_weight = term->transpose_weight;
    product.alpha = term->alpha;
    product.beta = t == 0 ? a->beta : 1.0f;
    if (mt_tensor_present(&term->mask_y)) product.alpha *= term->mask_scale;
    return product;
}

/* Scratch: what the products need themselves, then one that has a mask. */
struct pieces {
    size_t product, y; // bytes
};

static struct pieces pieces_of(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    struct pieces pieces = {};
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        struct mt_grouped_gemm_args product = product_of(a, t);
        if (mt_tensor_present(&term->mask_y)) {
            pieces.y = cuda_masked_bytes(&a->y);
            product.y = mt_tensor_2d(NULL, a->y.dtype, a->y.dim[0], a->y.dim[1]);
        }
        size_t bytes = cuda_product_bytes(device, &product);
        if (bytes > pieces.product) pieces.product = bytes;
    }
    pieces.product = (pieces.product + 255) / 256 * 256;
    return pieces;
}

size_t mt_cuda_grouped_sum_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_sum_args *a = static_cast<const struct mt_grouped_sum_args *>(args);
    if (cuda_hopper_sum_fits(device, a)) return cuda_hopper_sum_bytes(a);
    struct pieces pieces = pieces_of(device, a);
    return pieces.product + pieces.y;
}

static enum mt_status add_term(struct mt_device *device, const struct mt_grouped_sum_args *a, int t,
                               const struct pieces *pieces)
{
    const struct mt_product_term *term = &a->terms[t];
    struct mt_grouped_gemm_args product = product_of(a, t);
    if (!mt_tensor_present(&term->mask_y)) return cuda_product(device, &product);
    void *memory = static_cast<char *>(device->scratch.data) + pieces->product;
    product.y = mt_tensor_2d(memory, a->y.dtype, a->y.dim[0], a->y.dim[1]);
    product.beta = 0.0f;
    enum mt_status status = cuda_product(device, &product);
    if (status != MT_OK) return status;
    const int32_t *end = NULL;
    if (mt_tensor_present(&a->offsets)) end = static_cast<const int32_t *>(a->offsets.data) + a->experts;
    return cuda_add_masked(device, &product.y, &term->mask_y, t == 0 ? a->beta : 1.0f, end, &a->y);
}

enum mt_status mt_cuda_grouped_sum(struct mt_device *device, const void *args)
{
    const struct mt_grouped_sum_args *a = static_cast<const struct mt_grouped_sum_args *>(args);
    if (cuda_hopper_sum_fits(device, a)) return cuda_hopper_sum(device, a, device->scratch.data);
    struct pieces pieces = pieces_of(device, a);
    for (int t = 0; t < a->count; t++) {
        enum mt_status status = add_term(device, a, t, &pieces);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
