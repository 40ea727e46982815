/*
 * column_stats on rows of floats, in double. Forward sums in runs of tokens (token_stats.h); backward is row
 * by row.
 */
#include "ops/cpu/row_sums.h"
#include "ops/cpu/token_stats.h"

// A partial vector: sum [n], squares [n], row_squares, rows.

static void add_values(const float *x, int64_t experts, double factor, double *restrict sum,
                       double *restrict squares)
{
    if (squares == NULL) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) sum[j] += (double)x[j] * factor;
    } else {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) {
            double value = (double)x[j] * factor;
            sum[j] += value;
            squares[j] += value * value;
        }
    }
}

static void add_run(const void *args, const struct token_run *run, double *partial)
{
    const struct mt_column_stats_forward_args *a = args;
    int64_t experts = a->x.dim[1];
    double *squares = mt_tensor_present(&a->squares) ? partial + experts : NULL;
    double *row_squares = partial + 2 * experts;
    bool has_totals = a->normalise_rows || mt_tensor_present(&a->row_squares);
    for (int64_t i = run->start; i < run->stop; i++) {
        if (!token_counts(&a->mask, i)) continue;
        const float *x = cpu_row(&a->x, i);
        double total = has_totals ? row_sum(x, experts) : 0.0;
        double factor = a->normalise_rows ? 1.0 / total : 1.0;
        add_values(x, experts, factor, partial, squares);
        row_squares[0] += total * factor * (total * factor);
        row_squares[1] += 1.0;
    }
}

static void add_partial(const void *args, int64_t b, const double *partial)
{
    const struct mt_column_stats_forward_args *a = args;
    int64_t experts = a->x.dim[1];
    double *sum = stat_row(&a->sum, b);
    double *squares = stat_row(&a->squares, b);
#pragma omp simd
    for (int64_t j = 0; j < experts; j++) sum[j] += partial[j];
    if (squares != NULL) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) squares[j] += partial[experts + j];
    }
    ref_add1(&a->row_squares, b, partial[2 * experts]);
    ref_add1(&a->rows, b, partial[2 * experts + 1]);
}

static struct token_stats stats_of(const struct mt_column_stats_forward_args *a)
{
    return (struct token_stats){
        .mask = &a->mask,
        .segment = &a->segment,
        .tokens = a->x.dim[0],
        .segments = a->sum.dim[0],
        .width = 2 * a->x.dim[1] + 2,
        .elements = mt_tensor_count(&a->x),
        .args = a,
        .add_run = add_run,
        .add_partial = add_partial,
    };
}

size_t MT_CPU(column_stats_forward_scratch)(const struct mt_device *device, const void *args)
{
    (void)device;
    struct token_stats stats = stats_of(args);
    return token_stats_scratch(&stats);
}

enum mt_status MT_CPU(column_stats_forward)(struct mt_device *device, const void *args)
{
    const struct mt_column_stats_forward_args *a = args;
    if (!cpu_is_f32(&a->x)) return mt_ref_column_stats_forward(device, args);
    struct token_stats stats = stats_of(a);
    ref_clear(&a->sum);
    ref_clear(&a->squares);
    ref_clear(&a->row_squares);
    ref_clear(&a->rows);
    sum_token_stats(device, &stats);
    return MT_OK;
}

/* What a row's gradient is made of: its segment's gradients, and numbers of the row itself. */
struct row_slope {
    const double *dsum;     // [n]
    const double *dsquares; // [n] or NULL
    double both;            // 2 R drow_squares, the same for every column
    double factor;          // 1/D
    double pull;            // Σ g x', with normalise_rows
};

/* g_j; inlined, so that the test for dsquares leaves the loop. */
static inline double slope_at(const struct row_slope *slope, const float *x, int64_t j)
{
    double twice = 2.0 * slope->factor * (double)x[j];
    double g = slope->dsum[j] + slope->both;
    return slope->dsquares != NULL ? g + twice * slope->dsquares[j] : g;
}

/* Σ_j g_j x'_j */
static double slope_pull(const struct row_slope *slope, const float *x, int64_t experts)
{
    double pull = 0.0;
#pragma omp simd reduction(+ : pull)
    for (int64_t j = 0; j < experts; j++) pull += slope_at(slope, x, j) * (double)x[j];
    return pull * slope->factor;
}

static void store_slope(const struct row_slope *slope, const float *x, float *dx, int64_t experts,
                        bool accumulate)
{
    struct row_slope s = *slope;
    if (accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) {
            dx[j] = (float)((double)dx[j] + (slope_at(&s, x, j) - s.pull) * s.factor);
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < experts; j++) dx[j] = (float)((slope_at(&s, x, j) - s.pull) * s.factor);
    }
}

static void backward_row(const struct mt_column_stats_backward_args *a, int64_t i)
{
    int64_t experts = a->x.dim[1];
    float *dx = cpu_row(&a->dx, i);
    if (!token_counts(&a->mask, i)) {
        if (!a->accumulate) memset(dx, 0, (size_t)experts * sizeof(float));
        return;
    }
    const float *x = cpu_row(&a->x, i);
    int64_t b = token_segment(&a->segment, i);
    bool has_totals = a->normalise_rows || mt_tensor_present(&a->drow_squares);
    double total = has_totals ? row_sum(x, experts) : 0.0;
    double factor = a->normalise_rows ? 1.0 / total : 1.0;
    struct row_slope slope = {
        .dsum = stat_row(&a->dsum, b),
        .dsquares = stat_row(&a->dsquares, b),
        .both = 2.0 * total * factor * stat_at(&a->drow_squares, b),
        .factor = factor,
    };
    if (a->normalise_rows) slope.pull = slope_pull(&slope, x, experts);
    store_slope(&slope, x, dx, experts, a->accumulate);
}

enum mt_status MT_CPU(column_stats_backward)(struct mt_device *device, const void *args)
{
    const struct mt_column_stats_backward_args *a = args;
    if (!cpu_is_f32(&a->x) || !cpu_is_f32(&a->dx)) return mt_ref_column_stats_backward(device, args);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->x))) schedule(static)
    for (int64_t i = 0; i < a->x.dim[0]; i++) backward_row(a, i);
    return MT_OK;
}
