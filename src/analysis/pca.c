/*
 * Subspace iteration with Rayleigh-Ritz, in double: a few directions more than asked for are multiplied by
 * the covariance again and again, made orthonormal, and turned towards its eigenvectors. The covariance
 * itself, [d,d], is never made.
 */
#include "analysis/pca.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"

#define EXTRA      8 // directions more than components: what they hold cannot disturb
#define ROUNDS     1000
#define TOLERANCE  1e-9 // of the residual
#define LANES      8
#define COMPONENTS 64 // at the most

// ------------------------------------------------------------------ eigenvectors

/* Cyclic Jacobi: each rotation makes one entry off the diagonal zero; a few sweeps make all of them so. */
#define SWEEPS 60 // far more than ever needed: convergence is quadratic

/* Rows p and q of a matrix, turned by the angle of cosine c and sine s. */
static void turn_rows(double *matrix, int size, int p, int q, double c, double s)
{
    for (int i = 0; i < size; i++) {
        double a = matrix[p * size + i];
        double b = matrix[q * size + i];
        matrix[p * size + i] = c * a - s * b;
        matrix[q * size + i] = s * a + c * b;
    }
}

static void turn_columns(double *matrix, int size, int p, int q, double c, double s)
{
    for (int i = 0; i < size; i++) {
        double a = matrix[i * size + p];
        double b = matrix[i * size + q];
        matrix[i * size + p] = c * a - s * b;
        matrix[i * size + q] = s * a + c * b;
    }
}

/* One sweep; false when nothing was left to turn. */
static int sweep(double *matrix, int size, double *vectors)
{
    int turned = 0;
    for (int p = 0; p < size; p++) {
        for (int q = p + 1; q < size; q++) {
            double off = matrix[p * size + q];
            double small = 1e-17 * sqrt(fabs(matrix[p * size + p] * matrix[q * size + q]));
            if (off == 0.0 || fabs(off) <= small) continue;
            double theta = (matrix[q * size + q] - matrix[p * size + p]) / (2.0 * off);
            double t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1.0));
            double c = 1.0 / sqrt(t * t + 1.0);
            turn_columns(matrix, size, p, q, c, t * c);
            turn_rows(matrix, size, p, q, c, t * c);
            turn_rows(vectors, size, p, q, c, t * c);
            matrix[p * size + q] = 0.0;
            matrix[q * size + p] = 0.0;
            turned = 1;
        }
    }
    return turned;
}

static void exchange(double *values, double *vectors, int size, int a, int b)
{
    double value = values[a];
    values[a] = values[b];
    values[b] = value;
    for (int i = 0; i < size; i++) {
        double entry = vectors[a * size + i];
        vectors[a * size + i] = vectors[b * size + i];
        vectors[b * size + i] = entry;
    }
}

void mt_eigen_symmetric(double *matrix, int size, double *values, double *vectors)
{
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++) vectors[i * size + j] = i == j ? 1.0 : 0.0;
    }
    int turned = 1;
    for (int i = 0; turned != 0 && i < SWEEPS; i++) turned = sweep(matrix, size, vectors);
    for (int i = 0; i < size; i++) values[i] = matrix[i * size + i];
    for (int i = 0; i < size; i++) {
        int largest = i;
        for (int j = i + 1; j < size; j++) largest = values[j] > values[largest] ? j : largest;
        if (largest != i) exchange(values, vectors, size, i, largest);
    }
}

// ------------------------------------------------------------------ the search

struct search {
    struct mt_pca *pca; // mean is known
    const float *data;  // [N,d]
    int block;          // b: directions
    uint64_t seed;
    uint64_t drawn;  // random vectors so far
    double *q;       // [b,d]: orthonormal
    double *z;       // [b,d]: covariance · q
    double *turned;  // [b,d]: work
    double *row;     // [d]: a centred point
    double *ritz;    // [b,b]
    double *vectors; // [b,b]
    double *values;  // [b]
};

static double dot(const double *a, const double *b, int64_t count)
{
    double sum[LANES] = {0};
    double total = 0.0;
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        for (int64_t l = 0; l < LANES; l++) sum[l] += a[i + l] * b[i + l];
    }
    for (int64_t i = whole; i < count; i++) total += a[i] * b[i];
    for (int l = 0; l < LANES; l++) total += sum[l];
    return total;
}

static void add_scaled(double *y, double factor, const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) y[i] += factor * x[i];
}

