/* What packing and the kernels of the matrix product are made of: their tile, and vectors transposed. */
#ifndef MT_OPS_CPU_GEMM_VECTOR_H
#define MT_OPS_CPU_GEMM_VECTOR_H

#include "ops/cpu/vector.h"

#if defined(MT_CPU_ANY_LENGTH) // set for the level sve, see sve/tile_product.h; panels the longest fills
#define TILE_ROWS      8
#define TILE_VECTORS   12
#define NARROW_VECTORS 4
#elif VECTOR_LANES == 16 // 32 registers: 28 sums, 2 of B, 1 of A
#define TILE_ROWS    14
#define TILE_VECTORS 2
#elif VECTOR_LANES == 8 // 16 registers: 12 sums, 2 of B, 1 of A
#define TILE_ROWS    6
#define TILE_VECTORS 2
#elif defined(__aarch64__) // 32 registers: 24 sums, 3 of B, 2 of A
#define TILE_ROWS    8
#define TILE_VECTORS 3
#else // 16 registers, products need one too: 8 sums, 2 of B, 1 of A
#define TILE_ROWS    4
#define TILE_VECTORS 2
#endif

#if !defined(NARROW_VECTORS)
#define NARROW_VECTORS 1 // of a narrow tile: few columns are common, as LoRA's rank
#endif

#define TILE_COLUMNS   (TILE_VECTORS * VECTOR_LANES)
#define NARROW_COLUMNS (NARROW_VECTORS * VECTOR_LANES)

/*
 * C = alpha · sum + beta · C, one vector of it; beta 0 does not read C. Both products are rounded before they
 * are added, so that every kernel's result is the same.
 */
VECTOR_INLINE void vector_merge(vector_f32 sum, float alpha, float beta, float *c)
{
    vector_f32 value = vector_rounded(alpha * sum);
    if (beta != 0.0f) value += vector_rounded(beta * vector_load(c));
    vector_store(c, value);
}

/* f16 bits (in the low half of each lane) to f32, as mt_f16_to_float. */
VECTOR_INLINE vector_f32 vector_from_f16(vector_u32 half)
{
    vector_u32 sign = (half & 0x8000u) << 16;
    vector_u32 magnitude = (half & 0x7FFFu) << 13;
    vector_u32 finite = (vector_u32)((vector_f32)magnitude * 0x1p112f);
    vector_u32 special = 0x7F800000u | (magnitude & 0x7FFFFFu); // inf or NaN
    vector_u32 is_special = (vector_u32)(magnitude >= (0x7C00u << 13));
    return (vector_f32)(sign | (special & is_special) | (finite & ~is_special));
}

/* Transposes a square of 32-bit lanes: lane i of column[j] becomes lane j of column[i]. */
VECTOR_INLINE void vector_transpose(vector_u32 column[VECTOR_LANES])
{
    // Every four rows, within each 128-bit part.
    UNROLL
    for (int i = 0; i < VECTOR_LANES; i += 4) {
        vector_u32 low01 = LANES_LOW(column[i], column[i + 1]);
        vector_u32 high01 = LANES_HIGH(column[i], column[i + 1]);
        vector_u32 low23 = LANES_LOW(column[i + 2], column[i + 3]);
        vector_u32 high23 = LANES_HIGH(column[i + 2], column[i + 3]);
        column[i] = PAIRS_LOW(low01, low23);
        column[i + 1] = PAIRS_HIGH(low01, low23);
        column[i + 2] = PAIRS_LOW(high01, high23);
        column[i + 3] = PAIRS_HIGH(high01, high23);
    }
    // Then the square of 128-bit parts.
#if VECTOR_LANES == 16
    UNROLL
    for (int i = 0; i < 4; i++) {
        vector_u32 even0 = PARTS_EVEN(column[i], column[4 + i]);
        vector_u32 odd0 = PARTS_ODD(column[i], column[4 + i]);
        vector_u32 even1 = PARTS_EVEN(column[8 + i], column[12 + i]);
        vector_u32 odd1 = PARTS_ODD(column[8 + i], column[12 + i]);
        column[i] = PARTS_EVEN(even0, even1);
        column[4 + i] = PARTS_EVEN(odd0, odd1);
        column[8 + i] = PARTS_ODD(even0, even1);
        column[12 + i] = PARTS_ODD(odd0, odd1);
    }
#elif VECTOR_LANES == 8
    UNROLL
    for (int i = 0; i < 4; i++) {
        vector_u32 even = PARTS_EVEN(column[i], column[4 + i]);
        column[4 + i] = PARTS_ODD(column[i], column[4 + i]);
        column[i] = even;
    }
#endif
}

/*
 * Loads a square of 32-bit lanes, transposed: lane i of column[j] is lane j of row i, rows `distance` bytes
 * apart. Rows past `last` are read as that one.
 */
VECTOR_INLINE void vector_load_transposed(const char *data, int64_t distance, int64_t last,
                                          vector_u32 column[VECTOR_LANES])
{
    UNROLL
    for (int i = 0; i < VECTOR_LANES; i++) {
        column[i] = *(const memory_u32 *)(data + (i < last ? i : last) * distance);
    }
    vector_transpose(column);
}

#endif
