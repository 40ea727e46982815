/*
 * How long overlap and silhouette take.
 *
 *     analysis_speed [POINTS [WIDTH [QUERIES]]]
 *
 * By default 20,000 points of width 2,048, all of them queries. Processor time is that of all threads: on a
 * busy machine it tells more.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analysis/geometry.h"
#include "base/clock.h"
#include "base/rng.h"

#define LABELS 64
#define SPREAD 0.3f // of the labels' centres; the points around them have 1

static void draw(float *data, int32_t *labels, int64_t count, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        labels[i] = (int32_t)mt_rng_below(1, 0, (uint64_t)i, LABELS);
        for (int64_t c = 0; c + 4 <= width; c += 4) {
            float point[4];
            float centre[4];
            mt_rng_normals(1, (uint64_t)(i + 1), (uint64_t)(c / 4), point);
            mt_rng_normals(2, (uint64_t)labels[i], (uint64_t)(c / 4), centre);
            for (int l = 0; l < 4; l++) data[i * width + c + l] = point[l] + SPREAD * centre[l];
        }
    }
}

static enum mt_status measure(struct mt_device *device, const struct mt_points *points, int64_t queries)
{
    static const char *const names[] = {"Euclidean", "cosine"};
    for (int distance = 0; distance < 2; distance++) {
        struct mt_geometry_options options = {.distance = (enum mt_distance)distance, .queries = queries};
        struct mt_geometry_figures figures;
        double start = mt_clock_seconds();
        clock_t worked = clock();
        enum mt_status status = mt_geometry(device, points, &options, &figures);
        if (status != MT_OK) return status;
        printf("%-9s  %" PRId64 " of %" PRId64 " points of width %" PRId64
               ": overlap %.6f ± %.6f, silhouette %.6f ± %.6f, %.1f s (%.1f s of processor "
               "time)\n",
               names[distance], figures.queries, points->count, points->width, figures.overlap,
               figures.overlap_error, figures.silhouette, figures.silhouette_error,
               mt_clock_seconds() - start, (double)(clock() - worked) / CLOCKS_PER_SEC);
    }
    return MT_OK;
}

int main(int argc, char **argv)
{
    struct mt_points points = {.count = argc > 1 ? strtoll(argv[1], NULL, 10) : 20000,
                               .width = argc > 2 ? strtoll(argv[2], NULL, 10) : 2048};
    int64_t queries = argc > 3 ? strtoll(argv[3], NULL, 10) : 0;
    struct mt_device *device = NULL;
    struct mt_context ctx;
    void *data = NULL;
    void *labels = NULL;
    mt_context_init(&ctx, NULL);
    size_t count = (size_t)points.count;
    size_t width = (size_t)points.width;
    enum mt_status status = mt_device_create(&ctx, "cpu", 0, &device);
    if (status == MT_OK) status = mt_allocate_array(&ctx, count * width, sizeof(float), &data);
    if (status == MT_OK) status = mt_allocate_array(&ctx, count, sizeof(int32_t), &labels);
    if (status == MT_OK) {
        printf("%s\n", mt_device_description(device));
        draw(data, labels, points.count, points.width);
        points.data = data;
        points.labels = labels;
        status = measure(device, &points, queries);
    }
    if (status != MT_OK) (void)fprintf(stderr, "analysis_speed: %s\n", ctx.message);
    mt_release(&ctx, data, count * width * sizeof(float));
    mt_release(&ctx, labels, count * sizeof(int32_t));
    mt_device_destroy(device);
    return status == MT_OK ? 0 : 1;
}
