/* Blocks of distances out of matrix products. */
#include "analysis/distances.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metier/ops.h"

#define LANES 8

// Below this part of |x|² + |y|² a squared distance has lost too many digits: it is computed in double.
#define CLOSE 1e-3

// ------------------------------------------------------------------ sorting by label

struct labelled {
    int32_t label;
    int64_t point;
};

static int by_label(const void *one, const void *other)
{
    const struct labelled *a = one;
    const struct labelled *b = other;
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    return a->point < b->point ? -1 : 1;
}

static void number_labels(struct mt_distances *distances, const struct labelled *sorted)
{
    int64_t count = distances->points.count;
    distances->label_count = 0;
    for (int64_t i = 0; i < count; i++) {
        distances->order[i] = sorted[i].point;
        if (i == 0 || sorted[i].label != sorted[i - 1].label)
            distances->label_start[distances->label_count++] = i;
        distances->label_of[i] = (int32_t)(distances->label_count - 1);
    }
    distances->label_start[distances->label_count] = count;
}

static enum mt_status sort_points(struct mt_distances *distances)
{
    size_t count = (size_t)distances->points.count;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(distances->ctx, count, sizeof(struct labelled), &memory);
    if (status != MT_OK) return status;
    struct labelled *sorted = memory;
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct labelled){.label = distances->points.labels[i], .point = (int64_t)i};
    qsort(sorted, count, sizeof *sorted, by_label);
    number_labels(distances, sorted);
    mt_release(distances->ctx, memory, count * sizeof(struct labelled));
    return MT_OK;
}

// ------------------------------------------------------------------ the points on the device

static const float *point_at(const struct mt_distances *distances, int64_t place)
{
    return distances->points.data + distances->order[place] * distances->points.width;
}

/* Lengths of the points as given; refuses what is not finite. */
static enum mt_status measure_points(struct mt_distances *distances)
{
    int64_t width = distances->points.width;
    for (int64_t i = 0; i < distances->points.count; i++) {
        const float *point = point_at(distances, i);
        double square = 0.0;
        for (int64_t c = 0; c < width; c++) square += (double)point[c] * (double)point[c];
        if (!isfinite(square)) {
            return mt_fail(distances->ctx, MT_ERR_NUMERIC,
                           "point %" PRId64 " of %" PRId64 " has a coordinate that is not finite",
                           distances->order[i], distances->points.count);
        }
        distances->norm[i] = sqrt(square);
    }
    return MT_OK;
}

static void find_mean(const struct mt_distances *distances, double *mean)
{
    int64_t width = distances->points.width;
    double weight = 1.0 / (double)distances->points.count;
    for (int64_t i = 0; i < distances->points.count; i++) {
        const float *point = point_at(distances, i);
        for (int64_t c = 0; c < width; c++) mean[c] += weight * (double)point[c];
    }
}

/* Brings the largest coordinate of the centred points to about 1: their products then fit f32, however large
 * or small the points are. A power of two, so that no digit changes. */
static void find_scale(struct mt_distances *distances, const double *mean)
{
    int64_t width = distances->points.width;
    double largest = 0.0;
    int exponent = 0;
    distances->scale = 1.0;
    for (int64_t i = 0; i < distances->points.count; i++) {
        const float *point = point_at(distances, i);
        for (int64_t c = 0; c < width; c++) {
            double coordinate = fabs((double)point[c] - mean[c]);
            if (coordinate > largest) largest = coordinate; // fmax: gcc 12 fails on it for aarch64
        }
    }
    (void)frexp(largest, &exponent);
    if (largest > 0.0) distances->scale = ldexp(1.0, -exponent);
}

/* One point as the device gets it, and its length there. */
static void prepare_point(struct mt_distances *distances, int64_t place, const double *mean, float *row)
{
    bool cosine = distances->distance == MT_DISTANCE_COSINE;
    int64_t width = distances->points.width;
    const float *point = point_at(distances, place);
    double scale = distances->scale;
    if (cosine) scale = distances->norm[place] > 0.0 ? 1.0 / distances->norm[place] : 1.0;
    double square = 0.0;
    for (int64_t c = 0; c < width; c++) {
        row[c] = (float)((cosine ? (double)point[c] : (double)point[c] - mean[c]) * scale);
        square += (double)row[c] * (double)row[c];
    }
    distances->square[place] = cosine ? 1.0 : square;
    distances->length[place] = sqrt(square);
}

