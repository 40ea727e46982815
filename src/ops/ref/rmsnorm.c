/*
 * rmsnorm: y_j = w_j h_j r, r = 1/sqrt(mean h² + ε), h = x (+ residual).
 * Backward, with g_j = dy_j w_j: dh_j = r g_j - h_j r³ mean(g·h); dw_j = Σ_t dy_j h_j r.
 */
#include <math.h>

#include "ops/ref/ref.h"

enum mt_status mt_ref_rmsnorm_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_rmsnorm_forward_args *a = args;
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    bool has_residual = mt_tensor_present(&a->residual);
    const struct mt_tensor *h = has_residual ? &a->sum : &a->x;
    for (int64_t t = 0; t < tokens; t++) {
        double squares = 0.0;
        for (int64_t j = 0; j < width; j++) {
            if (has_residual) ref_set2(&a->sum, t, j, ref_get2(&a->x, t, j) + ref_get2(&a->residual, t, j));
            double value = ref_get2(h, t, j);
            squares += value * value;
        }
        double rstd = 1.0 / sqrt(squares / (double)width + (double)a->epsilon);
        for (int64_t j = 0; j < width; j++) {
            ref_set2(&a->y, t, j, ref_get2(h, t, j) * rstd * ref_get1(&a->weight, j));
        }
        if (mt_tensor_present(&a->rstd)) ref_set1(&a->rstd, t, rstd);
    }
    return MT_OK;
}

enum mt_status mt_ref_rmsnorm_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_rmsnorm_backward_args *a = args;
    int64_t tokens = a->x.dim[0];
    int64_t width = a->x.dim[1];
    for (int64_t t = 0; t < tokens; t++) {
        double rstd = ref_get1(&a->rstd, t);
        double dot = 0.0;
        for (int64_t j = 0; j < width; j++) {
            double dy = ref_get2(&a->dy, t, j);
            double x = ref_get2(&a->x, t, j);
            dot += dy * ref_get1(&a->weight, j) * x;
            if (mt_tensor_present(&a->dweight)) {
                ref_set1(&a->dweight, j, ref_get1(&a->dweight, j) + dy * x * rstd);
            }
        }
        double mean = dot / (double)width;
        for (int64_t j = 0; j < width; j++) {
            double g = ref_get2(&a->dy, t, j) * ref_get1(&a->weight, j);
            double dx = rstd * g - ref_get2(&a->x, t, j) * rstd * rstd * rstd * mean;
            if (a->accumulate) dx += ref_get2(&a->dx, t, j);
            ref_set2(&a->dx, t, j, dx);
        }
    }
    return MT_OK;
}
