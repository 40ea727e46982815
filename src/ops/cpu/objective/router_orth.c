/*
 * router_orth on rows of f32, bf16 or f16, everything in double from their first reading on. The rows as they
 * are compared (of the cosine kind: divided by their lengths) are laid out as doubles once; then bands of
 * BAND rows are independent of each other: their products with the rows of their group, and from these the
 * band's part of the loss or of the gradient. Columns are taken in blocks that stay in the first-level cache.
 *
 * With g_e = Σ_f (c_ef - δ_ef) u_f the cosine kind's gradient is g_e - <g_e, u_e> u_e, over the length: in
 * one dimension every u is 1 or -1, every step exact, and the difference exactly 0, as it has to be.
 */
#include <math.h>
#include <string.h>

#include "ops/cpu/elementwise/convert.h"
#include "ops/cpu/level.h"

#define SHORTEST 1e-12 // what a row's length counts for at the least
#define BAND     4
#define COLUMNS  256

/* The rows as they are compared, and what follows from them. */
struct rows {
    int64_t experts, width; // n, d
    int64_t size;           // g: experts of a group
    bool cosine;
    double *row;     // [n,d]
    double *length;  // [n]: what the rows were divided by
    double *product; // [n,g]: of every row with those of its group
    double *sum;     // [n]: of every row, for the op's one number
};

static struct rows rows_at(const struct mt_tensor *weight, enum mt_router_orth_kind kind, int groups,
                           double *memory)
{
    struct rows r = {
        .experts = weight->dim[0],
        .width = weight->dim[1],
        .size = weight->dim[0] / (groups > 1 ? groups : 1),
        .cosine = kind == MT_ROUTER_ORTH_COSINE,
        .row = memory,
    };
    if (memory == NULL) return r;
    r.length = r.row + r.experts * r.width;
    r.product = r.length + r.experts;
    r.sum = r.product + r.experts * r.size;
    return r;
}

static size_t scratch_bytes(const struct mt_tensor *weight, enum mt_router_orth_kind kind, int groups)
{
    struct rows r = rows_at(weight, kind, groups, NULL);
    return (size_t)r.experts * ((size_t)r.width + (size_t)r.size + 2) * sizeof(double);
}

/* Row e of the weight, as doubles. */
static void read_row(const struct mt_tensor *weight, int64_t e, double *row)
{
    const unsigned char *source =
        (const unsigned char *)weight->data + (size_t)(e * weight->stride[0]) * mt_dtype_bytes(weight->dtype);
    for (int64_t start = 0; start < weight->dim[1]; start += COLUMNS) {
        int64_t count = cpu_min(COLUMNS, weight->dim[1] - start);
        float piece[COLUMNS];
        cpu_convert_to_f32(weight->dtype, source + (size_t)start * mt_dtype_bytes(weight->dtype), count,
                           piece);
#pragma omp simd
        for (int64_t j = 0; j < count; j++) row[start + j] = (double)piece[j];
    }
}

static double length_of(const double *row, int64_t width)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; j++) sum += row[j] * row[j];
    double length = sqrt(sum);
    return length <= SHORTEST ? SHORTEST : length; // NaN stays
}

static void read_rows(const struct mt_device *device, const struct mt_tensor *weight, const struct rows *r)
{
#pragma omp parallel for num_threads(cpu_threads(device, r->experts * r->width)) schedule(static)
    for (int64_t e = 0; e < r->experts; e++) {
        double *row = r->row + e * r->width;
        read_row(weight, e, row);
        r->length[e] = r->cosine ? length_of(row, r->width) : 1.0;
        double length = r->length[e];
#pragma omp simd
        for (int64_t j = 0; j < r->width; j++) row[j] /= length;
    }
}

/* Rows [e0, e0 + rows) against the group [from, from + size) they lie in. */
struct band {
    int64_t e0, rows;
    int64_t from;
};

static int64_t bands_of_group(const struct rows *r)
{
    return (r->size + BAND - 1) / BAND;
}

