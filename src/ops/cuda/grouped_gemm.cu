/*
 * grouped_gemm and grouped_gemm_dw: the offsets are read back, then one product per expert. Reading them back
 * waits for the device; what it costs is measured before it is replaced.
 */
#include "ops/cuda/gemm.cuh"

#define AT_ONCE 256 // experts whose offsets are on the stack at a time

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

size_t mt_cuda_grouped_gemm_scratch(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_grouped_gemm_args *g = static_cast<const struct mt_grouped_gemm_args *>(args);
    size_t most = 0;
    for (int e = 0; e < g->experts; e++) {
        if (!mt_tensor_present(&g->weight[e])) continue;
        struct mt_gemm_args one = product_of(g, e, 0, g->x.dim[0]); // all rows: the worst load
        size_t bytes = cuda_gemm_bytes(&one);
        if (bytes > most) most = bytes;
    }
    return most;
}

enum mt_status mt_cuda_grouped_gemm(struct mt_device *device, const void *args)
{
    const struct mt_grouped_gemm_args *g = static_cast<const struct mt_grouped_gemm_args *>(args);
    int32_t offsets[AT_ONCE + 1];
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

size_t mt_cuda_grouped_gemm_dw_scratch(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_grouped_gemm_dw_args *g = static_cast<const struct mt_grouped_gemm_dw_args *>(args);
    size_t most = 0;
    for (int e = 0; e < g->experts; e++) {
        if (!mt_tensor_present(&g->dweight[e])) continue;
        struct mt_gemm_args one = gradient_of(g, e, 0, g->x.dim[0]);
        size_t bytes = cuda_gemm_bytes(&one);
        if (bytes > most) most = bytes;
    }
    return most;
}

enum mt_status mt_cuda_grouped_gemm_dw(struct mt_device *device, const void *args)
{
    const struct mt_grouped_gemm_dw_args *g = static_cast<const struct mt_grouped_gemm_dw_args *>(args);
    int32_t offsets[AT_ONCE + 1];
    for (int first = 0; first < g->experts; first += AT_ONCE) {
        int count = batch_of(g->experts, first);
        enum mt_status status = read_offsets(device, &g->offsets, first, count, g->x.dim[0], offsets);
        for (int i = 0; i < count && status == MT_OK; i++) {
            if (!mt_tensor_present(&g->dweight[first + i])) continue;
            struct mt_gemm_args one = gradient_of(g, first + i, offsets[i], offsets[i + 1] - offsets[i]);
            status = cuda_gemm(device, &one, device->scratch.data); // without rows: beta alone
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
