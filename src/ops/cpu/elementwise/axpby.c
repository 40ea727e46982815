/* axpby on floats; with beta 0 what y held is never read. */
#include "ops/cpu/pieces.h"

static void combine(float alpha, const float *restrict x, float beta, float *restrict y, int64_t count)
{
    if (beta == 0.0f) {
#pragma omp simd
        for (int64_t j = 0; j < count; j++) y[j] = alpha * x[j];
    } else {
#pragma omp simd
        for (int64_t j = 0; j < count; j++) y[j] = alpha * x[j] + beta * y[j];
    }
}

bool MT_CPU(axpby_fits)(const struct mt_axpby_args *a)
{
    return cpu_all_f32(&a->x, &a->y);
}

void MT_CPU(axpby)(struct mt_device *device, const struct mt_axpby_args *a)
{
    float alpha = a->alpha;
    if (mt_tensor_present(&a->factor)) alpha *= (float)mt_load(a->factor.dtype, a->factor.data, 0);
    bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, flat);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        combine(alpha, cpu_piece_f32(&pieces, &a->x, piece), a->beta, cpu_piece_f32(&pieces, &a->y, piece),
                piece.count);
    }
}
