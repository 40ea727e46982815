/*
 * Metrics of arrays in files, for tests/parity/metrics_parity.py.
 *
 *     metrics_tool geometry N D K QUERIES euclidean|cosine POINTS LABELS   overlap silhouette and their
 * errors metrics_tool pca N D P POINTS          total variance, residual, then variances, axes and points
 *     metrics_tool load N LOADS              maxvio, maxvio_code, entropy, gini, min
 *     metrics_tool variance N n k SCORES EXPERTS WEIGHTS    token, expert, appendix
 *     metrics_tool affinity DOMAINS n LOADS  information, then shares and preferences
 *     metrics_tool drift N k CHOICES BASE    sets, slots
 *     metrics_tool paths N k n BEFORE HERE   entropy, information
 *     metrics_tool coupling n GRAM NORMS     row cos, |cos|, diagonal, dominance; NORMS[j,i] = M_ij
 *     metrics_tool rmse NA NB XA YA XB YB    rmse, points
 *
 * POINTS, SCORES, WEIGHTS and GRAM are f32, LABELS and EXPERTS i32, CHOICES, BASE, BEFORE and HERE u16, the
 * rest f64.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/affinity.h"
#include "analysis/coupling.h"
#include "analysis/curves.h"
#include "analysis/drift.h"
#include "analysis/geometry.h"
#include "analysis/paths.h"
#include "analysis/pca.h"
#include "analysis/variance.h"
#include "base/files/file.h"
#include "objective/loads.h"

/* A whole file; the process ends with its memory. */
static void *load(struct mt_context *ctx, const char *path, size_t expected)
{
    void *data = NULL;
    size_t bytes = 0;
    if (mt_file_read_all(ctx, path, (size_t)1 << 32, &data, &bytes) != MT_OK || bytes != expected) {
        (void)fprintf(stderr, "%s: %zu bytes, expected %zu: %s\n", path, bytes, expected, ctx->message);
        exit(1);
    }
    return data;
}

/* A size: whole and not negative. */
static int64_t whole(const char *text)
{
    char *end = NULL;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value < 0) {
        (void)fprintf(stderr, "'%s' is not a size\n", text);
        exit(1);
    }
    return value;
}

static void print(const double *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) printf("%.17g\n", numbers[i]);
}

static enum mt_status geometry(struct mt_context *ctx, char **argv)
{
    struct mt_points points = {.count = whole(argv[0]), .width = whole(argv[1])};
    bool cosine = strcmp(argv[4], "cosine") == 0;
    struct mt_geometry_options options = {.neighbours = (int)whole(argv[2]),
                                          .queries = whole(argv[3]),
                                          .distance = cosine ? MT_DISTANCE_COSINE : MT_DISTANCE_EUCLIDEAN,
                                          .seed = 7};
    struct mt_geometry_figures figures;
    struct mt_device *device = NULL;
    points.data = load(ctx, argv[5], (size_t)(points.count * points.width) * sizeof(float));
    points.labels = load(ctx, argv[6], (size_t)points.count * sizeof(int32_t));
    enum mt_status status = mt_device_create(ctx, "cpu", 0, &device);
    if (status == MT_OK) status = mt_geometry(device, &points, &options, &figures);
    mt_device_destroy(device);
    if (status != MT_OK) return status;
    print((double[]){figures.overlap, figures.silhouette, figures.overlap_error, figures.silhouette_error},
          4);
    return MT_OK;
}

static enum mt_status pca(struct mt_context *ctx, char **argv)
{
    struct mt_pca found;
    int64_t count = whole(argv[0]);
    int64_t width = whole(argv[1]);
    const float *data = load(ctx, argv[3], (size_t)(count * width) * sizeof(float));
    enum mt_status status = mt_pca_find(ctx, data, count, width, (int)whole(argv[2]), 1, &found);
    if (status != MT_OK) return status;
    size_t p = (size_t)found.components;
    print(&found.total_variance, 1);
    print(&found.residual, 1);
    print(found.variance, p);
    print(found.axes, p * (size_t)width);
    print(found.points, p * (size_t)count);
    mt_pca_free(&found);
    return MT_OK;
}

static enum mt_status loads(struct mt_context *ctx, char **argv)
{
    int experts = (int)whole(argv[0]);
    const double *load_of = load(ctx, argv[1], (size_t)experts * sizeof(double));
    struct mt_load_figures figures;
    mt_load_judge(load_of, experts, &figures);
    print((double[]){figures.max_violation, figures.max_violation_code, figures.entropy,
                     mt_load_gini(load_of, experts), figures.min},
          5);
    return MT_OK;
}

