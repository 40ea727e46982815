/*
 * grouped_gemm and grouped_gemm_dw: the offsets are read back, then one product per expert. On cuda-bf16
 * nothing is read back on Hopper: products of large bf16 weights are one launch (grouped_hopper.cu), and so
 * are the others (grouped_tiles.cu). Older devices spread the large ones over the lanes, because one expert's
 * alone does not fill the device.
 */
#include "ops/cuda/products/grouped.cuh"

#define AT_ONCE     CUDA_EXPERTS_AT_ONCE // experts whose offsets are on the stack at a time
#define LEAST_LARGE 256                  // both dimensions of a weight that is worth cuBLAS

/* Offsets of experts [first, first + count), one more than there are experts; checked, as the host would. */
static enum mt_status read_offsets(struct mt_device *device, const struct mt_tensor *offsets, int first,
                                   int count, int64_t rows, int32_t *values)
{
    const int32_t *source = static_cast<const int32_t *>(offsets->data) + first;
    enum mt_status status = device->download(device, values, source, (size_t)(count + 1) * sizeof *values);
    if (status != MT_OK) return status;
    bool rising = values[0] >= 0 && values[count] <= rows && (first > 0 || values[0] == 0);
    for (int e = 0; e < count; e++) rising = rising && values[e] <= values[e + 1];
    if (rising) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_USAGE, "offsets do not rise from 0 to at most %lld", (long long)rows);
}

static const struct mt_tensor no_mask = {};

/* Experts of the batch that starts at `first`. */
static int batch_of(int experts, int first)
{
    return experts - first < AT_ONCE ? experts - first : AT_ONCE;
}

// ------------------------------------------------------------------ grouped_gemm

/* The product of expert e over rows [first, first + count). */
static struct mt_gemm_args product_of(const struct mt_grouped_gemm_args *g, int e, int64_t first,
                                      int64_t count)
{
    struct mt_gemm_args one = {};
    one.a = mt_tensor_rows(&g->x, first, count);
    one.b = g->weight[e];
    one.c = mt_tensor_rows(&g->y, first, count);
    one.transpose_b = g->transpose_weight;
    one.alpha = g->alpha;
    one.beta = g->beta;
    return one;
}

/* The products of a batch of experts, in turn on the lanes. */
static enum mt_status multiply_on_lanes(struct mt_device *device, const struct mt_grouped_gemm_args *g,
                                        int first, int count, const int32_t *offsets)
{
    static const struct cuda_batch single = {1, 0, 0, 0};
    enum mt_status status = cuda_lanes_begin(device);
    for (int i = 0; i < count && status == MT_OK; i++) {
        int64_t rows = offsets[i + 1] - offsets[i];
        struct mt_gemm_args one = product_of(g, first + i, offsets[i], rows);
        if (rows > 0 && mt_tensor_present(&one.b))
            status = cuda_multiply_bf16(device, i % CUDA_LANES, &one, &single);
    }
    if (status == MT_OK) status = cuda_lanes_end(device);
    for (int i = 0; i < count && status == MT_OK; i++) {
        struct mt_tensor y = mt_tensor_rows(&g->y, offsets[i], offsets[i + 1] - offsets[i]);
        if (!mt_tensor_present(&g->weight[first + i])) status = cuda_scale(device, &y, g->beta);
    }
    return status;
}

/* Whether kernels of bf16 roundings take these. */
static bool is_bf16(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    return cuda_state_of(device)->bf16 && cuda_is_float_or_bf16(&g->y) && cuda_is_float_or_bf16(&g->x) &&
           cuda_uniform(g->weight, g->experts) != NULL;
}

/* Without offsets: one product of all rows. */
static bool is_dense(const struct mt_device *, const struct mt_grouped_gemm_args *g)
{
    return !mt_tensor_present(&g->offsets);
}

static size_t dense_bytes(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    if (!mt_tensor_present(&g->weight[0])) return 0;
    struct mt_gemm_args dense = product_of(g, 0, 0, g->x.dim[0]);
    return cuda_gemm_bytes(device, &dense);
}

static enum mt_status run_dense(struct mt_device *device, const struct mt_grouped_gemm_args *g, void *scratch)
{
    if (!mt_tensor_present(&g->weight[0])) return cuda_scale(device, &g->y, g->beta);
    struct mt_gemm_args dense = product_of(g, 0, 0, g->x.dim[0]);
    return cuda_gemm(device, &dense, scratch);
}

static bool has_few_rows(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    return is_bf16(device, g) && g->x.dim[0] <= (int64_t)CUDA_FEW_ROWS * g->experts;
}

static enum mt_status run_tiles(struct mt_device *device, const struct mt_grouped_gemm_args *g, void *scratch)
{
    return cuda_grouped_tiles(device, g, &no_mask, scratch);
}

static bool is_large(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    if (!is_bf16(device, g)) return false;
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    return weight->dim[0] >= LEAST_LARGE && weight->dim[1] >= LEAST_LARGE && weight->dtype == MT_BF16;
}

/* x in bf16 where it is not so stored. */
static size_t lanes_bytes(const struct mt_device *, const struct mt_grouped_gemm_args *g)
{
    return g->x.dtype == MT_BF16 ? 0 : cuda_halves(mt_tensor_count(&g->x));
}

