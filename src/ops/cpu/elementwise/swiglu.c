/*
 * swiglu on rows of floats, without and with a limit. The outputs may be the inputs themselves: element j is
 * read before it is written, and no pointer is `restrict`.
 */
#include "ops/cpu/pieces.h"
#include "ops/cpu/simd.h"

static void forward_piece(const float *gate, const float *up, float *y, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] = gate[j] * simd_sigmoid(gate[j]) * up[j];
}

static void backward_piece(const float *dy, const float *gate, const float *up, float *dgate, float *dup,
                           int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float g = gate[j];
        float sigmoid = simd_sigmoid(g);
        float from_gate = dy[j] * up[j] * sigmoid * (1.0f + g * (1.0f - sigmoid));
        float from_up = dy[j] * g * sigmoid;
        dgate[j] = from_gate;
        dup[j] = from_up;
    }
}

/* The same, and y in forward's own bits. */
static void backward_piece_again(const float *dy, const float *gate, const float *up, float *dgate,
                                 float *dup, float *y, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float g = gate[j];
        float u = up[j];
        float d = dy[j];
        float sigmoid = simd_sigmoid(g);
        dgate[j] = d * u * sigmoid * (1.0f + g * (1.0f - sigmoid));
        dup[j] = d * g * sigmoid;
        y[j] = g * sigmoid * u;
    }
}

// ------------------------------------------------------------------ with a limit

/* g and u + 1 of one element, as they are multiplied. */
static inline float limited_gate(float gate, float limit)
{
    return gate > limit ? limit : gate;
}

static inline float limited_up(float up, float limit)
{
    float clamped = up > limit ? limit : up;
    return (clamped < -limit ? -limit : clamped) + 1.0f;
}

static void limited_forward_piece(const float *gate, const float *up, float limit, float alpha, float *y,
                                  int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float g = limited_gate(gate[j], limit);
        y[j] = g * simd_sigmoid(alpha * g) * limited_up(up[j], limit);
    }
}

/* y: NULL, or where forward's own bits go. */
static void limited_backward_piece(const float *dy, const float *gate, const float *up, float limit,
                                   float alpha, float *dgate, float *dup, float *y, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float d = dy[j];
        float g = limited_gate(gate[j], limit);
        float u = limited_up(up[j], limit);
        float sigmoid = simd_sigmoid(alpha * g);
        float from_gate = d * u * sigmoid * (1.0f + alpha * g * (1.0f - sigmoid));
        float from_up = d * g * sigmoid;
        dgate[j] = gate[j] <= limit ? from_gate : 0.0f;
        dup[j] = up[j] <= limit && up[j] >= -limit ? from_up : 0.0f;
        if (y != NULL) y[j] = g * sigmoid * u;
    }
}

// ------------------------------------------------------------------ the ops

void MT_CPU(swiglu_forward)(struct mt_device *device, const struct mt_swiglu_forward_args *a)
{
    bool flat = mt_tensor_is_contiguous(&a->gate) && mt_tensor_is_contiguous(&a->up) &&
                mt_tensor_is_contiguous(&a->y);
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, flat);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        const float *gate = cpu_piece_f32(&pieces, &a->gate, piece);
        const float *up = cpu_piece_f32(&pieces, &a->up, piece);
        float *y = cpu_piece_f32(&pieces, &a->y, piece);
        if (a->limit > 0.0f) {
            limited_forward_piece(gate, up, a->limit, a->alpha, y, piece.count);
        } else {
            forward_piece(gate, up, y, piece.count);
        }
    }
}

void MT_CPU(swiglu_backward)(struct mt_device *device, const struct mt_swiglu_backward_args *a)
{
    bool again = mt_tensor_present(&a->y);
    bool flat = mt_tensor_is_contiguous(&a->dy) && mt_tensor_is_contiguous(&a->gate) &&
                mt_tensor_is_contiguous(&a->up) && mt_tensor_is_contiguous(&a->dgate) &&
                mt_tensor_is_contiguous(&a->dup) && (!again || mt_tensor_is_contiguous(&a->y));
    struct cpu_pieces pieces = cpu_pieces_of(&a->dy, flat);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->dy))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        const float *dy = cpu_piece_f32(&pieces, &a->dy, piece);
        const float *gate = cpu_piece_f32(&pieces, &a->gate, piece);
        const float *up = cpu_piece_f32(&pieces, &a->up, piece);
        float *dgate = cpu_piece_f32(&pieces, &a->dgate, piece);
        float *dup = cpu_piece_f32(&pieces, &a->dup, piece);
        float *y = again ? cpu_piece_f32(&pieces, &a->y, piece) : NULL;
        if (a->limit > 0.0f) {
            limited_backward_piece(dy, gate, up, a->limit, a->alpha, dgate, dup, y, piece.count);
        } else if (again) {
            backward_piece_again(dy, gate, up, dgate, dup, y, piece.count);
        } else {
            backward_piece(dy, gate, up, dgate, dup, piece.count);
        }
    }
}
