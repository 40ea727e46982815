/*
 * router_orth on a Gram matrix of floats, in double. Forward: one sum per row, added in order. Backward:
 * rows in bands of TILE, each walked in square tiles, because the coupling of e and f needs gram[e,f] and
 * gram[f,e]: the second comes from a tile transposed on the way.
 */
#include <math.h>
#include <string.h>

#include "ops/cpu/level.h"

#define SHORTEST 1e-12 // what a row's length counts for at the least
#define TILE     16

static int64_t group_size(const struct mt_tensor *gram, int groups)
{
    return gram->dim[0] / (groups > 1 ? groups : 1);
}

/* inverse[e] = 1 / max(|w_e|, SHORTEST). */
static void inverse_lengths(const struct mt_tensor *gram, double *inverse)
{
    for (int64_t e = 0; e < gram->dim[0]; e++) {
        double square = (double)cpu_row(gram, e)[e];
        inverse[e] = square <= SHORTEST * SHORTEST ? 1.0 / SHORTEST : 1.0 / sqrt(square);
    }
}

size_t MT_CPU(router_orth_forward_scratch)(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_orth_forward_args *a = args;
    return 2 * (size_t)a->gram.dim[0] * sizeof(double);
}

/* Σ_f |G_ef - δ_ef| */
static double row_l1(const float *row, int64_t experts, int64_t e)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t f = 0; f < experts; f++) sum += fabs((double)row[f] - (f == e ? 1.0 : 0.0));
    return sum;
}

/* Σ_f (Ĝ_ef - δ_ef)² over the row's group, [from, from + size). */
static double row_cosine(const float *row, const double *inverse, int64_t from, int64_t size, int64_t e)
{
    double sum = 0.0;
    double own = inverse[e];
#pragma omp simd reduction(+ : sum)
    for (int64_t f = from; f < from + size; f++) {
        double cosine = (double)row[f] * own * inverse[f] - (f == e ? 1.0 : 0.0);
        sum += cosine * cosine;
    }
    return sum;
}

enum mt_status MT_CPU(router_orth_forward)(struct mt_device *device, const void *args)
{
    const struct mt_router_orth_forward_args *a = args;
    if (!cpu_is_f32(&a->gram)) return mt_ref_router_orth_forward(device, args);

    int64_t experts = a->gram.dim[0];
    int64_t size = group_size(&a->gram, a->groups);
    double *sums = device->scratch.data; // [n]
    double *inverse = sums + experts;    // [n]
    bool cosine = a->kind == MT_ROUTER_ORTH_COSINE;
    if (cosine) inverse_lengths(&a->gram, inverse);
#pragma omp parallel for num_threads(cpu_threads(device, experts *size)) schedule(static)
    for (int64_t e = 0; e < experts; e++) {
        const float *row = cpu_row(&a->gram, e);
        sums[e] = cosine ? row_cosine(row, inverse, e / size * size, size, e) : row_l1(row, experts, e);
    }
    double sum = 0.0;
    for (int64_t e = 0; e < experts; e++) sum += sums[e];
    ((double *)a->loss.data)[0] = cosine ? sum / (double)(experts * size) : sum;
    return MT_OK;
}

size_t MT_CPU(router_orth_backward_scratch)(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_orth_backward_args *a = args;
    return (size_t)a->gram.dim[0] * sizeof(double);
}

/* Rows [e0, e0 + rows) against the group [from, from + size) they lie in. */
struct band {
    int64_t e0, rows;
    int64_t from, size;
};

/* down[e][f] = gram[f0 + f, e0 + e] */
static void load_transposed(const struct mt_tensor *gram, const struct band *band, int64_t f0,
                            int64_t columns, float down[TILE][TILE])
{
    for (int64_t f = 0; f < columns; f++) {
        const float *row = cpu_row(gram, f0 + f) + band->e0;
        for (int64_t e = 0; e < band->rows; e++) down[e][f] = row[e];
    }
}

