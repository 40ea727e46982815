/*
 * column_stats on rows of floats, in double. Forward sums in runs of tokens (token_stats.h); backward is row
 * by row.
 */
#include "ops/cpu/objective/token_stats.h"
#include "ops/cpu/row_sums.h"

// A partial vector: sum [n], squares [n], row_squares, rows.

/* Adds factor · x to sum, and its squares to squares unless that is NULL. Returns Σ_j factor · x_j. */
static double add_values(const float *x, int64_t experts, double factor, double *restrict sum,
                         double *restrict squares)
{
    double total = 0.0;
    if (squares == NULL) {
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < experts; j++) {
            double value = (double)x[j] * factor;
            total += value;
            sum[j] += value;
        }
    } else {
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < experts; j++) {
            double value = (double)x[j] * factor;
            total += value;
            sum[j] += value;
            squares[j] += value * value;
        }
    }
    return total;
}

static void add_run(const void *args, const struct token_run *run, double *partial)
{
    const struct mt_column_stats_forward_args *a = args;
    int64_t experts = a->x.dim[1];
    double *squares = mt_tensor_present(&a->squares) ? partial + experts : NULL;
    double row_squares = 0.0;
    double rows = 0.0;
    for (int64_t i = run->start; i < run->stop; i++) {
        if (!token_counts(&a->mask, i)) continue;
        const float *x = cpu_row(&a->x, i);
        double factor = a->normalise_rows ? 1.0 / row_sum(x, experts) : 1.0;
        double total = add_values(x, experts, factor, partial, squares);
        row_squares += total * total;
        rows += 1.0;
    }
    partial[2 * experts] += row_squares;
    partial[2 * experts + 1] += rows;
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

size_t MT_CPU(column_stats_forward_scratch)(const struct mt_device *device,
                                            const struct mt_column_stats_forward_args *args)
{
    (void)device;
    struct token_stats stats = stats_of(args);
    return token_stats_scratch(&stats);
}

void MT_CPU(column_stats_forward)(struct mt_device *device, const struct mt_column_stats_forward_args *a)
{
    struct token_stats stats = stats_of(a);
    ref_clear(&a->sum);
    ref_clear(&a->squares);
    ref_clear(&a->row_squares);
    ref_clear(&a->rows);
    sum_token_stats(device, &stats);
}

/* What a row's gradient is made of: its segment's gradients, and numbers of the row itself. */
struct row_slope {
    const double *dsum;     // [n]
    const double *dsquares; // [n] or NULL
    double both;            // 2 R drow_squares, the same for every column
    double factor;          // 1/D
    double pull;            // Σ g x', with normalise_rows
};

/*
 * Fills both, factor and pull of a normalised row. In terms of x alone, which one pass can sum:
 * Σ g x' = (Σ dsum x + both Σ x) / D + 2 Σ dsquares x² / D², and R = 1.
 */
static void normalise_slope(struct row_slope *slope, const float *x, int64_t experts, double drow_squares)
{
    const double *dsum = slope->dsum;
    const double *dsquares = slope->dsquares;
    double total = 0.0;
    double linear = 0.0;    // Σ dsum x
    double quadratic = 0.0; // Σ dsquares x²
    if (dsquares == NULL) {
#pragma omp simd reduction(+ : total, linear)
        for (int64_t j = 0; j < experts; j++) {
            total += (double)x[j];
            linear += dsum[j] * (double)x[j];
        }
    } else {
#pragma omp simd reduction(+ : total, linear, quadratic)
        for (int64_t j = 0; j < experts; j++) {
            double value = (double)x[j];
            total += value;
            linear += dsum[j] * value;
            quadratic += dsquares[j] * value * value;
        }
    }
    double factor = 1.0 / total;
    slope->factor = factor;
    slope->both = 2.0 * total * factor * drow_squares;
    slope->pull = (linear + slope->both * total + 2.0 * quadratic * factor) * factor;
}

/* dx = (g - pull) · factor. With constant flags each call is a loop without tests. */
static inline __attribute__((always_inline)) void store_slope(const struct row_slope *slope, const float *x,
                                                              float *dx, int64_t experts, bool has_dsquares,
                                                              bool accumulate)
{
    const double *dsum = slope->dsum;
    const double *dsquares = slope->dsquares;
    double shift = slope->both - slope->pull;
    double factor = slope->factor;
    double twice = 2.0 * factor;
#pragma omp simd
    for (int64_t j = 0; j < experts; j++) {
        double g = dsum[j] + shift;
        if (has_dsquares) g += twice * (double)x[j] * dsquares[j];
        dx[j] = (float)(accumulate ? (double)dx[j] + g * factor : g * factor);
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
    struct row_slope slope = {
        .dsum = stat_row(&a->dsum, b), .dsquares = stat_row(&a->dsquares, b), .factor = 1.0};
    if (a->normalise_rows) {
        normalise_slope(&slope, x, experts, stat_at(&a->drow_squares, b));
    } else if (mt_tensor_present(&a->drow_squares)) {
        slope.both = 2.0 * row_sum(x, experts) * stat_at(&a->drow_squares, b);
    }
    if (slope.dsquares == NULL) {
        if (a->accumulate) {
            store_slope(&slope, x, dx, experts, false, true);
        } else {
            store_slope(&slope, x, dx, experts, false, false);
        }
    } else if (a->accumulate) {
        store_slope(&slope, x, dx, experts, true, true);
    } else {
        store_slope(&slope, x, dx, experts, true, false);
    }
}

void MT_CPU(column_stats_backward)(struct mt_device *device, const struct mt_column_stats_backward_args *a)
{
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->x))) schedule(static)
    for (int64_t i = 0; i < a->x.dim[0]; i++) backward_row(a, i);
}