static struct band band_at(const struct rows *r, int64_t index)
{
    int64_t bands = bands_of_group(r);
    int64_t from = index / bands * r->size;
    int64_t start = index % bands * BAND;
    return (struct band){from + start, cpu_min(BAND, r->size - start), from};
}

/* The place of row `place` of a band; the last one stands in for rows a short band lacks. */
static int64_t row_of_band(const struct band *band, int64_t place)
{
    return band->e0 + cpu_min(place, band->rows - 1);
}

/* Fills product[e] of the band's rows. */
static void band_products(const struct rows *r, const struct band *band)
{
    for (int64_t e = band->e0; e < band->e0 + band->rows; e++) {
        memset(r->product + e * r->size, 0, (size_t)r->size * sizeof(double));
    }
    for (int64_t start = 0; start < r->width; start += COLUMNS) {
        int64_t count = cpu_min(COLUMNS, r->width - start);
        const double *own[BAND];
        for (int64_t i = 0; i < BAND; i++) own[i] = r->row + row_of_band(band, i) * r->width + start;
        for (int64_t f = 0; f < r->size; f++) {
            const double *other = r->row + (band->from + f) * r->width + start;
            double dot0 = 0.0;
            double dot1 = 0.0;
            double dot2 = 0.0;
            double dot3 = 0.0;
#pragma omp simd reduction(+ : dot0, dot1, dot2, dot3)
            for (int64_t j = 0; j < count; j++) {
                dot0 += own[0][j] * other[j];
                dot1 += own[1][j] * other[j];
                dot2 += own[2][j] * other[j];
                dot3 += own[3][j] * other[j];
            }
            double dots[BAND] = {dot0, dot1, dot2, dot3};
            for (int64_t i = 0; i < band->rows; i++) r->product[(band->e0 + i) * r->size + f] += dots[i];
        }
    }
}

/* Row e's part of the loss, before the divisor; diagonal: the place of e in its group. */
static double row_loss(const struct rows *r, int64_t e, int64_t diagonal)
{
    const double *product = r->product + e * r->size;
    double sum = 0.0;
    for (int64_t f = 0; f < r->size; f++) {
        double difference = product[f] - (f == diagonal ? 1.0 : 0.0);
        sum += r->cosine ? difference * difference : fabs(difference);
    }
    return sum;
}

static double sum_of_rows(const struct rows *r)
{
    double sum = 0.0;
    for (int64_t e = 0; e < r->experts; e++) sum += r->sum[e];
    return sum;
}

static double divisor_of(const struct rows *r)
{
    return r->cosine ? (double)(r->experts * r->size) : 1.0;
}

size_t MT_CPU(router_orth_forward_scratch)(const struct mt_device *device,
                                           const struct mt_router_orth_forward_args *a)
{
    (void)device;
    return scratch_bytes(&a->weight, a->kind, a->groups);
}

bool MT_CPU(router_orth_forward_fits)(const struct mt_router_orth_forward_args *a)
{
    return cpu_converts(a->weight.dtype);
}

void MT_CPU(router_orth_forward)(struct mt_device *device, const struct mt_router_orth_forward_args *a)
{

    struct rows r = rows_at(&a->weight, a->kind, a->groups, device->scratch.data);
    read_rows(device, &a->weight, &r);
    int64_t bands = r.experts / r.size * bands_of_group(&r);
#pragma omp parallel for num_threads(cpu_threads(device, r.experts *r.size *r.width)) schedule(static)
    for (int64_t i = 0; i < bands; i++) {
        struct band band = band_at(&r, i);
        band_products(&r, &band);
        for (int64_t e = band.e0; e < band.e0 + band.rows; e++) r.sum[e] = row_loss(&r, e, e - band.from);
    }
    ((double *)a->loss.data)[0] = sum_of_rows(&r) / divisor_of(&r);
}

size_t MT_CPU(router_orth_backward_scratch)(const struct mt_device *device,
                                            const struct mt_router_orth_backward_args *a)
{
    (void)device;
    return scratch_bytes(&a->weight, a->kind, a->groups);
}

