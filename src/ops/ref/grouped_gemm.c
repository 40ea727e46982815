/*
 * grouped_gemm: with e the expert of row r, y_rj = alpha Σ_p x_rp op(W_e)_pj + beta y_rj.
 * An absent W_e leaves beta y_rj.
 * grouped_gemm_dw: dW_e,ij = alpha Σ_r dy_ri x_rj + beta dW_e,ij over the rows r of expert e.
 * A dropped x_rp is x_rp m_rp, m drawn from the element's own random word; so is a dropped y_rj, before beta
 * y_rj is added.
 */
#include "base/rng.h"
#include "ops/ref/ref.h"

/* What element `element` is multiplied by: an f32, as random_multiply has it. */
static double multiplier(const struct mt_dropout *drop, int64_t element)
{
    if (drop->amount == 0.0f) return 1.0;
    float unit = mt_rng_unit(mt_rng_u32(drop->seed, drop->stream, (uint64_t)element));
    return unit < drop->amount ? 0.0 : (double)(1.0f / (1.0f - drop->amount));
}

static double dropped(const struct mt_tensor *x, const struct mt_dropout *drop, int64_t row, int64_t column)
{
    return ref_get2(x, row, column) * multiplier(drop, row * x->dim[1] + column);
}

/* beta · old, where old counts for nothing with beta 0. */
static double kept(float beta, double old)
{
    return beta == 0.0f ? 0.0 : (double)beta * old;
}

/* y of one row of expert e. */
static void forward_row(const struct mt_grouped_gemm_args *g, int e, int64_t row)
{
    const struct mt_tensor *weight = &g->weight[e];
    int64_t steps = mt_tensor_present(weight) ? g->x.dim[1] : 0;
    for (int64_t j = 0; j < g->y.dim[1]; j++) {
        double sum = 0.0;
        for (int64_t p = 0; p < steps; p++) {
            double factor = g->transpose_weight ? ref_get2(weight, j, p) : ref_get2(weight, p, j);
            sum += dropped(&g->x, &g->drop_x, row, p) * factor;
        }
        double product = (double)g->alpha * sum * multiplier(&g->drop_y, row * g->y.dim[1] + j);
        ref_set2(&g->y, row, j, product + kept(g->beta, ref_get2(&g->y, row, j)));
    }
}

enum mt_status mt_ref_grouped_gemm(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_grouped_gemm_args *g = args;
    for (int e = 0; e < g->experts; e++) {
        for (int64_t row = ref_int1(&g->offsets, e); row < ref_int1(&g->offsets, e + 1); row++) {
            forward_row(g, e, row);
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_grouped_gemm_dw(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_grouped_gemm_dw_args *g = args;
    for (int e = 0; e < g->experts; e++) {
        const struct mt_tensor *dweight = &g->dweight[e];
        if (!mt_tensor_present(dweight)) continue;
        for (int64_t i = 0; i < dweight->dim[0]; i++) {
            for (int64_t j = 0; j < dweight->dim[1]; j++) {
                double sum = 0.0;
                for (int64_t r = ref_int1(&g->offsets, e); r < ref_int1(&g->offsets, e + 1); r++) {
                    sum += ref_get2(&g->dy, r, i) * dropped(&g->x, &g->drop_x, r, j);
                }
                double product = (double)g->alpha * sum;
                ref_set2(dweight, i, j, product + kept(g->beta, ref_get2(dweight, i, j)));
            }
        }
    }
    return MT_OK;
}
