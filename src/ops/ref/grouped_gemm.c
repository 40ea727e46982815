/*
 * grouped_gemm: with e the expert of row r, y_rj = alpha Σ_p x_rp op(W_e)_pj + beta y_rj.
 * An absent W_e leaves beta y_rj.
 * head_gemm: the same with h for e, over all rows of each head.
 * grouped_gemm_dw: dW_e,ij = alpha Σ_r dy_ri x_rj + beta dW_e,ij over the rows r of expert e.
 */
#include "ops/ref/ref.h"

/* y = beta y. */
static void scale(const struct mt_tensor *y, float beta)
{
    for (int64_t i = 0; i < y->dim[0]; i++) {
        for (int64_t j = 0; j < y->dim[1]; j++) {
            ref_set2(y, i, j, beta == 0.0f ? 0.0 : (double)beta * ref_get2(y, i, j));
        }
    }
}

enum mt_status mt_ref_grouped_gemm(struct mt_device *device, const void *args)
{
    const struct mt_grouped_gemm_args *g = args;
    for (int e = 0; e < g->experts; e++) {
        int32_t first = ref_int1(&g->offsets, e);
        int32_t count = ref_int1(&g->offsets, e + 1) - first;
        struct mt_gemm_args one = {
            .a = mt_tensor_rows(&g->x, first, count),
            .b = g->weight[e],
            .c = mt_tensor_rows(&g->y, first, count),
            .transpose_b = g->transpose_weight,
            .alpha = g->alpha,
            .beta = g->beta,
        };
        if (!mt_tensor_present(&g->weight[e])) {
            scale(&one.c, g->beta);
            continue;
        }
        enum mt_status status = mt_ref_gemm(device, &one);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_ref_head_gemm(struct mt_device *device, const void *args)
{
    const struct mt_head_gemm_args *g = args;
    enum mt_status status = MT_OK;
    for (int64_t h = 0; h < g->x.dim[1] && status == MT_OK; h++) {
        status = mt_ref_gemm(device, &(struct mt_gemm_args){.a = mt_tensor_head(&g->x, h),
                                                            .b = g->weight[h],
                                                            .c = mt_tensor_head(&g->y, h),
                                                            .transpose_b = g->transpose_weight,
                                                            .alpha = g->alpha,
                                                            .beta = g->beta});
    }
    return status;
}

/* dW_ij = alpha Σ_r dy_ri x_rj + beta dW_ij over rows [first, end). */
static void add_gradient(const struct mt_grouped_gemm_dw_args *g, const struct mt_tensor *dweight,
                         int64_t first, int64_t end)
{
    for (int64_t i = 0; i < dweight->dim[0]; i++) {
        for (int64_t j = 0; j < dweight->dim[1]; j++) {
            double sum = 0.0;
            for (int64_t r = first; r < end; r++) sum += ref_get2(&g->dy, r, i) * ref_get2(&g->x, r, j);
            double value = (double)g->alpha * sum;
            if (g->beta != 0.0f) value += (double)g->beta * ref_get2(dweight, i, j);
            ref_set2(dweight, i, j, value);
        }
    }
}

enum mt_status mt_ref_grouped_gemm_dw(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_grouped_gemm_dw_args *g = args;
    bool sorted = mt_tensor_present(&g->offsets);
    for (int e = 0; e < g->experts; e++) {
        if (!mt_tensor_present(&g->dweight[e])) continue;
        int64_t first = sorted ? ref_int1(&g->offsets, e) : 0;
        int64_t end = sorted ? ref_int1(&g->offsets, e + 1) : g->x.dim[0];
        add_gradient(g, &g->dweight[e], first, end);
    }
    return MT_OK;
}
