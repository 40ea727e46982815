/*
 * router_score on rows of floats. Rows are short and there are exponentials to make: a softmax takes four
 * tokens at a time, so that what is done once a row (the maximum, the sum and its inverse) is done for
 * four at once.
 */
#include <math.h>
#include <string.h>

#include "ops/cpu/pieces.h"
#include "ops/cpu/vector_math.h"

#define TOKENS 4 // together

/* Rows of tokens, and how many there are. */
struct score_rows {
    const float *z;
    float *p; // may be z itself
    int64_t z_row;
    int64_t p_row;
    int64_t tokens; // at most TOKENS
};

/* FLOATS_TOGETHER floats, or the first `count` of them and `filler`. */
VECTOR_INLINE void load_together(const float *source, int64_t count, float filler, vector_f32 *x)
{
    float floats[FLOATS_TOGETHER];
    if (count < FLOATS_TOGETHER) {
        for (int64_t j = 0; j < FLOATS_TOGETHER; j++) floats[j] = j < count ? source[j] : filler;
        source = floats;
    }
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) x[i] = vector_load(source + i * VECTOR_LANES);
}

VECTOR_INLINE void store_together(float *target, int64_t count, const vector_f32 *x)
{
    if (count < FLOATS_TOGETHER) {
        memcpy(target, x, (size_t)count * sizeof(float));
        return;
    }
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) vector_store(target + i * VECTOR_LANES, x[i]);
}

/* The largest number of every row, -inf where there is none: NaN loses every comparison. */
VECTOR_INLINE four_f32 row_maxima(const struct score_rows *rows, int64_t experts)
{
    vector_f32 highest[TOKENS];
    UNROLL
    for (int64_t t = 0; t < TOKENS; t++) {
        highest[t] = (vector_f32){0} - INFINITY;
        for (int64_t j = 0; j < experts && t < rows->tokens; j += FLOATS_TOGETHER) {
            vector_f32 x[VECTORS_TOGETHER];
            load_together(rows->z + t * rows->z_row + j, experts - j, -INFINITY, x);
            UNROLL
            for (int i = 0; i < VECTORS_TOGETHER; i++) highest[t] = vector_larger(x[i], highest[t]);
        }
    }
    return vector_maxima(highest);
}

/* p = exp(z - highest); returns the sum of every row. */
VECTOR_INLINE four_f32 row_exponentials(const struct score_rows *rows, int64_t experts, four_f32 highest)
{
    vector_f32 sum[TOKENS];
    UNROLL
    for (int64_t t = 0; t < TOKENS; t++) {
        sum[t] = (vector_f32){0};
        for (int64_t j = 0; j < experts && t < rows->tokens; j += FLOATS_TOGETHER) {
            vector_f32 x[VECTORS_TOGETHER];
            load_together(rows->z + t * rows->z_row + j, experts - j, -INFINITY, x);
            UNROLL
            for (int i = 0; i < VECTORS_TOGETHER; i++) x[i] -= highest[t];
            vectors_exp_nonpositive(x);
            UNROLL
            for (int i = 0; i < VECTORS_TOGETHER; i++) sum[t] += x[i];
            store_together(rows->p + t * rows->p_row + j, experts - j, x);
        }
    }
    return vector_sums(sum);
}

/* For the most usual numbers of experts it is a constant, and the loops over them vanish. */
VECTOR_INLINE void softmax_rows(const struct score_rows *rows, int64_t experts)
{
    four_f32 highest = row_maxima(rows, experts);
    four_f32 inverse = 1.0f / row_exponentials(rows, experts, highest);
    for (int64_t t = 0; t < rows->tokens; t++) {
        float *p = rows->p + t * rows->p_row;
        float factor = inverse[t];
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) p[j] *= factor;
    }
}

static void softmax(const struct mt_router_score_forward_args *a, int threads)
{
    int64_t tokens = a->logits.dim[0];
    int64_t experts = a->logits.dim[1];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < tokens; i += TOKENS) {
        struct score_rows rows = {
            .z = cpu_row(&a->logits, i),
            .p = cpu_row(&a->probs, i),
            .z_row = a->logits.stride[0],
            .p_row = a->probs.stride[0],
            .tokens = cpu_min(TOKENS, tokens - i),
        };
        switch (experts) {
        case 64: softmax_rows(&rows, 64); break;
        case 128: softmax_rows(&rows, 128); break;
        default: softmax_rows(&rows, experts); break;
        }
    }
}