static enum mt_status run_on_lanes(struct mt_device *device, const struct mt_grouped_gemm_args *g,
                                   void *scratch)
{
    int32_t offsets[AT_ONCE + 1];
    struct mt_grouped_gemm_args ready = *g;
    enum mt_status status = MT_OK;
    if (g->x.dtype != MT_BF16) {
        cuda_round(device, &g->x, scratch);
        ready.x = mt_tensor_2d(scratch, MT_BF16, g->x.dim[0], g->x.dim[1]);
        status = cuda_launched(device, "rounding the experts' rows");
    }
    for (int first = 0; first < g->experts && status == MT_OK; first += AT_ONCE) {
        int count = batch_of(g->experts, first);
        status = read_offsets(device, &g->offsets, first, count, g->x.dim[0], offsets);
        if (status == MT_OK) status = multiply_on_lanes(device, &ready, first, count, offsets);
    }
    return status;
}

static size_t each_bytes(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    size_t most = 0;
    for (int e = 0; e < g->experts; e++) {
        if (!mt_tensor_present(&g->weight[e])) continue;
        struct mt_gemm_args one = product_of(g, e, 0, g->x.dim[0]); // all rows: the worst load
        size_t bytes = cuda_gemm_bytes(device, &one);
        if (bytes > most) most = bytes;
    }
    return most;
}

static enum mt_status run_each(struct mt_device *device, const struct mt_grouped_gemm_args *g, void *scratch)
{
    int32_t offsets[AT_ONCE + 1];
    for (int first = 0; first < g->experts; first += AT_ONCE) {
        int count = batch_of(g->experts, first);
        enum mt_status status = read_offsets(device, &g->offsets, first, count, g->x.dim[0], offsets);
        for (int i = 0; i < count && status == MT_OK; i++) {
            int64_t rows = offsets[i + 1] - offsets[i];
            if (rows == 0) continue;
            struct mt_gemm_args one = product_of(g, first + i, offsets[i], rows);
            bool absent = !mt_tensor_present(&one.b);
            status = absent ? cuda_scale(device, &one.c, g->beta) : cuda_gemm(device, &one, scratch);
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

typedef struct cuda_variant<struct mt_grouped_gemm_args> product_variant;
static const product_variant dense = {is_dense, dense_bytes, run_dense};
static const product_variant few_tiles = {has_few_rows, cuda_grouped_tiles_bytes, run_tiles};
static const product_variant lanes = {is_large, lanes_bytes, run_on_lanes};
static const product_variant tiles = {is_bf16, cuda_grouped_tiles_bytes, run_tiles};
static const product_variant each = {NULL, each_bytes, run_each};

static const product_variant *const variants[] = {
    &dense, &cuda_grouped_few, &few_tiles, &cuda_hopper_gemm, &lanes, &tiles, &each,
};
CUDA_OP(grouped_gemm, variants)

// ------------------------------------------------------------------ grouped_gemm_dw

static struct mt_gemm_args gradient_of(const struct mt_grouped_gemm_dw_args *g, int e, int64_t first,
                                       int64_t count)
{
    struct mt_gemm_args one = {};
    one.a = mt_tensor_rows(&g->dy, first, count);
    one.b = mt_tensor_rows(&g->x, first, count);
    one.c = g->dweight[e];
    one.transpose_a = true;
    one.alpha = g->alpha;
    one.beta = g->beta;
    return one;
}

bool cuda_dw_by_tiles(const struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
{
    if (!cuda_state_of(device)->bf16 || !cuda_is_float_or_bf16(&g->x) || !cuda_is_float_or_bf16(&g->dy))
        return false;
    const struct mt_tensor *dweight = cuda_uniform(g->dweight, g->experts);
    if (dweight == NULL || dweight->dtype != MT_F32) return false;
    return mt_tensor_present(&g->offsets) || cuda_thin_gradient(g);
}

static enum mt_status run_dw_tiles(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g,
                                   void *scratch)
{
    return cuda_grouped_dw_tiles(device, g, &no_mask, scratch);
}

static size_t each_gradient_bytes(const struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
{
    size_t most = 0;
    for (int e = 0; e < g->experts; e++) {
        if (!mt_tensor_present(&g->dweight[e])) continue;
        struct mt_gemm_args one = gradient_of(g, e, 0, g->x.dim[0]);
        size_t bytes = cuda_gemm_bytes(device, &one);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* One product per expert. */
static enum mt_status run_each_gradient(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g,
                                        void *scratch)
{
    int32_t offsets[AT_ONCE + 1] = {0, (int32_t)g->x.dim[0]};
    for (int first = 0; first < g->experts; first += AT_ONCE) {
        int count = batch_of(g->experts, first);
        enum mt_status status = MT_OK;
        if (mt_tensor_present(&g->offsets))
            status = read_offsets(device, &g->offsets, first, count, g->x.dim[0], offsets);
        for (int i = 0; i < count && status == MT_OK; i++) {
            if (!mt_tensor_present(&g->dweight[first + i])) continue;
            struct mt_gemm_args one = gradient_of(g, first + i, offsets[i], offsets[i + 1] - offsets[i]);
            status = cuda_gemm(device, &one, scratch); // without rows: beta alone
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

typedef struct cuda_variant<struct mt_grouped_gemm_dw_args> gradient_variant;
static const gradient_variant dw_tiles = {cuda_dw_by_tiles, cuda_grouped_dw_tiles_bytes, run_dw_tiles};
static const gradient_variant each_dw = {NULL, each_gradient_bytes, run_each_gradient};

static const gradient_variant *const dw_variants[] = {&dw_tiles, &each_dw};
CUDA_OP(grouped_gemm_dw, dw_variants)
