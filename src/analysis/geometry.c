/* Overlap and silhouette in one pass over blocks of distances. */
#include "analysis/geometry.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "analysis/distances.h"
#include "analysis/neighbours.h"
#include "analysis/silhouette.h"
#include "base/rng.h"

#define NEIGHBOURS 10 // of the overlap, unless said otherwise

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
    struct mt_neighbour *nearest;  // [threads][neighbours + 1]
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
                                   sizeof(struct mt_neighbour), &nearest);
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
    mt_release(pass->ctx, pass->nearest,
               threads * (size_t)(pass->neighbours + 1) * sizeof(struct mt_neighbour));
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
        struct mt_neighbour *nearest = pass->nearest + (int64_t)omp_get_thread_num() * (pass->neighbours + 1);
        mt_neighbours_find(distances, asked, value, error, pass->neighbours, nearest);
        pass->overlap[query] = mt_neighbours_overlap(distances, asked, nearest, pass->neighbours);
    }
    if (pass->silhouette) pass->silhouettes[query] = mt_silhouette_point(distances, asked, value);
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
