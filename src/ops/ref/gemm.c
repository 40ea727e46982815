/* gemm: c_ij = alpha Σ_p op(a)_ip op(b)_pj + beta c_ij. */
#include "ops/ref/ref.h"

enum mt_status mt_ref_gemm(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_gemm_args *g = args;
    int64_t inner = g->a.dim[g->transpose_a ? 0 : 1];
    for (int64_t i = 0; i < g->c.dim[0]; i++) {
        for (int64_t j = 0; j < g->c.dim[1]; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < inner; p++) {
                double a = g->transpose_a ? ref_get2(&g->a, p, i) : ref_get2(&g->a, i, p);
                double b = g->transpose_b ? ref_get2(&g->b, j, p) : ref_get2(&g->b, p, j);
                sum += a * b;
            }
            double value = (double)g->alpha * sum;
            if (g->beta != 0.0f) value += (double)g->beta * ref_get2(&g->c, i, j);
            ref_set2(&g->c, i, j, value);
        }
    }
    return MT_OK;
}