static enum mt_status upload_points(struct mt_distances *distances)
{
    int64_t width = distances->points.width;
    size_t row_bytes = (size_t)width * sizeof(float);
    size_t mean_bytes = (size_t)width * sizeof(double);
    void *mean = NULL;
    void *row = NULL;
    enum mt_status status = mt_allocate_array(distances->ctx, (size_t)width, sizeof(double), &mean);
    if (status == MT_OK) status = mt_allocate(distances->ctx, row_bytes, &row);
    if (status == MT_OK) {
        find_mean(distances, mean);
        find_scale(distances, mean);
    }
    for (int64_t i = 0; status == MT_OK && i < distances->points.count; i++) {
        prepare_point(distances, i, mean, row);
        status =
            mt_device_upload(distances->device, (float *)distances->all.data + i * width, row, row_bytes);
    }
    mt_release(distances->ctx, row, row_bytes);
    mt_release(distances->ctx, mean, mean_bytes);
    return status;
}

// ------------------------------------------------------------------ opening

static enum mt_status take(struct mt_context *ctx, size_t count, size_t size, void **memory)
{
    return mt_allocate_array(ctx, count, size, memory);
}

static enum mt_status allocate(struct mt_distances *distances)
{
    struct mt_context *ctx = distances->ctx;
    size_t count = (size_t)distances->points.count;
    size_t row = (size_t)distances->points.width * sizeof(float);
    void *order = NULL, *starts = NULL, *labels = NULL, *square = NULL, *length = NULL, *norm = NULL,
         *host = NULL;
    enum mt_status status = take(ctx, count, sizeof(int64_t), &order);
    if (status == MT_OK) status = take(ctx, count + 1, sizeof(int64_t), &starts);
    if (status == MT_OK) status = take(ctx, count, sizeof(int32_t), &labels);
    if (status == MT_OK) status = take(ctx, count, sizeof(double), &square);
    if (status == MT_OK) status = take(ctx, count, sizeof(double), &length);
    if (status == MT_OK) status = take(ctx, count, sizeof(double), &norm);
    if (status == MT_OK) status = take(ctx, MT_DISTANCE_BLOCK * count, sizeof(float), &host);
    distances->order = order;
    distances->label_start = starts;
    distances->label_of = labels;
    distances->square = square;
    distances->length = length;
    distances->norm = norm;
    distances->host = host;
    if (status == MT_OK) status = mt_device_buffer_create(distances->device, count * row, &distances->all);
    if (status == MT_OK)
        status = mt_device_buffer_create(distances->device, MT_DISTANCE_BLOCK * row, &distances->asked);
    if (status != MT_OK) return status;
    return mt_device_buffer_create(distances->device, MT_DISTANCE_BLOCK * count * sizeof(float),
                                   &distances->products);
}

enum mt_status mt_distances_open(struct mt_device *device, const struct mt_points *points,
                                 enum mt_distance distance, struct mt_distances *distances)
{
    struct mt_context *ctx = mt_device_context(device);
    *distances = (struct mt_distances){0};
    if (points->count < 1 || points->count > INT32_MAX || points->width < 1 || points->width > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "cannot compute distances of %" PRId64 " points of width %" PRId64
                       ": expected 1 to 2^31 - 1 of each",
                       points->count, points->width);
    }
    *distances = (struct mt_distances){.device = device, .ctx = ctx, .points = *points, .distance = distance};
    enum mt_status status = allocate(distances);
    if (status == MT_OK) status = sort_points(distances);
    if (status == MT_OK) status = measure_points(distances);
    if (status == MT_OK) status = upload_points(distances);
    if (status != MT_OK) mt_distances_close(distances);
    return status;
}

