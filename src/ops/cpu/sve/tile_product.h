/*
 * The innermost step of a matrix product (gemm_kernel.h) in vectors of whatever length the processor has: 8
 * rows by three vectors of columns at a time, 24 sums, 3 registers of B and 2 of A, until the panel's columns
 * are done. A lane sums as it does in NEON, so the bits are that level's at any length.
 *
 * Registers without a known length cannot be in arrays: the sums have names, row and vector.
 */
#ifndef MT_OPS_CPU_SVE_TILE_PRODUCT_H
#define MT_OPS_CPU_SVE_TILE_PRODUCT_H

#include <arm_sve.h>

#include "ops/cpu/products/gemm_vector.h"

/* The value itself, never fused with what follows: see vector_rounded. */
VECTOR_INLINE svfloat32_t sve_rounded(svfloat32_t value)
{
    __asm__("" : "+w"(value));
    return value;
}

/* As vector_merge. */
VECTOR_INLINE void sve_merge(svbool_t lanes, svfloat32_t sum, float alpha, float beta, float *c)
{
    svfloat32_t value = sve_rounded(svmul_n_f32_x(lanes, sum, alpha));
    if (beta != 0.0f) {
        value = svadd_f32_x(lanes, value, sve_rounded(svmul_n_f32_x(lanes, svld1_f32(lanes, c), beta)));
    }
    svst1_f32(lanes, c, value);
}

#define SUMS(row) sum##row##0, sum##row##1, sum##row##2
#define CLEAR(row)                                                                                           \
    sum##row##0 = svdup_n_f32(0.0f);                                                                         \
    sum##row##1 = svdup_n_f32(0.0f);                                                                         \
    sum##row##2 = svdup_n_f32(0.0f)
#define ADD(row, a_part, lane)                                                                               \
    sum##row##0 = svmla_lane_f32(sum##row##0, b0, a_part, lane);                                             \
    sum##row##1 = svmla_lane_f32(sum##row##1, b1, a_part, lane);                                             \
    sum##row##2 = svmla_lane_f32(sum##row##2, b2, a_part, lane)
#define MERGE(row)                                                                                           \
    sve_merge(lanes0, sum##row##0, alpha, beta, c + row * c_row);                                            \
    sve_merge(lanes1, sum##row##1, alpha, beta, c + row * c_row + width);                                    \
    sve_merge(lanes2, sum##row##2, alpha, beta, c + row * c_row + 2 * width)

/* Up to three vectors of columns, of `b_row` in a step of B. Rows past the last are computed and not stored.
 */
VECTOR_INLINE void sve_columns(int rows, int64_t columns, int64_t k, const float *a, const float *b,
                               int64_t b_row, float alpha, float beta, float *c, int64_t c_row,
                               struct read_ahead *ahead)
{
    const int64_t width = (int64_t)svcntw();
    const svbool_t all = svptrue_b32();
    const svbool_t lanes0 = svwhilelt_b32_s64(0, columns);
    const svbool_t lanes1 = svwhilelt_b32_s64(width, columns);
    const svbool_t lanes2 = svwhilelt_b32_s64(2 * width, columns);
    svfloat32_t SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), SUMS(6), SUMS(7);
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    CLEAR(4);
    CLEAR(5);
    CLEAR(6);
    CLEAR(7);
    for (int64_t p = 0; p < k; p++) {
        svfloat32_t low = svld1rq_f32(all, a);
        svfloat32_t high = svld1rq_f32(all, a + 4);
        svfloat32_t b0 = svld1_f32(lanes0, b);
        svfloat32_t b1 = svld1_f32(lanes1, b + width);
        svfloat32_t b2 = svld1_f32(lanes2, b + 2 * width);
        ADD(0, low, 0);
        ADD(1, low, 1);
        ADD(2, low, 2);
        ADD(3, low, 3);
        ADD(4, high, 0);
        ADD(5, high, 1);
        ADD(6, high, 2);
        ADD(7, high, 3);
        if (p % 4 == 3) read_ahead_line(ahead);
        a += TILE_ROWS;
        b += b_row;
    }
    MERGE(0);
    if (rows > 1) {
        MERGE(1);
    }
    if (rows > 2) {
        MERGE(2);
    }
    if (rows > 3) {
        MERGE(3);
    }
    if (rows > 4) {
        MERGE(4);
    }
    if (rows > 5) {
        MERGE(5);
    }
    if (rows > 6) {
        MERGE(6);
    }
    if (rows > 7) {
        MERGE(7);
    }
}

#undef SUMS
#undef CLEAR
#undef ADD
#undef MERGE

/* A panel of `vectors` times VECTOR_LANES columns. */
static void tile_product(int rows, int vectors, int64_t k, const float *a, const float *b, float alpha,
                         float beta, float *c, int64_t c_row, struct read_ahead *ahead)
{
    const int64_t columns = (int64_t)vectors * VECTOR_LANES;
    const int64_t step = 3 * (int64_t)svcntw();
    for (int64_t j = 0; j < columns; j += step) {
        sve_columns(rows, columns - j, k, a, b + j, columns, alpha, beta, c + j, c_row, ahead);
    }
}

#endif
