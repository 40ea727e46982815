/*
 * reduce of f32, bf16 and f16: every piece gives one double, the pieces are combined in order. NaN and
 * infinity are recognised by their bits, so no compiler flag can lose them.
 */
#include <math.h>

#include "ops/cpu/elementwise/convert.h"
#include "ops/cpu/pieces.h"

/* Four running sums over the four quarters: one alone would wait for its own additions. */
static double sum_of(const float *x, int64_t count)
{
    int64_t quarter = count / 4;
    const float *x1 = x + quarter;
    const float *x2 = x1 + quarter;
    const float *x3 = x2 + quarter;
    double sum0 = 0.0;
    double sum1 = 0.0;
    double sum2 = 0.0;
    double sum3 = 0.0;
#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)
    for (int64_t j = 0; j < quarter; j++) {
        sum0 += (double)x[j];
        sum1 += (double)x1[j];
        sum2 += (double)x2[j];
        sum3 += (double)x3[j];
    }
    for (int64_t j = 4 * quarter; j < count; j++) sum0 += (double)x[j];
    return sum0 + sum1 + (sum2 + sum3);
}

static double sum_squares_of(const float *x, int64_t count)
{
    int64_t quarter = count / 4;
    const float *x1 = x + quarter;
    const float *x2 = x1 + quarter;
    const float *x3 = x2 + quarter;
    double sum0 = 0.0;
    double sum1 = 0.0;
    double sum2 = 0.0;
    double sum3 = 0.0;
#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)
    for (int64_t j = 0; j < quarter; j++) {
        sum0 += (double)x[j] * (double)x[j];
        sum1 += (double)x1[j] * (double)x1[j];
        sum2 += (double)x2[j] * (double)x2[j];
        sum3 += (double)x3[j] * (double)x3[j];
    }
    for (int64_t j = 4 * quarter; j < count; j++) sum0 += (double)x[j] * (double)x[j];
    return sum0 + sum1 + (sum2 + sum3);
}

/* Without its sign a float orders as its bits do, with NaN above infinity: NaN wins. */
static double max_abs_of(const float *x, int64_t count)
{
    int32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t j = 0; j < count; j++) {
        int32_t magnitude = (int32_t)(mt_float_bits(x[j]) & 0x7FFFFFFFu);
        largest = magnitude > largest ? magnitude : largest;
    }
    return (double)mt_float_from_bits((uint32_t)largest);
}

static double nonfinite_of(const float *x, int64_t count)
{
    int32_t found = 0;
#pragma omp simd reduction(+ : found)
    for (int64_t j = 0; j < count; j++) found += (mt_float_bits(x[j]) & 0x7F800000u) == 0x7F800000u;
    return (double)found;
}

static double reduce_floats(enum mt_reduce_kind kind, const float *x, int64_t count)
{
    switch (kind) {
    case MT_REDUCE_SUM: return sum_of(x, count);
    case MT_REDUCE_SUM_SQUARES: return sum_squares_of(x, count);
    case MT_REDUCE_MAX_ABS: return max_abs_of(x, count);
    case MT_REDUCE_NONFINITE: return nonfinite_of(x, count);
    }
    return 0.0;
}

static double combined(enum mt_reduce_kind kind, double a, double b)
{
    if (kind != MT_REDUCE_MAX_ABS) return a + b;
    if (isnan(a) || isnan(b)) return (double)NAN;
    return a > b ? a : b;
}

static struct cpu_pieces pieces_of(const struct mt_reduce_args *a)
{
    return cpu_pieces_of(&a->x, mt_tensor_is_contiguous(&a->x));
}

size_t MT_CPU(reduce_scratch)(const struct mt_device *device, const struct mt_reduce_args *args)
{
    (void)device;
    return (size_t)pieces_of(args).count * sizeof(double);
}

bool MT_CPU(reduce_fits)(const struct mt_reduce_args *a)
{
    return cpu_converts(a->x.dtype);
}

void MT_CPU(reduce)(struct mt_device *device, const struct mt_reduce_args *a)
{
    struct cpu_pieces pieces = pieces_of(a);
    double *results = device->scratch.data; // [pieces]
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->x))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        int64_t offset = cpu_piece_offset(&pieces, &a->x, piece);
        if (cpu_is_f32(&a->x)) {
            results[i] = reduce_floats(a->kind, (const float *)a->x.data + offset, piece.count);
        } else {
            float floats[CPU_PIECE_ELEMENTS];
            cpu_convert_to_f32(a->x.dtype, (const uint16_t *)a->x.data + offset, piece.count, floats);
            results[i] = reduce_floats(a->kind, floats, piece.count);
        }
    }
    double total = 0.0;
    for (int64_t i = 0; i < pieces.count; i++) total = combined(a->kind, total, results[i]);
    double *out = a->out.data;
    *out = a->accumulate ? combined(a->kind, *out, total) : total;
}