static void sigmoid(const struct mt_router_score_forward_args *a, int threads)
{
    bool flat = mt_tensor_is_contiguous(&a->logits) && mt_tensor_is_contiguous(&a->probs);
    struct cpu_pieces pieces = cpu_pieces_of(&a->probs, flat);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        const float *z = cpu_piece_f32(&pieces, &a->logits, piece);
        float *p = cpu_piece_f32(&pieces, &a->probs, piece);
        for (int64_t j = 0; j < piece.count; j += FLOATS_TOGETHER) {
            vector_f32 x[VECTORS_TOGETHER];
            load_together(z + j, piece.count - j, 0.0f, x);
            vectors_sigmoid(x);
            store_together(p + j, piece.count - j, x);
        }
    }
}

void MT_CPU(router_score_forward)(struct mt_device *device, const struct mt_router_score_forward_args *a)
{
    int threads = cpu_threads(device, mt_tensor_count(&a->probs));
    if (a->kind == MT_SCORE_SOFTMAX) {
        softmax(a, threads);
    } else {
        sigmoid(a, threads);
    }
}

typedef float eight_f32 __attribute__((vector_size(8 * sizeof(float))));
typedef double eight_f64 __attribute__((vector_size(8 * sizeof(double))));

/* Adds eight products in double. gcc widens eight floats by halves unless told: half the speed. */
VECTOR_INLINE void add_eight_products(const float *p, const float *g, eight_f64 *sum)
{
    eight_f32 x, y;
    memcpy(&x, p, sizeof x);
    memcpy(&y, g, sizeof y);
#if defined(__AVX512F__) && !defined(__clang__)
    const int rounding = 4;    // as the thread has it; widening is exact anyway
    const char all = (char)-1; // eight bits of a mask, whether char has a sign or not
    *sum += __builtin_ia32_cvtps2pd512_mask(x, (eight_f64){0}, all, rounding) *
            __builtin_ia32_cvtps2pd512_mask(y, (eight_f64){0}, all, rounding);
#else
    *sum += __builtin_convertvector(x, eight_f64) * __builtin_convertvector(y, eight_f64);
#endif
}

/*
 * <p,g> of a row. In double: where gradients nearly cancel (a balance loss near balance), its error would be
 * what is left. Lanes are added as a tree: one after another they would take longer than the products.
 */
VECTOR_INLINE double row_product(const float *p, const float *g, int64_t experts)
{
    eight_f64 sum = {0};
    double rest = 0.0;
    int64_t j = 0;
    for (; j + 8 <= experts; j += 8) add_eight_products(p + j, g + j, &sum);
    for (; j < experts; j++) rest += (double)p[j] * (double)g[j];
    return (((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]))) + rest;
}

/* dz = p (g - <p,g>), or added to what dz holds. */
VECTOR_INLINE void softmax_row_backward(const float *p, const float *g, float *dz, int64_t experts,
                                        bool accumulate)
{
    float mean = (float)row_product(p, g, experts);
    if (accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] += p[j] * (g[j] - mean);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] = p[j] * (g[j] - mean);
    }
}

static void sigmoid_row_backward(const float *p, const float *g, float *dz, int64_t experts, bool accumulate)
{
    if (accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] += g[j] * p[j] * (1.0f - p[j]);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dz[j] = g[j] * p[j] * (1.0f - p[j]);
    }
}

static void softmax_backward(const struct mt_router_score_backward_args *a, int threads)
{
    int64_t tokens = a->probs.dim[0];
    int64_t experts = a->probs.dim[1];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const float *p = cpu_row(&a->probs, i);
        const float *g = cpu_row(&a->dprobs, i);
        float *dz = cpu_row(&a->dlogits, i);
        switch (experts) {
        case 64: softmax_row_backward(p, g, dz, 64, a->accumulate); break;
        case 128: softmax_row_backward(p, g, dz, 128, a->accumulate); break;
        default: softmax_row_backward(p, g, dz, experts, a->accumulate); break;
        }
    }
}

static void sigmoid_backward(const struct mt_router_score_backward_args *a, int threads)
{
    int64_t tokens = a->probs.dim[0];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        sigmoid_row_backward(cpu_row(&a->probs, i), cpu_row(&a->dprobs, i), cpu_row(&a->dlogits, i),
                             a->probs.dim[1], a->accumulate);
    }
}

void MT_CPU(router_score_backward)(struct mt_device *device, const struct mt_router_score_backward_args *a)
{
    int threads = cpu_threads(device, mt_tensor_count(&a->probs));
    if (a->kind == MT_SCORE_SOFTMAX) {
        softmax_backward(a, threads);
    } else {
        sigmoid_backward(a, threads);
    }
}
