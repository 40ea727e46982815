/*
 * layernorm: y_j = w_j n_j + b_j, n_j = (h_j - μ) r, μ = mean h, r = 1/sqrt(mean (h-μ)² + ε),
 * h = x (+ residual).
 * Backward, with g_j = dy_j w_j: dh_j = r (g_j - mean(g) - n_j mean(g·n)); dw_j = Σ_t dy_j n_j;
 * db_j = Σ_t dy_j.
 */
#include <math.h>

#include "ops/ref/ref.h"

enum mt_status mt_ref_layernorm_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_layernorm_forward_args *a = args;
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    bool has_residual = mt_tensor_present(&a->residual);
    const struct mt_tensor *h = has_residual ? &a->sum : &a->x;
    for (int64_t t = 0; t < tokens; t++) {
        double total = 0.0;
        for (int64_t j = 0; j < width; j++) {
            if (has_residual) ref_set2(&a->sum, t, j, ref_get2(&a->x, t, j) + ref_get2(&a->residual, t, j));
            total += ref_get2(h, t, j);
        }
        double mean = total / (double)width;
        double squares = 0.0;
        for (int64_t j = 0; j < width; j++) {
            double centred = ref_get2(h, t, j) - mean;
            squares += centred * centred;
        }
        double rstd = 1.0 / sqrt(squares / (double)width + (double)a->epsilon);
        for (int64_t j = 0; j < width; j++) {
            double normed = (ref_get2(h, t, j) - mean) * rstd;
            ref_set2(&a->y, t, j, normed * ref_get1(&a->weight, j) + ref_get1(&a->bias, j));
        }
        if (mt_tensor_present(&a->mean)) {
            ref_set1(&a->mean, t, mean);
            ref_set1(&a->rstd, t, rstd);
        }
    }
    return MT_OK;
}

static void add_to(const struct mt_tensor *vector, int64_t j, double value)
{
    if (mt_tensor_present(vector)) ref_set1(vector, j, ref_get1(vector, j) + value);
}

enum mt_status mt_ref_layernorm_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_layernorm_backward_args *a = args;
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    for (int64_t t = 0; t < tokens; t++) {
        double mean = ref_get1(&a->mean, t);
        double rstd = ref_get1(&a->rstd, t);
        double sum_g = 0.0;
        double sum_gn = 0.0;
        for (int64_t j = 0; j < width; j++) {
            double dy = ref_get2(&a->dy, t, j);
            double normed = (ref_get2(&a->x, t, j) - mean) * rstd;
            double g = dy * ref_get1(&a->weight, j);
            sum_g += g;
            sum_gn += g * normed;
            add_to(&a->dweight, j, dy * normed);
            add_to(&a->dbias, j, dy);
        }
        double mean_g = sum_g / (double)width;
        double mean_gn = sum_gn / (double)width;
        for (int64_t j = 0; j < width; j++) {
            double normed = (ref_get2(&a->x, t, j) - mean) * rstd;
            double g = ref_get2(&a->dy, t, j) * ref_get1(&a->weight, j);
            double dx = rstd * (g - mean_g - normed * mean_gn);
            ref_set2(&a->dx, t, j, a->accumulate ? ref_get2(&a->dx, t, j) + dx : dx);
        }
    }
    return MT_OK;
}