/* One row of a tile: coupling = scale · (sign(G_ef - δ_ef) + sign(G_fe - δ_fe)). */
static void tile_row_l1(const float *across, const float *down, int64_t columns, int64_t diagonal,
                        double scale, float *coupling)
{
#pragma omp simd
    for (int64_t f = 0; f < columns; f++) {
        float same = f == diagonal ? 1.0f : 0.0f;
        int signs = (across[f] > same) - (across[f] < same) + (down[f] > same) - (down[f] < same);
        coupling[f] = (float)(scale * (double)signs);
    }
}

/*
 * One row of a tile: coupling = scale · 2 (Ĝ_ef + Ĝ_fe - 2δ_ef) / (l_e l_f), the divisor being part of scale.
 * Returns Σ_f (Ĝ_ef - δ_ef) Ĝ_ef + (Ĝ_fe - δ_fe) Ĝ_fe: what the length of row e has to do with it.
 */
static double tile_row_cosine(const float *across, const float *down, int64_t columns, int64_t diagonal,
                              double scale, double own_inverse, const double *inverse, float *coupling)
{
    double pull = 0.0;
#pragma omp simd reduction(+ : pull)
    for (int64_t f = 0; f < columns; f++) {
        double over = own_inverse * inverse[f];
        double same = f == diagonal ? 1.0 : 0.0;
        double cosine = (double)across[f] * over;
        double other = (double)down[f] * over;
        pull += (cosine - same) * cosine + (other - same) * other;
        coupling[f] = (float)(2.0 * scale * over * (cosine - same + (other - same)));
    }
    return pull;
}

static void couple_band(const struct mt_router_orth_backward_args *a, const struct band *band,
                        const double *inverse)
{
    bool cosine = a->kind == MT_ROUTER_ORTH_COSINE;
    double scale = (double)a->scale / (cosine ? (double)(a->gram.dim[0] * band->size) : 1.0);
    double pull[TILE] = {0};
    for (int64_t f0 = band->from; f0 < band->from + band->size; f0 += TILE) {
        int64_t columns = cpu_min(TILE, band->from + band->size - f0);
        float down[TILE][TILE];
        load_transposed(&a->gram, band, f0, columns, down);
        for (int64_t e = 0; e < band->rows; e++) {
            const float *across = cpu_row(&a->gram, band->e0 + e) + f0;
            float *coupling = cpu_row(&a->coupling, band->e0 + e) + f0;
            int64_t diagonal = band->e0 + e - f0;
            if (cosine) {
                pull[e] += tile_row_cosine(across, down[e], columns, diagonal, scale, inverse[band->e0 + e],
                                           inverse + f0, coupling);
            } else {
                tile_row_l1(across, down[e], columns, diagonal, scale, coupling);
            }
        }
    }
    for (int64_t e = band->e0; e < band->e0 + band->rows && cosine; e++) {
        float *coupling = cpu_row(&a->coupling, e);
        memset(coupling, 0, (size_t)band->from * sizeof(float));
        int64_t end = band->from + band->size;
        memset(coupling + end, 0, (size_t)(a->gram.dim[0] - end) * sizeof(float));
        bool clamped = (double)cpu_row(&a->gram, e)[e] <= SHORTEST * SHORTEST;
        double by_length = 2.0 * scale * pull[e - band->e0] * inverse[e] * inverse[e];
        if (!clamped) coupling[e] = (float)((double)coupling[e] - by_length);
    }
}

enum mt_status MT_CPU(router_orth_backward)(struct mt_device *device, const void *args)
{
    const struct mt_router_orth_backward_args *a = args;
    if (!cpu_is_f32(&a->gram) || !cpu_is_f32(&a->coupling)) return mt_ref_router_orth_backward(device, args);

    int64_t experts = a->gram.dim[0];
    int64_t size = group_size(&a->gram, a->groups);
    int64_t bands = (size + TILE - 1) / TILE; // of one group
    double *inverse = device->scratch.data;   // [n]
    inverse_lengths(&a->gram, inverse);
#pragma omp parallel for num_threads(cpu_threads(device, experts *experts)) schedule(static)
    for (int64_t i = 0; i < experts / size * bands; i++) {
        int64_t from = i / bands * size;
        int64_t start = i % bands * TILE;
        struct band band = {from + start, cpu_min(TILE, size - start), from, size};
        couple_band(a, &band, inverse);
    }
    return MT_OK;
}
