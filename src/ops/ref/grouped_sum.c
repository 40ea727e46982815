/*
 * grouped_sum: with e the expert of row r, y_rj = beta y_rj + Σ_t alpha_t m_trj Σ_p x_trp
 * op(W_t,e)_pj, m being mask_scale or 0 where there is a mask, else 1. An absent W_t,e leaves its term out.
 */
#include "ops/ref/mask.h"

/* m_rj Σ_p x_rp op(W)_pj. */
static double product_of(const struct mt_product_term *term, const struct mt_tensor *weight, int64_t r,
                         int64_t j)
{
    double sum = 0.0;
    for (int64_t p = 0; p < term->x.dim[1]; p++) {
        double w = term->transpose_weight ? ref_get2(weight, j, p) : ref_get2(weight, p, j);
        sum += ref_get2(&term->x, r, p) * w;
    }
    return sum * ref_masked(&term->mask_y, term->mask_scale, r, j);
}

static void sum_row(const struct mt_grouped_sum_args *a, int e, int64_t r)
{
    for (int64_t j = 0; j < a->y.dim[1]; j++) {
        double sum = a->beta == 0.0f ? 0.0 : (double)a->beta * ref_get2(&a->y, r, j);
        for (int t = 0; t < a->count; t++) {
            const struct mt_product_term *term = &a->terms[t];
            if (mt_tensor_present(&term->weight[e]))
                sum += (double)term->alpha * product_of(term, &term->weight[e], r, j);
        }
        ref_set2(&a->y, r, j, sum);
    }
}

enum mt_status mt_ref_grouped_sum(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_grouped_sum_args *a = args;
    bool sorted = mt_tensor_present(&a->offsets);
    for (int e = 0; e < a->experts; e++) {
        int64_t first = sorted ? ref_int1(&a->offsets, e) : 0;
        int64_t end = sorted ? ref_int1(&a->offsets, e + 1) : a->y.dim[0];
        for (int64_t r = first; r < end; r++) sum_row(a, e, r);
    }
    return MT_OK;
}