static enum mt_status paths(struct mt_context *ctx, char **argv)
{
    int64_t tokens = whole(argv[0]);
    int slots = (int)whole(argv[1]);
    size_t bytes = (size_t)tokens * (size_t)slots * sizeof(uint16_t);
    const uint16_t *before = load(ctx, argv[3], bytes);
    const uint16_t *here = load(ctx, argv[4], bytes);
    struct mt_path_figures figures;
    enum mt_status status = mt_paths(ctx, before, here, tokens, slots, (int)whole(argv[2]), &figures);
    if (status == MT_OK) print((double[]){figures.entropy, figures.information}, 2);
    return status;
}

static enum mt_status coupling(struct mt_context *ctx, char **argv)
{
    int experts = (int)whole(argv[0]);
    size_t count = (size_t)experts * (size_t)experts;
    struct mt_coupling_figures figures;
    mt_coupling_rows(load(ctx, argv[1], count * sizeof(float)), experts, &figures);
    mt_coupling_norms(load(ctx, argv[2], count * sizeof(double)), experts, &figures);
    print((double[]){figures.row_cos, figures.row_abs_cos, figures.diagonal, figures.dominance}, 4);
    return MT_OK;
}

static enum mt_status variance(struct mt_context *ctx, char **argv)
{
    size_t tokens = (size_t)whole(argv[0]);
    size_t n = (size_t)whole(argv[1]);
    size_t k = (size_t)whole(argv[2]);
    const float *scores = load(ctx, argv[3], tokens * n * sizeof(float));
    const int32_t *experts = load(ctx, argv[4], tokens * k * sizeof(int32_t));
    const float *weights = load(ctx, argv[5], tokens * k * sizeof(float));
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, 4 * n, sizeof(struct mt_any_order), &memory);
    if (status != MT_OK) return status;
    struct mt_any_order *numbers = memory;
    struct mt_variance_sums sums = {
        .score = numbers, .share = numbers + n, .weight = numbers + 2 * n, .weight_square = numbers + 3 * n};
    for (size_t i = 0; i < tokens; i++)
        mt_variance_add(&sums, (int)n, scores + i * n, (int)k, experts + i * k, weights + i * k);
    struct mt_variance_figures figures = mt_variance_finish(&sums, (int)n);
    print((double[]){figures.token, figures.expert, figures.appendix}, 3);
    return MT_OK;
}

static enum mt_status affinity(struct mt_context *ctx, char **argv)
{
    int domains = (int)whole(argv[0]);
    int experts = (int)whole(argv[1]);
    size_t count = (size_t)domains * (size_t)experts;
    const double *load_of = load(ctx, argv[2], count * sizeof(double));
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, 2 * count, sizeof(double), &memory);
    if (status != MT_OK) return status;
    double *numbers = memory;
    double information = mt_affinity(load_of, domains, experts, numbers, numbers + count);
    print(&information, 1);
    print(numbers, 2 * count);
    return MT_OK;
}

static enum mt_status drift(struct mt_context *ctx, char **argv)
{
    size_t tokens = (size_t)whole(argv[0]);
    int slots = (int)whole(argv[1]);
    size_t bytes = tokens * (size_t)slots * sizeof(uint16_t);
    struct mt_drift_figures figures;
    const uint16_t *choices = load(ctx, argv[2], bytes);
    const uint16_t *base = load(ctx, argv[3], bytes);
    mt_drift_choices(choices, base, (int64_t)tokens, slots, &figures);
    print((double[]){figures.sets_changed, figures.slots_changed}, 2);
    return MT_OK;
}

static enum mt_status rmse(struct mt_context *ctx, char **argv)
{
    size_t a = (size_t)whole(argv[0]);
    size_t b = (size_t)whole(argv[1]);
    struct mt_curve one = {.count = a, .x = load(ctx, argv[2], a * sizeof(double))};
    struct mt_curve other = {.count = b, .x = load(ctx, argv[4], b * sizeof(double))};
    one.y = load(ctx, argv[3], a * sizeof(double));
    other.y = load(ctx, argv[5], b * sizeof(double));
    size_t points = 0;
    double distance = mt_curves_rmse(&one, &other, &points);
    print((double[]){distance, (double)points}, 2);
    return MT_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int arguments;
        enum mt_status (*run)(struct mt_context *ctx, char **argv);
    } modes[] = {{"geometry", 7, geometry}, {"pca", 4, pca},           {"load", 2, loads},
                 {"variance", 6, variance}, {"affinity", 3, affinity}, {"drift", 4, drift},
                 {"rmse", 6, rmse},         {"paths", 5, paths},       {"coupling", 3, coupling}};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) != 0 || argc != modes[i].arguments + 2) continue;
        enum mt_status status = modes[i].run(&ctx, argv + 2);
        if (status == MT_OK) return 0;
        (void)fprintf(stderr, "metrics_tool: %s\n", ctx.message);
        return 1;
    }
    (void)fprintf(stderr, "usage: see the top of metrics_tool.c\n");
    return 2;
}
