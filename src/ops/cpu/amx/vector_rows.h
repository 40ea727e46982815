/*
 * One or two rows of f32 against a bf16 weight as stored (decoding), in vectors: for so few the unit spends
 * most of its time on rows that do not exist. The unit's arithmetic is defined to the bit (Intel's manual,
 * TDPBF16PS), and is done again here. Of 32 steps, from zero and in order, each a fused multiply-add,
 *
 *     even = Σ a·w of steps 0, 2, ...     odd = Σ a·w of steps 1, 3, ...     sum = sum + (even + odd)
 *
 * for each part of a, the small ones first, with numbers below 2^-126 as zeros on the way in and out.
 */
#ifndef MT_OPS_CPU_AMX_VECTOR_ROWS_H
#define MT_OPS_CPU_AMX_VECTOR_ROWS_H

#include <immintrin.h>

#include "ops/cpu/amx/tile_pack.h"
#include "ops/cpu/products/weight_ahead.h"

#define VECTOR_ROWS     2                         // up to so many
#define ROW_PART_FLOATS (MOST_PARTS * TILE_STEPS) // 32 steps of a row in its parts

/* Lines of a weight by rows in their parts, over all steps. */
struct vector_rows {
    const char *lines; // 16 of them
    int64_t distance;  // bytes from one to the next
    const float *parts;
    int64_t k;
    int64_t block_steps; // after so many a sum is complete
    float *sums;         // [blocks][rows][16]
    struct weight_ahead *ahead;
};

/* Rows as floats in their parts, small first: [k/32][rows][parts][32]. */
static void vector_split_rows(const float *rows, int64_t row_stride, int64_t count, int64_t k, float *parts)
{
    for (int64_t p = 0; p < k; p += TILE_STEPS) {
        for (int64_t i = 0; i < count; i++) {
            for (int64_t half = 0; half < TILE_STEPS; half += VECTOR_LANES) {
                vector_u32 part[MOST_PARTS];
                split_parts(vector_load(rows + i * row_stride + p + half), part);
                for (int q = 0; q < MOST_PARTS; q++) {
                    vector_store(parts + (MOST_PARTS - 1 - q) * TILE_STEPS + half, (vector_f32)part[q]);
                }
            }
            parts += ROW_PART_FLOATS;
        }
    }
}

/* a · w + sum, rounded once. Named, not left to the compiler: a product that is rounded apart may be too
 * small. */
VECTOR_INLINE vector_f32 vector_fused(float a, vector_f32 w, vector_f32 sum)
{
    return (vector_f32)_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)w, (__m512)sum);
}

/* What the unit adds to a sum over 32 steps; the square's vector j has steps 2j and 2j+1 of 16 lines. */
VECTOR_INLINE vector_f32 vector_unit_steps(vector_f32 sum, const vector_u32 *square, const float *parts)
{
    vector_f32 even[MOST_PARTS];
    vector_f32 odd[MOST_PARTS];
    UNROLL
    for (int q = 0; q < MOST_PARTS; q++) even[q] = odd[q] = (vector_f32){0};
    UNROLL
    for (int j = 0; j < VECTOR_LANES; j++) {
        vector_f32 even_weight = (vector_f32)(square[j] << 16);
        vector_f32 odd_weight = (vector_f32)(square[j] & HIGH_HALVES);
        UNROLL
        for (int q = 0; q < MOST_PARTS; q++) {
            const float *pair = parts + q * TILE_STEPS + 2 * j;
            even[q] = vector_fused(pair[0], even_weight, even[q]);
            odd[q] = vector_fused(pair[1], odd_weight, odd[q]);
        }
    }
    UNROLL
    for (int q = 0; q < MOST_PARTS; q++) sum += even[q] + odd[q];
    return sum;
}

/* All sums; the number of rows is a constant wherever this is inlined. */
VECTOR_INLINE void vector_sum_lines(int rows, const struct vector_rows *x)
{
    const float *parts = x->parts;
    float *sums = x->sums;
    for (int64_t first = 0; first < x->k; first += x->block_steps) {
        int64_t end = cpu_min(first + x->block_steps, x->k);
        vector_f32 sum[VECTOR_ROWS];
        for (int i = 0; i < rows; i++) sum[i] = (vector_f32){0};
        for (int64_t p = first; p < end; p += TILE_STEPS) {
            vector_u32 square[VECTOR_LANES];
            weight_ask(x->ahead);
            vector_load_transposed(x->lines + p * 2, x->distance, VECTOR_LANES - 1, square);
            UNROLL
            for (int i = 0; i < rows; i++) {
                sum[i] = vector_unit_steps(sum[i], square, parts);
                parts += ROW_PART_FLOATS;
            }
        }
        for (int i = 0; i < rows; i++) vector_store(sums + i * VECTOR_LANES, sum[i]);
        sums += rows * VECTOR_LANES;
    }
}

/* Apart from its caller, so that no arithmetic moves past where the caller sets how small numbers count. */
static __attribute__((noinline)) void vector_sum_rows(int64_t rows, const struct vector_rows *x)
{
    if (rows == 1) {
        vector_sum_lines(1, x);
    } else {
        vector_sum_lines(2, x);
    }
}

/* 16 lines by `rows` rows: sums[blocks][rows][16]. */
static void vector_multiply_lines(int64_t rows, const struct vector_rows *x)
{
    const unsigned small_is_zero = 1u << 15 | 1u << 6; // results and operands
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | small_is_zero);
    vector_sum_rows(rows, x);
    _mm_setcsr(before);
}

#endif
