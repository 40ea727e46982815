/* Overlap and silhouette in one pass over blocks of distances. */
#include "analysis/geometry.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/rng.h"

#define NEIGHBOURS 10 // of the overlap, unless said otherwise
#define LANES      8

// ------------------------------------------------------------------ nearest neighbours

/*
 * The nearest neighbours of a point among the others, from distances that may be off by a known amount: first
 * a bound that the k + 1 nearest certainly keep, then everything that may lie within it, in double. As
 * scikit-learn's NearestNeighbors(...).kneighbors() of the set itself: the k + 1 nearest of all points, of
 * which the point itself is left out, or the first where duplicates pushed it off. Of equal distances the
 * lower index is nearer.
 */
struct neighbour {
    double value;  // d² or d
    int64_t point; // as given
    int64_t place; // in sorted order
};

static bool nearer(const struct neighbour *a, const struct neighbour *b)
{
    if (a->value != b->value) return a->value < b->value;
    return a->point < b->point;
}

/* Lets the entry at `at` sink to its place: the heap has its farthest entry first. */
static void sink(struct neighbour *heap, int count, int at)
{
    struct neighbour moving = heap[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && nearer(&heap[child], &heap[child + 1])) child++;
        if (!nearer(&moving, &heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Keeps the nearest `most` entries seen. */
static void offer(struct neighbour *heap, int *count, int most, struct neighbour entry)
{
    if (*count < most) {
        heap[(*count)++] = entry;
        if (*count < most) return;
        for (int i = most / 2 - 1; i >= 0; i--) sink(heap, most, i);
        return;
    }
    if (!nearer(&entry, &heap[0])) return;
    heap[0] = entry;
    sink(heap, most, 0);
}

/* What the most-th nearest cannot be farther than. */
static double outer_bound(const struct mt_distances *distances, const double *value, const double *error,
                          int most, struct neighbour *heap)
{
    int count = 0;
    for (int64_t j = 0; j < distances->points.count; j++) {
        double upper = value[j] + error[j];
        if (count == most && upper > heap[0].value) continue;
        offer(heap, &count, most, (struct neighbour){.value = upper, .point = j});
    }
    return heap[0].value;
}

/* A heap becomes a list, nearest first. */
static void sort_heap(struct neighbour *heap, int count)
{
    for (int left = count - 1; left > 0; left--) {
        struct neighbour farthest = heap[0];
        heap[0] = heap[left];
        heap[left] = farthest;
        sink(heap, left, 0);
    }
}

static void leave_out(struct neighbour *nearest, int count, int64_t asked)
{
    int self = 0;
    for (int i = 0; i < count; i++) {
        if (nearest[i].place == asked) self = i;
    }
    for (int i = self; i + 1 < count; i++) nearest[i] = nearest[i + 1];
}

/* Of the place `asked`, whose row value and error are. `nearest` has room for k + 1; the first k are the
 * answer, nearest first. */
static void find_nearest(const struct mt_distances *distances, int64_t asked, const double *value,
                         const double *error, int k, struct neighbour *nearest)
{
    int most = k + 1;
    int count = 0;
    double bound = outer_bound(distances, value, error, most, nearest);
    for (int64_t j = 0; j < distances->points.count; j++) {
        if (value[j] - error[j] > bound) continue;
        double exact = error[j] > 0.0 ? mt_distances_exact(distances, asked, j) : value[j];
        offer(nearest, &count, most,
              (struct neighbour){.value = exact, .point = distances->order[j], .place = j});
    }
    sort_heap(nearest, count);
    leave_out(nearest, count, asked);
}

/* The share of them with another label than `asked`. */
static double overlap_of(const struct mt_distances *distances, int64_t asked, const struct neighbour *nearest,
                         int k)
{
    int others = 0;
    for (int i = 0; i < k; i++)
        others += distances->label_of[nearest[i].place] != distances->label_of[asked] ? 1 : 0;
    return (double)others / k;
}

// ------------------------------------------------------------------ silhouette

/* A label's points lie side by side, so each mean distance is a sum over a stretch. */
static double distance_sum(const double *value, int64_t count, bool squared)
{
    double sum[LANES] = {0};
    double total = 0.0;
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        for (int64_t l = 0; l < LANES; l++) sum[l] += squared ? sqrt(value[i + l]) : value[i + l];
    }
    for (int64_t i = whole; i < count; i++) total += squared ? sqrt(value[i]) : value[i];
    for (int l = 0; l < LANES; l++) total += sum[l];
    return total;
}

/* (b - a) / max(a, b); 0 for a label's only point. value[N]: the row of the place `asked`. There are two
 * labels at least. */
static double silhouette_of(const struct mt_distances *distances, int64_t asked, const double *value)
{
    bool squared = distances->distance == MT_DISTANCE_EUCLIDEAN;
    int64_t own_label = distances->label_of[asked];
    double own = 0.0;
    double other = INFINITY;
    for (int64_t label = 0; label < distances->label_count; label++) {
        int64_t start = distances->label_start[label];
        int64_t count = distances->label_start[label + 1] - start;
        if (label == own_label && count == 1) return 0.0;
        double sum = distance_sum(value + start, count, squared);
        if (label == own_label)
            own = sum / (double)(count - 1); // its distance to itself is 0
        else
            other = fmin(other, sum / (double)count);
    }
    double larger = fmax(own, other);
    return larger > 0.0 ? (other - own) / larger : 0.0;
}

// ------------------------------------------------------------------ a pass

/* A pass over the points that are asked. */
struct pass {
    struct mt_context *ctx; // borrowed
    struct mt_distances distances;
    int threads;
    int neighbours; // k, at most N - 1; 0: no overlap
    bool silhouette;
    int64_t queries;
    int64_t *places;               // [queries]
    double *overlap, *silhouettes; // [queries]
    double *rows;                  // [threads][2][N]: distances and their errors
    struct neighbour *nearest;     // [threads][neighbours + 1]
};

// ------------------------------------------------------------------ who is asked

struct drawn {
    uint64_t number;
    int64_t place;
};

static int by_number(const void *one, const void *other)
{
    const struct drawn *a = one;
    const struct drawn *b = other;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* All places, or those of the points with the smallest random numbers. */
static enum mt_status choose_queries(struct pass *pass, uint64_t seed)
{
    int64_t points = pass->distances.points.count;
    for (int64_t i = 0; i < pass->queries; i++) pass->places[i] = i;
    if (pass->queries == points) return MT_OK;
    void *memory = NULL;
    size_t bytes = (size_t)points * sizeof(struct drawn);
    enum mt_status status = mt_allocate(pass->ctx, bytes, &memory);
    if (status != MT_OK) return status;
    struct drawn *drawn = memory;
    for (int64_t i = 0; i < points; i++) {
        struct mt_rng_block words = mt_rng_words(seed, 0, (uint64_t)pass->distances.order[i]);
        drawn[i] = (struct drawn){.number = (uint64_t)words.word[0] << 32 | words.word[1], .place = i};
    }
    qsort(drawn, (size_t)points, sizeof *drawn, by_number);
    for (int64_t i = 0; i < pass->queries; i++) pass->places[i] = drawn[i].place;
    mt_release(pass->ctx, memory, bytes);
    return MT_OK;
}

// ------------------------------------------------------------------ memory

static enum mt_status pass_open(struct pass *pass, struct mt_device *device, const struct mt_points *points,
                                const struct mt_geometry_options *options)
{
    int k = options->neighbours > 0 ? options->neighbours : NEIGHBOURS;
    int64_t count = points->count;
    void *places = NULL, *overlap = NULL, *silhouettes = NULL, *rows = NULL, *nearest = NULL;
    pass->ctx = mt_device_context(device);
    pass->threads = options->threads > 0 ? options->threads : omp_get_num_procs();
    enum mt_status status = mt_distances_open(device, points, options->distance, &pass->distances);
    if (status != MT_OK) return status;
    int64_t labels = pass->distances.label_count;
    pass->neighbours = options->no_overlap || count < 2 ? 0 : (int)(k < count - 1 ? k : count - 1);
    pass->silhouette = !options->no_silhouette && labels >= 2 && labels < count;
    pass->queries = options->queries > 0 && options->queries < count ? options->queries : count;
    size_t queries = (size_t)pass->queries;
    size_t threads = (size_t)pass->threads;
    status = mt_allocate_array(pass->ctx, queries, sizeof(int64_t), &places);
    if (status == MT_OK) status = mt_allocate_array(pass->ctx, queries, sizeof(double), &overlap);
    if (status == MT_OK) status = mt_allocate_array(pass->ctx, queries, sizeof(double), &silhouettes);
    if (status == MT_OK)
        status = mt_allocate_array(pass->ctx, threads * 2 * (size_t)count, sizeof(double), &rows);
    if (status == MT_OK) {
        status = mt_allocate_array(pass->ctx, threads * (size_t)(pass->neighbours + 1),
                                   sizeof(struct neighbour), &nearest);
    }
    pass->places = places;
    pass->overlap = overlap;
    pass->silhouettes = silhouettes;
    pass->rows = rows;
    pass->nearest = nearest;
    return status == MT_OK ? choose_queries(pass, options->seed) : status;
}

static void pass_close(struct pass *pass)
{
    size_t count = (size_t)pass->distances.points.count;
    size_t queries = (size_t)pass->queries;
    size_t threads = (size_t)pass->threads;
    mt_release(pass->ctx, pass->places, queries * sizeof(int64_t));
    mt_release(pass->ctx, pass->overlap, queries * sizeof(double));
    mt_release(pass->ctx, pass->silhouettes, queries * sizeof(double));
    mt_release(pass->ctx, pass->rows, threads * 2 * count * sizeof(double));
    mt_release(pass->ctx, pass->nearest, threads * (size_t)(pass->neighbours + 1) * sizeof(struct neighbour));
    mt_distances_close(&pass->distances);
}

// ------------------------------------------------------------------ the pass

static void ask_point(const struct pass *pass, int64_t query, int64_t row)
{
    const struct mt_distances *distances = &pass->distances;
    int64_t points = distances->points.count;
    int64_t asked = pass->places[query];
    double *value = pass->rows + (int64_t)omp_get_thread_num() * 2 * points;
    double *error = value + points;
    mt_distances_row(distances, row, asked, value, error);
    if (pass->neighbours > 0) {
        struct neighbour *nearest = pass->nearest + (int64_t)omp_get_thread_num() * (pass->neighbours + 1);
        find_nearest(distances, asked, value, error, pass->neighbours, nearest);
        pass->overlap[query] = overlap_of(distances, asked, nearest, pass->neighbours);
    }
    if (pass->silhouette) pass->silhouettes[query] = silhouette_of(distances, asked, value);
}

static enum mt_status ask_all(struct pass *pass)
{
    for (int64_t start = 0; start < pass->queries; start += MT_DISTANCE_BLOCK) {
        int64_t count = pass->queries - start < MT_DISTANCE_BLOCK ? pass->queries - start : MT_DISTANCE_BLOCK;
        enum mt_status status = mt_distances_block(&pass->distances, pass->places + start, count);
        if (status != MT_OK) return status;
#pragma omp parallel for num_threads(pass->threads) schedule(dynamic, 4)
        for (int64_t row = 0; row < count; row++) ask_point(pass, start + row, row);
    }
    return MT_OK;
}

/* The mean, and the standard error it has as that of a sample of `all` without replacement. */
static double mean_of(const double *numbers, int64_t count, int64_t all, double *error)
{
    double mean = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < count; i++) mean += numbers[i];
    mean /= (double)count;
    for (int64_t i = 0; i < count; i++) squares += (numbers[i] - mean) * (numbers[i] - mean);
    *error = 0.0;
    if (count == all) return mean;
    double variance = count > 1 ? squares / (double)(count - 1) : NAN; // one point tells no spread
    *error = sqrt(variance / (double)count * (1.0 - (double)count / (double)all));
    return mean;
}

enum mt_status mt_geometry(struct mt_device *device, const struct mt_points *points,
                           const struct mt_geometry_options *options, struct mt_geometry_figures *figures)
{
    *figures = (struct mt_geometry_figures){.points = points->count,
                                            .overlap = NAN,
                                            .overlap_error = NAN,
                                            .silhouette = NAN,
                                            .silhouette_error = NAN};
    if (points->count == 0) return MT_OK;
    struct pass pass = {0};
    enum mt_status status = pass_open(&pass, device, points, options);
    figures->queries = pass.queries;
    figures->labels = pass.distances.label_count;
    bool wanted = pass.neighbours > 0 || pass.silhouette;
    if (status == MT_OK && wanted) status = ask_all(&pass);
    if (status == MT_OK && pass.neighbours > 0)
        figures->overlap = mean_of(pass.overlap, pass.queries, points->count, &figures->overlap_error);
    if (status == MT_OK && pass.silhouette)
        figures->silhouette =
            mean_of(pass.silhouettes, pass.queries, points->count, &figures->silhouette_error);
    pass_close(&pass);
    return status;
}
