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
        size_t bytes = mt_cuda_grouped_gemm_scratch(device, &product);
        if (bytes > pieces.product) pieces.product = bytes;
    }
    pieces.product = (pieces.product + 255) / 256 * 256;
    return pieces;
}

static enum mt_status add_term(struct mt_device *device, const struct mt_grouped_sum_args *a, int t,
                               const struct pieces *pieces)
{
    const struct mt_product_term *term = &a->terms[t];
    struct mt_grouped_gemm_args product = product_of(a, t);
    if (!mt_tensor_present(&term->mask_y)) return mt_cuda_grouped_gemm(device, &product);
    void *memory = static_cast<char *>(device->scratch.data) + pieces->product;
    product.y = mt_tensor_2d(memory, a->y.dtype, a->y.dim[0], a->y.dim[1]);
    product.beta = 0.0f;
    enum mt_status status = mt_cuda_grouped_gemm(device, &product);
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

static size_t terms_bytes(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    struct pieces pieces = pieces_of(device, a);
    return pieces.product + pieces.y;
}

static enum mt_status run_terms(struct mt_device *device, const struct mt_grouped_sum_args *a, void *)
{
    struct pieces pieces = pieces_of(device, a);
    return add_terms(device, a, &pieces);
}

// ------------------------------------------------------------------ sums that y cannot hold as they grow

static bool is_narrow(const struct mt_device *, const struct mt_grouped_sum_args *a)
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

static size_t widened_bytes(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    struct mt_grouped_sum_args wide = widened(a, NULL);
    return terms_bytes(device, &wide) + cuda_floats(mt_tensor_count(&a->y));
}

static enum mt_status copy_sum(struct mt_device *device, const struct mt_tensor *from,
                               const struct mt_tensor *to)
{
    struct mt_copy_args copy = {};
    copy.x = *from;
    copy.y = *to;
    return mt_cuda_copy(device, &copy);
}

static enum mt_status run_widened(struct mt_device *device, const struct mt_grouped_sum_args *a,
                                  void *scratch)
{
    struct mt_grouped_sum_args wide = widened(a, NULL);
    wide = widened(a, static_cast<char *>(scratch) + terms_bytes(device, &wide));
    bool read = a->beta != 0.0f || mt_tensor_present(&a->offsets); // rows of no expert stay as they are
    enum mt_status status = read ? copy_sum(device, &a->y, &wide.y) : MT_OK;
    if (status == MT_OK) status = run_terms(device, &wide, scratch);
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

/* Bytes of the sums' own scratch, which lies before the parts. Neither sum has f32 rows any more. */
static size_t sums_bytes(const struct mt_device *device, const struct twofold *two)
{
    size_t first = mt_cuda_grouped_sum_scratch(device, &two->first);
    size_t second = mt_cuda_grouped_sum_scratch(device, &two->second);
    return ((first > second ? first : second) + 255) / 256 * 256;
}

static size_t twofold_bytes(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    struct twofold two;
    plan_twofold(a, NULL, &two);
    return sums_bytes(device, &two) + two.parts;
}

static enum mt_status run_twofold(struct mt_device *device, const struct mt_grouped_sum_args *a,
                                  void *scratch)
{
    struct twofold two;
    plan_twofold(a, NULL, &two);
    plan_twofold(a, static_cast<char *>(scratch) + sums_bytes(device, &two), &two);
    enum mt_status status = MT_OK;
    for (int t = 0; t < a->count && status == MT_OK; t++) {
        struct cuda_two parts;
        if (a->terms[t].x.dtype == MT_F32)
            status = cuda_split_rows(device, &a->terms[t].x, two.rounded[t].x.data, &parts);
    }
    if (status == MT_OK) status = mt_cuda_grouped_sum(device, &two.first);
    return status == MT_OK ? mt_cuda_grouped_sum(device, &two.second) : status;
}

typedef struct cuda_variant<struct mt_grouped_sum_args> sum_variant;
static const sum_variant in_two = {is_twofold, twofold_bytes, run_twofold};
static const sum_variant in_f32 = {is_narrow, widened_bytes, run_widened};
static const sum_variant by_terms = {NULL, terms_bytes, run_terms};

static const sum_variant *const variants[] = {&cuda_thin_sum, &in_two, &cuda_hopper_sum, &in_f32, &by_terms};
CUDA_OP(grouped_sum, variants)
