/*
 * Overlap and silhouette: by hand, against plain loops in double, where there is nothing to say, by sample,
 * and the same bits for any number of threads.
 */
#include "analysis/geometry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

enum { MOST = 640, WIDE = 33 };

static int open_device(void **state)
{
    static struct mt_context ctx;
    struct mt_device *device = NULL;
    mt_context_init(&ctx, NULL);
    if (mt_device_create(&ctx, "cpu", 2, &device) != MT_OK) return -1;
    *state = device;
    return 0;
}

static int close_device(void **state)
{
    struct mt_device *device = *state;
    const struct mt_context *ctx = mt_device_context(device);
    mt_device_destroy(device);
    return ctx->live_bytes == 0 ? 0 : -1;
}

static struct mt_geometry_figures measure(void **state, const struct mt_points *points,
                                          const struct mt_geometry_options *options)
{
    struct mt_geometry_figures figures;
    assert_int_equal(mt_geometry(*state, points, options, &figures), MT_OK);
    return figures;
}

static void test_by_hand(void **state)
{
    // Two pairs on a line: 0, 1 and 10, 12.
    static const float line[] = {0.0f, 1.0f, 10.0f, 12.0f};
    static const int32_t pairs[] = {5, 5, 9, 9};
    struct mt_points points = {.count = 4, .width = 1, .data = line, .labels = pairs};
    struct mt_geometry_options options = {.neighbours = 1};
    struct mt_geometry_figures figures = measure(state, &points, &options);
    double expected = (10.0 / 11.0 + 9.0 / 10.0 + (9.5 - 2.0) / 9.5 + (11.5 - 2.0) / 11.5) / 4.0;
    assert_true(figures.overlap == 0.0);
    assert_true(fabs(figures.silhouette - expected) < 1e-7);
    assert_int_equal(figures.labels, 2);
    options.neighbours = 2; // of the two nearest one is of the other pair
    assert_true(measure(state, &points, &options).overlap == 0.5);
    options.neighbours = 10; // all three others
    assert_true(fabs(measure(state, &points, &options).overlap - 2.0 / 3.0) < 1e-15);
}

static void test_single_points_have_no_silhouette(void **state)
{
    static const float line[] = {0.0f, 1.0f, 10.0f};
    static const int32_t labels[] = {0, 0, 1};
    struct mt_points points = {.count = 3, .width = 1, .data = line, .labels = labels};
    struct mt_geometry_figures figures = measure(state, &points, &(struct mt_geometry_options){0});
    assert_true(fabs(figures.silhouette - (9.0 / 10.0 + 8.0 / 9.0 + 0.0) / 3.0) < 1e-7);
}

static void test_undefined(void **state)
{
    static const float line[] = {0.0f, 1.0f, 10.0f};
    static const int32_t same[] = {4, 4, 4};
    static const int32_t own[] = {1, 2, 3};
    struct mt_geometry_options options = {0};
    struct mt_points points = {.count = 3, .width = 1, .data = line, .labels = same};
    struct mt_geometry_figures figures = measure(state, &points, &options);
    assert_true(figures.overlap == 0.0 && isnan(figures.silhouette));
    points.labels = own;
    figures = measure(state, &points, &options);
    assert_true(figures.overlap == 1.0 && isnan(figures.silhouette));
    points.count = 1;
    figures = measure(state, &points, &options);
    assert_true(isnan(figures.overlap) && isnan(figures.silhouette));
    points.count = 0;
    figures = measure(state, &points, &options);
    assert_true(isnan(figures.overlap) && figures.points == 0);
    float bad[] = {0.0f, INFINITY, 1.0f};
    points = (struct mt_points){.count = 3, .width = 1, .data = bad, .labels = same};
    assert_int_equal(mt_geometry(*state, &points, &options, &figures), MT_ERR_NUMERIC);
    assert_non_null(strstr(mt_device_context(*state)->message, "point 1 of 3"));
}

static void test_duplicates_in_order_of_index(void **state)
{
    // Five equal points. Each sees the first three: itself left out, or where it is not among them the first.
    static const float same[5] = {2.0f, 2.0f, 2.0f, 2.0f, 2.0f};
    static const int32_t labels[] = {0, 1, 1, 0, 0};
    struct mt_points points = {.count = 5, .width = 1, .data = same, .labels = labels};
    struct mt_geometry_figures figures =
        measure(state, &points, &(struct mt_geometry_options){.neighbours = 2});
    // 0 sees 1 2: 1; 1 sees 0 2: 1/2; 2 sees 0 1: 1/2; 3 and 4 see 1 2: 1.
    assert_true(fabs(figures.overlap - 4.0 / 5.0) < 1e-15);
    assert_true(figures.silhouette == 0.0); // no distance at all
}

// ------------------------------------------------------------------ against plain loops

struct cloud {
    int64_t count, width;
    float data[MOST * WIDE];
    int32_t labels[MOST];
};

static void draw(struct cloud *cloud, int64_t count, int64_t width, float spread, float offset)
{
    cloud->count = count;
    cloud->width = width;
    for (int64_t i = 0; i < count; i++) {
        cloud->labels[i] = (int32_t)mt_rng_below(3, 0, (uint64_t)i, 5) * 7;
        for (int64_t c = 0; c < width; c++) {
            float centre = spread * mt_rng_normal(4, (uint64_t)cloud->labels[i], (uint64_t)c);
            cloud->data[i * width + c] = offset + centre + mt_rng_normal(5, (uint64_t)i, (uint64_t)c);
        }
    }
}