void mt_distances_close(struct mt_distances *distances)
{
    struct mt_context *ctx = distances->ctx;
    if (ctx == NULL) return;
    size_t count = (size_t)distances->points.count;
    mt_release(ctx, distances->order, count * sizeof(int64_t));
    mt_release(ctx, distances->label_start, (count + 1) * sizeof(int64_t));
    mt_release(ctx, distances->label_of, count * sizeof(int32_t));
    mt_release(ctx, distances->square, count * sizeof(double));
    mt_release(ctx, distances->length, count * sizeof(double));
    mt_release(ctx, distances->norm, count * sizeof(double));
    mt_release(ctx, distances->host, MT_DISTANCE_BLOCK * count * sizeof(float));
    mt_buffer_release(&distances->all);
    mt_buffer_release(&distances->asked);
    mt_buffer_release(&distances->products);
    *distances = (struct mt_distances){0};
}

// ------------------------------------------------------------------ distances

enum mt_status mt_distances_block(struct mt_distances *distances, const int64_t *places, int64_t count)
{
    int64_t width = distances->points.width;
    int64_t points = distances->points.count;
    struct mt_tensor all = mt_tensor_2d(distances->all.data, MT_F32, points, width);
    struct mt_tensor asked = mt_tensor_2d(distances->asked.data, MT_F32, count, width);
    struct mt_tensor products = mt_tensor_2d(distances->products.data, MT_F32, count, points);
    for (int64_t i = 0; i < count; i++) {
        struct mt_tensor from = mt_tensor_rows(&all, places[i], 1);
        struct mt_tensor to = mt_tensor_rows(&asked, i, 1);
        enum mt_status status = mt_copy(distances->device, &(struct mt_copy_args){.x = from, .y = to});
        if (status != MT_OK) return status;
    }
    enum mt_status status =
        mt_gemm(distances->device,
                &(struct mt_gemm_args){
                    .a = asked, .b = all, .c = products, .transpose_b = true, .exact = true, .alpha = 1.0f});
    if (status != MT_OK) return status;
    return mt_device_download(distances->device, distances->host, products.data,
                              (size_t)(count * points) * sizeof(float));
}

double mt_distances_exact(const struct mt_distances *distances, int64_t a, int64_t b)
{
    bool cosine = distances->distance == MT_DISTANCE_COSINE;
    int64_t width = distances->points.width;
    const float *x = point_at(distances, a);
    const float *y = point_at(distances, b);
    double sum[LANES] = {0};
    int64_t whole = width - width % LANES;
    for (int64_t c = 0; c < whole; c += LANES) {
        for (int64_t l = 0; l < LANES; l++) {
            double u = (double)x[c + l];
            double v = (double)y[c + l];
            sum[l] += cosine ? u * v : (u - v) * (u - v);
        }
    }
    double total = 0.0;
    for (int64_t c = whole; c < width; c++) {
        double u = (double)x[c];
        double v = (double)y[c];
        total += cosine ? u * v : (u - v) * (u - v);
    }
    for (int l = 0; l < LANES; l++) total += sum[l];
    if (!cosine) return total * distances->scale * distances->scale;
    double lengths = distances->norm[a] * distances->norm[b];
    double value = 1.0 - (lengths > 0.0 ? total / lengths : 0.0);
    return value < 0.0 ? 0.0 : value; // rounding
}

void mt_distances_row(const struct mt_distances *distances, int64_t row, int64_t asked, double *value,
                      double *error)
{
    bool cosine = distances->distance == MT_DISTANCE_COSINE;
    int64_t points = distances->points.count;
    const float *products = distances->host + row * points;
    const double *square = distances->square;
    double own = square[asked];
    // Rounding of K products and their sum is a random walk of about √K steps; four times that is not seen.
    double rounding =
        4.0 * (double)FLT_EPSILON * (8.0 + sqrt((double)distances->points.width)) * distances->length[asked];
    double factor = cosine ? 1.0 : 2.0;
    double offset = cosine ? 0.0 : own;
    for (int64_t j = 0; j < points; j++) {
        value[j] = offset + square[j] - factor * (double)products[j];
        error[j] = factor * rounding * distances->length[j];
    }
    for (int64_t j = 0; j < points; j++) {
        if (value[j] >= CLOSE * (own + square[j])) continue;
        value[j] = mt_distances_exact(distances, asked, j);
        error[j] = 0.0;
    }
    value[asked] = 0.0;
    error[asked] = 0.0;
}
