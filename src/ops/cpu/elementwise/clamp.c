/* clamp on floats. Comparisons with NaN are false: forward keeps it, backward passes nothing. */
#include <math.h>

#include "ops/cpu/pieces.h"

static void clamp_piece(const float *x, float *y, float limit, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float raised = x[j] < -limit ? -limit : x[j];
        y[j] = raised > limit ? limit : raised;
    }
}

static void pass_piece(const float *dy, const float *x, float *dx, float limit, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) dx[j] = fabsf(x[j]) <= limit ? dy[j] : 0.0f;
}

void MT_CPU(clamp_forward)(struct mt_device *device, const struct mt_clamp_forward_args *a)
{
    bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, flat);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        clamp_piece(cpu_piece_f32(&pieces, &a->x, piece), cpu_piece_f32(&pieces, &a->y, piece), a->limit,
                    piece.count);
    }
}

void MT_CPU(clamp_backward)(struct mt_device *device, const struct mt_clamp_backward_args *a)
{
    bool flat =
        mt_tensor_is_contiguous(&a->dy) && mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->dx);
    struct cpu_pieces pieces = cpu_pieces_of(&a->dx, flat);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->dx))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        pass_piece(cpu_piece_f32(&pieces, &a->dy, piece), cpu_piece_f32(&pieces, &a->x, piece),
                   cpu_piece_f32(&pieces, &a->dx, piece), a->limit, piece.count);
    }
}