static void scale(double *x, double factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++) x[i] *= factor;
}

static void centre(const struct search *search, int64_t point, double *row)
{
    const struct mt_pca *pca = search->pca;
    const float *data = search->data + point * pca->width;
    for (int64_t c = 0; c < pca->width; c++) row[c] = (double)data[c] - pca->mean[c];
}

static void draw(struct search *search, double *vector)
{
    for (int64_t c = 0; c < search->pca->width; c++)
        vector[c] = (double)mt_rng_normal(search->seed, search->drawn, (uint64_t)c);
    search->drawn++;
}

/* Makes vectors[b,d] orthonormal, each against those before it, twice; one without length is drawn anew. */
static void orthonormalise(struct search *search, double *vectors)
{
    int64_t width = search->pca->width;
    for (int i = 0; i < search->block; i++) {
        double *own = vectors + i * width;
        for (;;) {
            double before = sqrt(dot(own, own, width));
            for (int pass = 0; pass < 2; pass++) {
                for (int j = 0; j < i; j++) {
                    const double *other = vectors + j * width;
                    add_scaled(own, -dot(own, other, width), other, width);
                }
            }
            double length = sqrt(dot(own, own, width));
            if (length > 0.0 && length > 1e-10 * before) {
                scale(own, 1.0 / length, width);
                break;
            }
            draw(search, own);
        }
    }
}

/* z = C q, C the covariance with divisor N - 1. */
static void multiply(struct search *search)
{
    int64_t width = search->pca->width;
    double divisor = 1.0 / (double)(search->pca->count - 1);
    memset(search->z, 0, (size_t)(search->block * width) * sizeof *search->z);
    for (int64_t point = 0; point < search->pca->count; point++) {
        centre(search, point, search->row);
        for (int i = 0; i < search->block; i++) {
            double along = dot(search->row, search->q + i * width, width);
            add_scaled(search->z + i * width, along * divisor, search->row, width);
        }
    }
}

/* vectors = E · vectors, E[b,b] by rows. */
static void turn(struct search *search, double *vectors)
{
    int64_t width = search->pca->width;
    size_t bytes = (size_t)(search->block * width) * sizeof *vectors;
    memset(search->turned, 0, bytes);
    for (int i = 0; i < search->block; i++) {
        for (int j = 0; j < search->block; j++)
            add_scaled(search->turned + i * width, search->vectors[i * search->block + j],
                       vectors + j * width, width);
    }
    memcpy(vectors, search->turned, bytes);
}

/* Turns q and z to the eigenvectors within the subspace; returns the largest residual of the components. */
static double turn_to_eigenvectors(struct search *search)
{
    int64_t width = search->pca->width;
    int b = search->block;
    for (int i = 0; i < b; i++) {
        for (int j = 0; j <= i; j++) {
            double entry = dot(search->q + i * width, search->z + j * width, width);
            search->ritz[i * b + j] = entry;
            search->ritz[j * b + i] = entry;
        }
    }
    mt_eigen_symmetric(search->ritz, b, search->values, search->vectors);
    turn(search, search->q);
    turn(search, search->z);
    double largest = 0.0;
    for (int i = 0; i < search->pca->components; i++) {
        double squares = 0.0;
        for (int64_t c = 0; c < width; c++) {
            double off = search->z[i * width + c] - search->values[i] * search->q[i * width + c];
            squares += off * off;
        }
        largest = fmax(largest, sqrt(squares));
    }
    return search->values[0] > 0.0 ? largest / search->values[0] : 0.0;
}

static void iterate(struct search *search)
{
    struct mt_pca *pca = search->pca;
    for (int i = 0; i < search->block; i++) draw(search, search->q + i * pca->width);
    orthonormalise(search, search->q);
    for (int round = 0; round < ROUNDS; round++) {
        multiply(search);
        pca->residual = turn_to_eigenvectors(search);
        if (pca->residual <= TOLERANCE) return;
        memcpy(search->q, search->z, (size_t)(search->block * pca->width) * sizeof *search->q);
        orthonormalise(search, search->q);
    }
    // Directions of the same spread are told apart only so well; the residual says how well.
    multiply(search);
    pca->residual = turn_to_eigenvectors(search);
}