/*
 * Turns product[e] into what every row of the group pulls row e with. Returns how much of row e itself is to
 * be taken out of their sum: <g_e, u_e>, or 0 for a row whose length may change.
 */
static double find_pulls(const struct rows *r, int64_t e, int64_t diagonal)
{
    double *product = r->product + e * r->size;
    double along = 0.0;
    for (int64_t f = 0; f < r->size; f++) {
        double difference = product[f] - (f == diagonal ? 1.0 : 0.0);
        along += difference * product[f];
        product[f] = r->cosine ? difference : (double)((difference > 0.0) - (difference < 0.0));
    }
    return r->cosine && r->length[e] > SHORTEST ? along : 0.0;
}

/* pulled[i] = Σ_f pull of f on the band's row i · row f, columns [start, start + count). */
static void pull_columns(const struct rows *r, const struct band *band, int64_t start, int64_t count,
                         double pulled[BAND][COLUMNS])
{
    memset(pulled, 0, sizeof(double) * BAND * COLUMNS);
    for (int64_t f = 0; f < r->size; f++) {
        const double *other = r->row + (band->from + f) * r->width + start;
        double pull[BAND];
        for (int64_t i = 0; i < BAND; i++) pull[i] = r->product[row_of_band(band, i) * r->size + f];
#pragma omp simd
        for (int64_t j = 0; j < count; j++) {
            pulled[0][j] += pull[0] * other[j];
            pulled[1][j] += pull[1] * other[j];
            pulled[2][j] += pull[2] * other[j];
            pulled[3][j] += pull[3] * other[j];
        }
    }
}

/* dweight += factor · (pulled - along · row), if there is one; returns the sum of the squares added. */
static double add_gradient(const double *pulled, const double *row, double along, double factor,
                           int64_t count, float *dweight)
{
    double squares = 0.0;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < count; j++) {
        double gradient = factor * (pulled[j] - along * row[j]);
        squares += gradient * gradient;
    }
    if (dweight == NULL) return squares;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        dweight[j] = (float)((double)dweight[j] + factor * (pulled[j] - along * row[j]));
    }
    return squares;
}

static void band_gradient(const struct rows *r, const struct band *band, double scale,
                          const struct mt_tensor *dweight)
{
    double along[BAND];
    for (int64_t i = 0; i < band->rows; i++) {
        along[i] = find_pulls(r, band->e0 + i, band->e0 + i - band->from);
        r->sum[band->e0 + i] = 0.0;
    }
    bool wanted = mt_tensor_present(dweight);
    for (int64_t start = 0; start < r->width; start += COLUMNS) {
        int64_t count = cpu_min(COLUMNS, r->width - start);
        double pulled[BAND][COLUMNS];
        pull_columns(r, band, start, count, pulled);
        for (int64_t i = 0; i < band->rows; i++) {
            int64_t e = band->e0 + i;
            r->sum[e] +=
                add_gradient(pulled[i], r->row + e * r->width + start, along[i], scale / r->length[e], count,
                             wanted ? cpu_row(dweight, e) + start : NULL);
        }
    }
}

bool MT_CPU(router_orth_backward_fits)(const struct mt_router_orth_backward_args *a)
{
    return cpu_converts(a->weight.dtype) && cpu_all_f32(&a->dweight);
}

void MT_CPU(router_orth_backward)(struct mt_device *device, const struct mt_router_orth_backward_args *a)
{

    struct rows r = rows_at(&a->weight, a->kind, a->groups, device->scratch.data);
    read_rows(device, &a->weight, &r);
    double scale = (double)a->scale * (r.cosine ? 4.0 : 2.0) / divisor_of(&r);
    int64_t bands = r.experts / r.size * bands_of_group(&r);
#pragma omp parallel for num_threads(cpu_threads(device, r.experts *r.size *r.width)) schedule(static)
    for (int64_t i = 0; i < bands; i++) {
        struct band band = band_at(&r, i);
        band_products(&r, &band);
        band_gradient(&r, &band, scale, &a->dweight);
    }
    if (mt_tensor_present(&a->squares)) ((double *)a->squares.data)[0] = sum_of_rows(&r);
}
