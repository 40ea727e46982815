/*
 * grouped_gemm and grouped_gemm_dw: the offsets are read back, then one product per expert. On cuda-bf16
 * nothing is read back on Hopper: products of large bf16 weights are one launch (grouped_hopper.cu), and so
 * are the others (grouped_tiles.cu). Older devices spread the large ones over the lanes, because one expert's
 * alone does not fill the device.
 */
#include "ops/cuda/products/few_rows.cuh"

#define AT_ONCE     CUDA_EXPERTS_AT_ONCE // experts whose offsets are on the stack at a time
#define LEAST_LARGE 256                  // both dimensions of a weight that is worth cuBLAS

/* Offsets of experts [first, first + count), one more than there are experts; checked, as the host would. */
static enum mt_status read_offsets(struct mt_device *device, const struct mt_tensor *offsets, int first,
                                   int count, int64_t rows, int32_t *values)
{
    const int32_t *source = static_cast<const int32_t *>(offsets->data) + first;
    enum mt_status status = mt_device_download(device, values, source, (size_t)(count + 1) * sizeof *values);
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

enum way {
    EACH,   // cuda_gemm per expert
    LANES,  // bf16 products on the lanes
    FEW,    // a row or two of each expert
    TILES,  // bf16 tiles
    HOPPER, // bf16 tiles of warp groups
};

static enum way way_of(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    if (!cuda_state_of(device)->bf16 || !cuda_is_float_or_bf16(&g->y) || !cuda_is_float_or_bf16(&g->x))
        return EACH;
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    if (weight == NULL) return EACH;
    if (cuda_grouped_few_fits(g)) return FEW;
    if (g->x.dim[0] <= (int64_t)CUDA_FEW_ROWS * g->experts) return TILES;
    if (cuda_grouped_hopper_fits(device, g)) return HOPPER;
    bool large = weight->dim[0] >= LEAST_LARGE && weight->dim[1] >= LEAST_LARGE;
    return large && weight->dtype == MT_BF16 ? LANES : TILES;
}

size_t mt_cuda_grouped_gemm_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_gemm_args *g = static_cast<const struct mt_grouped_gemm_args *>(args);
    enum way way = way_of(device, g);
    if (way == FEW) return 0;
    if (way == TILES) return cuda_grouped_tiles_bytes(g);
    if (way == HOPPER) return cuda_grouped_hopper_bytes(g);
    if (way == LANES) return g->x.dtype == MT_BF16 ? 0 : cuda_halves(mt_tensor_count(&g->x));
    size_t most = 0;
    for (int e = 0; e < g->experts; e++) {
        if (!mt_tensor_present(&g->weight[e])) continue;
        struct mt_gemm_args one = product_of(g, e, 0, g->x.dim[0]); // all rows: the worst load
        size_t bytes = cuda_gemm_bytes(device, &one);
        if (bytes > most) most = bytes;
    }
    return most;
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

/* x in bf16, in scratch where it is not so stored. */
static enum mt_status round_rows(struct mt_device *device, struct mt_grouped_gemm_args *g)
{
    if (g->x.dtype == MT_BF16) return MT_OK;
    cuda_round(device, &g->x, device->scratch.data);
    g->x = mt_tensor_2d(device->scratch.data, MT_BF16, g->x.dim[0], g->x.dim[1]);
    return cuda_launched(device, "rounding the experts' rows");
}

static enum mt_status grouped_on_lanes(struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    int32_t offsets[AT_ONCE + 1];
    enum mt_status status = MT_OK;
    for (int first = 0; first < g->experts && status == MT_OK; first += AT_ONCE) {
        int count = batch_of(g->experts, first);
        status = read_offsets(device, &g->offsets, first, count, g->x.dim[0], offsets);
        if (status == MT_OK) status = multiply_on_lanes(device, g, first, count, offsets);
    }
    return status;
}

enum mt_status mt_cuda_grouped_gemm(struct mt_device *device, const void *args)
{
    const struct mt_grouped_gemm_args *g = static_cast<const struct mt_grouped_gemm_args *>(args);
    int32_t offsets[AT_ONCE + 1];
    enum way way = way_of(device, g);
    if (way == FEW) return cuda_grouped_few(device, g);
    if (way == TILES) return cuda_grouped_tiles(device, g, &no_mask, device->scratch.data);
    if (way == HOPPER) return cuda_grouped_hopper(device, g, device->scratch.data);
    if (way == LANES) {
        struct mt_grouped_gemm_args ready = *g;
        enum mt_status rounded = round_rows(device, &ready);
        return rounded == MT_OK ? grouped_on_lanes(device, &ready) : rounded;
    }
    for (int first = 0; first < g->experts; first += AT_ONCE) {
        int count = batch_of(g->experts, first);
        enum mt_status status = read_offsets(device, &g->offsets, first, count, g->x.dim[0], offsets);
        for (int i = 0; i < count && status == MT_OK; i++) {
            int64_t rows = offsets[i + 1] - offsets[i];
            if (rows == 0) continue;
            struct mt_gemm_args one = product_of(g, first + i, offsets[i], rows);
            bool absent = !mt_tensor_present(&one.b);
            status =
                absent ? cuda_scale(device, &one.c, g->beta) : cuda_gemm(device, &one, device->scratch.data);
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ offsets or none

#define LEAST_ROWS 1024 // of a dense thin product: cuBLAS spreads fewer over the device by steps

static struct mt_gemm_args dense_of(const struct mt_grouped_gemm_args *g)
{
    return product_of(g, 0, 0, g->x.dim[0]);
}

bool cuda_thin_fits(const struct mt_device *device, const struct mt_grouped_gemm_args *g,
                    const struct mt_tensor *mask)
{
    if (!cuda_state_of(device)->bf16) return false;
    if (!cuda_is_float_or_bf16(&g->y) || !cuda_is_float_or_bf16(&g->x)) return false;
    bool sparse = !mt_tensor_present(mask) && !mt_tensor_present(&g->offsets) && g->y.dim[0] < LEAST_ROWS;
    return !sparse && cuda_grouped_tiles_fits(g, mask) && cuda_uniform(g->weight, g->experts) != NULL;
}

size_t cuda_product_bytes(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    if (mt_tensor_present(&g->offsets)) return mt_cuda_grouped_gemm_scratch(device, g);
    if (!mt_tensor_present(&g->weight[0])) return 0;
    struct mt_gemm_args dense = dense_of(g);
    return cuda_gemm_bytes(device, &dense);
}

enum mt_status cuda_product(struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    if (mt_tensor_present(&g->offsets)) return mt_cuda_grouped_gemm(device, g);
    if (!mt_tensor_present(&g->weight[0])) return cuda_scale(device, &g->y, g->beta);
    struct mt_gemm_args dense = dense_of(g);
    return cuda_gemm(device, &dense, device->scratch.data);
}

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

size_t mt_cuda_grouped_gemm_dw_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_gemm_dw_args *g = static_cast<const struct mt_grouped_gemm_dw_args *>(args);
    if (cuda_dw_by_tiles(device, g)) return cuda_grouped_dw_tiles_bytes(device, g);
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
static enum mt_status each_gradient(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
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
            status = cuda_gemm(device, &one, device->scratch.data); // without rows: beta alone
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_cuda_grouped_gemm_dw(struct mt_device *device, const void *args)
{
    const struct mt_grouped_gemm_dw_args *g = static_cast<const struct mt_grouped_gemm_dw_args *>(args);
    if (cuda_dw_by_tiles(device, g)) return cuda_grouped_dw_tiles(device, g, &no_mask, device->scratch.data);
    return each_gradient(device, g);
}
