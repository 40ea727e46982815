/*
 * Products of a few rows with a weight as stored (decoding): every element of C is a dot product of two
 * contiguous lines. The weight is read once, in order, and never packed: its bytes are the whole cost.
 */
#ifndef MT_OPS_CPU_GEMM_DOT_H
#define MT_OPS_CPU_GEMM_DOT_H

#include <string.h>

#include "ops/cpu/gemm_block.h"
#include "ops/cpu/gemm_pack.h"

#define DOT_COLUMNS 4 // lines of the weight read side by side
#if VECTOR_LANES == 16 || defined(__aarch64__)
#define DOT_ROWS 4 // 16 sums of 32 registers
#else
#define DOT_ROWS 2 // 8 sums of 16 registers
#endif
#define DOT_MOST_ROWS 8 // with more, packing pays

/* rows × columns dot products; the counts and the type are constants wherever this is inlined. */
VECTOR_INLINE void dot_tile(int rows, int columns, enum mt_dtype dtype, int64_t k, float alpha,
                            const float *a, int64_t a_row, const char *b, int64_t b_column, float beta,
                            float *c, int64_t c_row)
{
    vector_f32 sum[DOT_ROWS][DOT_COLUMNS];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < DOT_COLUMNS; j++) sum[i][j] = (vector_f32){0};
    }
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    int64_t whole = k / VECTOR_LANES * VECTOR_LANES;
    for (int64_t p = 0; p < whole; p += VECTOR_LANES) {
        vector_f32 weight[DOT_COLUMNS];
        UNROLL
        for (int j = 0; j < columns; j++) weight[j] = pack_vector(dtype, b + j * b_column * bytes, p);
        UNROLL
        for (int i = 0; i < rows; i++) {
            vector_f32 x = vector_load(a + i * a_row + p);
            UNROLL
            for (int j = 0; j < columns; j++) sum[i][j] += x * weight[j];
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        four_f32 value = vector_sums(sum[i]);
        for (int64_t p = whole; p < k; p++) {
            for (int j = 0; j < columns; j++) {
                value[j] += a[i * a_row + p] * pack_element(dtype, b + j * b_column * bytes, p);
            }
        }
        value *= alpha;
        float *target = c + i * c_row;
        if (beta != 0.0f) {
            for (int j = 0; j < columns; j++) value[j] += beta * target[j];
        }
        memcpy(target, &value, (size_t)columns * sizeof(float));
    }
}

/* One to DOT_ROWS rows. */
VECTOR_INLINE void dot_rows(int64_t rows, int columns, enum mt_dtype dtype, int64_t k, float alpha,
                            const float *a, int64_t a_row, const char *b, int64_t b_column, float beta,
                            float *c, int64_t c_row)
{
    switch (rows) {
    case 1: dot_tile(1, columns, dtype, k, alpha, a, a_row, b, b_column, beta, c, c_row); break;
    case 2: dot_tile(2, columns, dtype, k, alpha, a, a_row, b, b_column, beta, c, c_row); break;
#if DOT_ROWS > 2
    case 3: dot_tile(3, columns, dtype, k, alpha, a, a_row, b, b_column, beta, c, c_row); break;
    default: dot_tile(4, columns, dtype, k, alpha, a, a_row, b, b_column, beta, c, c_row); break;
#endif
    }
}

VECTOR_INLINE void dot_typed(enum mt_dtype dtype, int64_t m, int64_t n, int64_t k, float alpha,
                             const float *a, int64_t a_row, const char *b, int64_t b_column, float beta,
                             float *c, int64_t c_row)
{
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    int64_t passes = (m + DOT_ROWS - 1) / DOT_ROWS;
    int64_t whole = n / DOT_COLUMNS * DOT_COLUMNS;
    for (int64_t j = 0; j < n; j += j < whole ? DOT_COLUMNS : 1) {
        const char *lines = b + j * b_column * bytes;
        // The rows pass over the same few lines of the weight, which stay in the first-level cache.
        for (int64_t pass = 0; pass < passes; pass++) {
            int64_t i = pass * m / passes;
            int64_t rows = (pass + 1) * m / passes - i;
            const float *x = a + i * a_row;
            float *target = c + i * c_row + j;
            if (j < whole) {
                dot_rows(rows, DOT_COLUMNS, dtype, k, alpha, x, a_row, lines, b_column, beta, target, c_row);
            } else {
                dot_rows(rows, 1, dtype, k, alpha, x, a_row, lines, b_column, beta, target, c_row);
            }
        }
    }
}

/* True when gemm_dot serves the product. */
static inline bool gemm_dot_fits(int64_t m, struct gemm_operand a, struct gemm_operand b)
{
    return m <= DOT_MOST_ROWS && a.dtype == MT_F32 && a.column == 1 && b.row == 1;
}

static inline void gemm_dot(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                            struct gemm_operand b, float beta, float *c, int64_t c_row)
{
    if (b.dtype == MT_BF16) {
        dot_typed(MT_BF16, m, n, k, alpha, a.data, a.row, b.data, b.column, beta, c, c_row);
    } else if (b.dtype == MT_F16) {
        dot_typed(MT_F16, m, n, k, alpha, a.data, a.row, b.data, b.column, beta, c, c_row);
    } else {
        dot_typed(MT_F32, m, n, k, alpha, a.data, a.row, b.data, b.column, beta, c, c_row);
    }
}

#endif