/* The axes with their signs, and the points along them. */
static void finish(const struct search *search)
{
    struct mt_pca *pca = search->pca;
    int64_t width = pca->width;
    for (int i = 0; i < pca->components; i++) {
        const double *q = search->q + i * width;
        int64_t largest = 0;
        for (int64_t c = 1; c < width; c++) largest = fabs(q[c]) > fabs(q[largest]) ? c : largest;
        double sign = q[largest] < 0.0 ? -1.0 : 1.0;
        for (int64_t c = 0; c < width; c++) pca->axes[i * width + c] = sign * q[c];
        pca->variance[i] = search->values[i] > 0.0 ? search->values[i] : 0.0;
    }
    double squares = 0.0;
    for (int64_t point = 0; point < pca->count; point++) {
        centre(search, point, search->row);
        squares += dot(search->row, search->row, width);
        for (int i = 0; i < pca->components; i++)
            pca->points[point * pca->components + i] = dot(search->row, pca->axes + i * width, width);
    }
    pca->total_variance = squares / (double)(pca->count - 1);
}

// ------------------------------------------------------------------ memory

static enum mt_status make_room(struct mt_pca *pca)
{
    size_t p = (size_t)pca->components;
    size_t d = (size_t)pca->width;
    size_t n = (size_t)pca->count;
    void *memory = NULL;
    pca->numbers = p + p * d + d + n * p;
    enum mt_status status = mt_allocate_array(pca->ctx, pca->numbers, sizeof(double), &memory);
    if (status != MT_OK) return status;
    pca->memory = memory;
    pca->variance = pca->memory;
    pca->axes = pca->variance + p;
    pca->mean = pca->axes + p * d;
    pca->points = pca->mean + d;
    return MT_OK;
}

static enum mt_status search_with_room(struct mt_pca *pca, const float *data, uint64_t seed)
{
    int64_t least = pca->count < pca->width ? pca->count : pca->width;
    int block = pca->components + EXTRA;
    if (block > least) block = (int)least;
    size_t b = (size_t)block;
    size_t d = (size_t)pca->width;
    size_t numbers = 3 * b * d + d + 2 * b * b + b;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(pca->ctx, numbers, sizeof(double), &memory);
    if (status != MT_OK) return status;
    double *work = memory;
    struct search search = {.pca = pca,
                            .data = data,
                            .block = block,
                            .seed = seed,
                            .q = work,
                            .z = work + b * d,
                            .turned = work + 2 * b * d,
                            .row = work + 3 * b * d,
                            .ritz = work + 3 * b * d + d,
                            .vectors = work + 3 * b * d + d + b * b,
                            .values = work + 3 * b * d + d + 2 * b * b};
    iterate(&search);
    finish(&search);
    mt_release(pca->ctx, memory, numbers * sizeof(double));
    return MT_OK;
}

/* False when a coordinate is not finite. */
static bool find_mean(struct mt_pca *pca, const float *data)
{
    double check = 0.0;
    for (int64_t i = 0; i < pca->count; i++) {
        const float *row = data + i * pca->width;
        for (int64_t c = 0; c < pca->width; c++) pca->mean[c] += (double)row[c];
    }
    for (int64_t c = 0; c < pca->width; c++) {
        check += pca->mean[c];
        pca->mean[c] /= (double)pca->count;
    }
    return isfinite(check);
}

enum mt_status mt_pca_find(struct mt_context *ctx, const float *data, int64_t count, int64_t width,
                           int components, uint64_t seed, struct mt_pca *pca)
{
    *pca = (struct mt_pca){0};
    if (count < 2 || width < 1 || components < 1 || components > COMPONENTS || count > INT32_MAX ||
        width > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%d principal components of %" PRId64 " points of width %" PRId64
                       ": there must be two points, and 1 to %d components",
                       components, count, width, COMPONENTS);
    }
    int64_t least = count < width ? count : width;
    *pca = (struct mt_pca){.ctx = ctx,
                           .count = count,
                           .width = width,
                           .components = components < least ? components : (int)least};
    enum mt_status status = make_room(pca);
    if (status == MT_OK && !find_mean(pca, data))
        status = mt_fail(ctx, MT_ERR_NUMERIC, "principal components of points that are not finite");
    if (status == MT_OK) status = search_with_room(pca, data, seed);
    if (status != MT_OK) mt_pca_free(pca);
    return status;
}

void mt_pca_free(struct mt_pca *pca)
{
    if (pca->ctx != NULL) mt_release(pca->ctx, pca->memory, pca->numbers * sizeof(double));
    *pca = (struct mt_pca){0};
}