static double distance(const struct cloud *cloud, bool cosine, int64_t a, int64_t b)
{
    double square = 0.0, product = 0.0, one = 0.0, other = 0.0;
    for (int64_t c = 0; c < cloud->width; c++) {
        double x = (double)cloud->data[a * cloud->width + c];
        double y = (double)cloud->data[b * cloud->width + c];
        square += (x - y) * (x - y);
        product += x * y;
        one += x * x;
        other += y * y;
    }
    if (!cosine) return sqrt(square);
    return a == b ? 0.0 : 1.0 - product / sqrt(one * other);
}

static double plain_silhouette(const struct cloud *cloud, bool cosine, int64_t point)
{
    double sum[36] = {0};
    int64_t count[36] = {0};
    for (int64_t j = 0; j < cloud->count; j++) {
        sum[cloud->labels[j]] += distance(cloud, cosine, point, j);
        count[cloud->labels[j]]++;
    }
    int32_t own = cloud->labels[point];
    double a = sum[own] / (double)(count[own] - 1);
    double b = INFINITY;
    for (int l = 0; l < 36; l++) {
        if (l != own && count[l] > 0) b = fmin(b, sum[l] / (double)count[l]);
    }
    return (b - a) / fmax(a, b);
}

/* k rounds of looking for the next nearest. */
static double plain_overlap(const struct cloud *cloud, bool cosine, int64_t point, int k)
{
    bool taken[MOST] = {0};
    int others = 0;
    for (int i = 0; i < k; i++) {
        int64_t best = 0;
        double nearest = INFINITY;
        for (int64_t j = 0; j < cloud->count; j++) {
            if (j == point || taken[j]) continue;
            double away = distance(cloud, cosine, point, j);
            if (away >= nearest) continue;
            nearest = away;
            best = j;
        }
        assert_true(isfinite(nearest));
        taken[best] = true;
        others += cloud->labels[best] != cloud->labels[point] ? 1 : 0;
    }
    return (double)others / k;
}

static void compare(void **state, const struct cloud *cloud)
{
    for (int cosine = 0; cosine < 2; cosine++) {
        struct mt_geometry_options options = {
            .neighbours = 4, .distance = cosine != 0 ? MT_DISTANCE_COSINE : MT_DISTANCE_EUCLIDEAN};
        struct mt_points points = {
            .count = cloud->count, .width = cloud->width, .data = cloud->data, .labels = cloud->labels};
        struct mt_geometry_figures figures = measure(state, &points, &options);
        double overlap = 0.0;
        double silhouette = 0.0;
        for (int64_t i = 0; i < cloud->count; i++) {
            overlap += plain_overlap(cloud, cosine != 0, i, 4) / (double)cloud->count;
            silhouette += plain_silhouette(cloud, cosine != 0, i) / (double)cloud->count;
        }
        assert_true(fabs(figures.overlap - overlap) < 1e-12);
        assert_true(fabs(figures.silhouette - silhouette) < 1e-6);
        assert_true(figures.overlap_error == 0.0 && figures.silhouette_error == 0.0);
    }
}

static void test_against_plain_loops(void **state)
{
    struct cloud *cloud = malloc(sizeof *cloud);
    assert_non_null(cloud);
    draw(cloud, 150, 9, 0.7f, 0.0f);
    compare(state, cloud);
    draw(cloud, 80, WIDE, 200.0f, 0.0f); // tight clusters: everything near is computed again in double
    compare(state, cloud);
    draw(cloud, 80, 5, 1.0f, 1000.0f); // far from the origin
    compare(state, cloud);
    free(cloud);
}

static void test_threads_and_samples(void **state)
{
    struct cloud *cloud = malloc(sizeof *cloud);
    assert_non_null(cloud);
    draw(cloud, MOST, 16, 0.7f, 0.0f); // more than two blocks
    struct mt_points points = {
        .count = cloud->count, .width = cloud->width, .data = cloud->data, .labels = cloud->labels};
    struct mt_geometry_figures exact = measure(state, &points, &(struct mt_geometry_options){.threads = 1});
    struct mt_geometry_figures many = measure(state, &points, &(struct mt_geometry_options){.threads = 3});
    assert_true(exact.overlap == many.overlap && exact.silhouette == many.silhouette);
    struct mt_geometry_options options = {.queries = 200, .seed = 9};
    struct mt_geometry_figures part = measure(state, &points, &options);
    assert_int_equal(part.queries, 200);
    assert_true(part.overlap_error > 0.0 && part.overlap_error < 0.05);
    assert_true(fabs(part.overlap - exact.overlap) < 4.0 * part.overlap_error);
    assert_true(fabs(part.silhouette - exact.silhouette) < 4.0 * part.silhouette_error);
    options.queries = MOST + 1; // no more than there are
    assert_true(measure(state, &points, &options).overlap == exact.overlap);
    free(cloud);
}

static enum mt_status measure_with(struct mt_context *ctx, const void *self)
{
    struct mt_device *device = NULL;
    struct mt_geometry_figures figures;
    enum mt_status status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK)
        status =
            mt_geometry(device, self, &(struct mt_geometry_options){.queries = 3, .threads = 1}, &figures);
    mt_device_destroy(device);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    static const float line[] = {0.0f, 1.0f, 10.0f, 12.0f, 13.0f};
    static const int32_t labels[] = {0, 0, 1, 1, 1};
    struct mt_points points = {.count = 5, .width = 1, .data = line, .labels = labels};
    assert_every_allocation_may_fail(measure_with, &points, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_single_points_have_no_silhouette),
        cmocka_unit_test(test_undefined),
        cmocka_unit_test(test_duplicates_in_order_of_index),
        cmocka_unit_test(test_against_plain_loops),
        cmocka_unit_test(test_threads_and_samples),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
