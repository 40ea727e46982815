/*
 * grouped_sum: one launch where Hopper's kernel fits (grouped_hopper.cu). Else term after term: a mask on a
 * product is a pass of its own, through scratch, and later terms are added to y; or to f32 scratch, where y
 * would be rounded after each. On cuda-bf16, of f32 rows of a sum that is kept in f32, 16 bits count: the
 * sum is made of their roundings, and again of what those leave.
 */
#include "ops/cuda/elementwise/mask.cuh"
#include "ops/cuda/products/grouped.cuh"

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

/* Whether y cannot hold the sum as it grows. */
static bool is_narrow(const struct mt_grouped_sum_args *a)
{
    return a->count > 1 && a->y.dtype != MT_F32;
}

/* The same into f32 at `memory`. */
static struct mt_grouped_sum_args widened(const struct mt_grouped_sum_args *a, void *memory)
{
    struct mt_grouped_sum_args wide = *a;
    wide.y = mt_tensor_2d(memory, MT_F32, a->y.dim[0], a->y.dim[1]);
    return wide;
}

static size_t once_bytes(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    if (cuda_hopper_sum_fits(device, a)) return cuda_hopper_sum_bytes(a);
    struct mt_grouped_sum_args wide = is_narrow(a) ? widened(a, NULL) : *a;
    struct pieces pieces = pieces_of(device, &wide);
    return pieces.product + pieces.y + (is_narrow(a) ? cuda_floats(mt_tensor_count(&a->y)) : 0);
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

static enum mt_status add_terms(struct mt_device *device, const struct mt_grouped_sum_args *a,
                                const struct pieces *pieces)
{
    enum mt_status status = MT_OK;
    for (int t = 0; t < a->count && status == MT_OK; t++) status = add_term(device, a, t, pieces);
    return status;
}

static enum mt_status copy_sum(struct mt_device *device, const struct mt_tensor *from,
                               const struct mt_tensor *to)
{
    struct mt_copy_args copy = {};
    copy.x = *from;
    copy.y = *to;
    return mt_cuda_copy(device, &copy);
}

static enum mt_status run_once(struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    if (cuda_hopper_sum_fits(device, a)) return cuda_hopper_sum(device, a, device->scratch.data);
    struct mt_grouped_sum_args wide = is_narrow(a) ? widened(a, NULL) : *a;
    struct pieces pieces = pieces_of(device, &wide);
    if (!is_narrow(a)) return add_terms(device, a, &pieces);
    wide = widened(a, static_cast<char *>(device->scratch.data) + pieces.product + pieces.y);
    bool read = a->beta != 0.0f || mt_tensor_present(&a->offsets); // rows of no expert stay as they are
    enum mt_status status = read ? copy_sum(device, &a->y, &wide.y) : MT_OK;
    if (status == MT_OK) status = add_terms(device, &wide, &pieces);
    return status == MT_OK ? copy_sum(device, &wide.y, &a->y) : status;
}

// ------------------------------------------------------------------ f32 rows in two parts

/* The same sum of the rows' roundings, and what is added to it. */
struct twofold {
    struct mt_product_term rounded[MT_MAX_TERMS], rest[MT_MAX_TERMS];
    struct mt_grouped_sum_args first, second;
    size_t parts; // bytes of the rows' parts
};

static bool is_twofold(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    bool rows = false;
    for (int t = 0; t < a->count; t++) rows = rows || a->terms[t].x.dtype == MT_F32;
    return rows && cuda_state_of(device)->bf16 && a->y.dtype == MT_F32;
}

/* Lays out the parts at `memory`, which may be NULL: then only sizes are right. */
static void plan_twofold(const struct mt_grouped_sum_args *a, char *memory, struct twofold *two)
{
    *two = {};
    two->first = *a;
    two->second = *a;
    two->first.terms = two->rounded;
    two->second.terms = two->rest;
    two->second.count = 0;
    two->second.beta = 1.0f;
    for (int t = 0; t < a->count; t++) {
        const struct mt_tensor *x = &a->terms[t].x;
        two->rounded[t] = a->terms[t];
        if (x->dtype != MT_F32) continue;
        char *behind = memory == NULL ? NULL : memory + two->parts + cuda_halves(mt_tensor_count(x));
        struct mt_product_term *rest = &two->rest[two->second.count++];
        *rest = a->terms[t];
        rest->x = mt_tensor_2d(behind, MT_BF16, x->dim[0], x->dim[1]);
        two->rounded[t].x =
            mt_tensor_2d(memory == NULL ? NULL : memory + two->parts, MT_BF16, x->dim[0], x->dim[1]);
        two->parts += cuda_two_bytes(x);
    }
}

/* Bytes of the sums' own scratch, which lies before the parts. */
static size_t sums_bytes(const struct mt_device *device, const struct twofold *two)
{
    size_t first = once_bytes(device, &two->first);
    size_t second = once_bytes(device, &two->second);
    return ((first > second ? first : second) + 255) / 256 * 256;
}

size_t mt_cuda_grouped_sum_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_sum_args *a = static_cast<const struct mt_grouped_sum_args *>(args);
    if (!is_twofold(device, a)) return once_bytes(device, a);
    struct twofold two;
    plan_twofold(a, NULL, &two);
    return sums_bytes(device, &two) + two.parts;
}

enum mt_status mt_cuda_grouped_sum(struct mt_device *device, const void *args)
{
    const struct mt_grouped_sum_args *a = static_cast<const struct mt_grouped_sum_args *>(args);
    if (!is_twofold(device, a)) return run_once(device, a);
    struct twofold two;
    plan_twofold(a, NULL, &two);
    plan_twofold(a, static_cast<char *>(device->scratch.data) + sums_bytes(device, &two), &two);
    enum mt_status status = MT_OK;
    for (int t = 0; t < a->count && status == MT_OK; t++) {
        struct cuda_two parts;
        if (a->terms[t].x.dtype == MT_F32)
            status = cuda_split_rows(device, &a->terms[t].x, two.rounded[t].x.data, &parts);
    }
    if (status == MT_OK) status = run_once(device, &two.first);
    return status == MT_OK ? run_once(device, &two.second) : status;
}
