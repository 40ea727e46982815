/*
 * Vectors of one register, in GCC's vector extensions: what packing and the kernels of the matrix
 * product are written in. The level's register decides the width; nothing else depends on the level.
 */
#ifndef MT_OPS_CPU_GEMM_VECTOR_H
#define MT_OPS_CPU_GEMM_VECTOR_H

#include <stdint.h>

#if defined(__AVX512F__) // 32 registers of 16: 28 sums, 2 of B, 1 of A
#define VECTOR_LANES 16
#define TILE_ROWS    14
#define TILE_VECTORS 2
#elif defined(__AVX__) // 16 registers of 8: 12 sums, 2 of B, 1 of A
#define VECTOR_LANES 8
#define TILE_ROWS    6
#define TILE_VECTORS 2
#elif defined(__aarch64__) // 32 registers of 4: 24 sums, 3 of B, 2 of A
#define VECTOR_LANES 4
#define TILE_ROWS    8
#define TILE_VECTORS 3
#else // 16 registers of 4, products need one too: 8 sums, 2 of B, 1 of A
#define VECTOR_LANES 4
#define TILE_ROWS    4
#define TILE_VECTORS 2
#endif

#define TILE_COLUMNS (TILE_VECTORS * VECTOR_LANES)

// Loops over lanes and tiles have constant bounds; unrolled wholly, their arrays become registers.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define GEMM_INLINE static inline __attribute__((always_inline))

typedef float vector_f32 __attribute__((vector_size(VECTOR_LANES * 4)));
typedef uint32_t vector_u32 __attribute__((vector_size(VECTOR_LANES * 4)));
typedef uint64_t vector_u64 __attribute__((vector_size(VECTOR_LANES * 4)));
typedef uint16_t vector_u16 __attribute__((vector_size(VECTOR_LANES * 2)));

// The same, where memory is aligned to elements only.
typedef float memory_f32 __attribute__((vector_size(VECTOR_LANES * 4), aligned(4), may_alias));
typedef uint32_t memory_u32 __attribute__((vector_size(VECTOR_LANES * 4), aligned(2), may_alias));
typedef uint16_t memory_u16 __attribute__((vector_size(VECTOR_LANES * 2), aligned(2), may_alias));

GEMM_INLINE vector_f32 vector_load(const float *source)
{
    return *(const memory_f32 *)source;
}

GEMM_INLINE void vector_store(float *target, vector_f32 value)
{
    *(memory_f32 *)target = value;
}

/* f16 bits (in the low half of each lane) to f32, as mt_f16_to_float. */
GEMM_INLINE vector_f32 vector_from_f16(vector_u32 half)
{
    vector_u32 sign = (half & 0x8000u) << 16;
    vector_u32 magnitude = (half & 0x7FFFu) << 13;
    vector_u32 finite = (vector_u32)((vector_f32)magnitude * 0x1p112f);
    vector_u32 special = 0x7F800000u | (magnitude & 0x7FFFFFu); // inf or NaN
    vector_u32 is_special = (vector_u32)(magnitude >= (0x7C00u << 13));
    return (vector_f32)(sign | (special & is_special) | (finite & ~is_special));
}

// Pairs of neighbouring lanes, and of neighbouring 128-bit parts, taken from two vectors.
#if VECTOR_LANES == 16
#define LANES_LOW(a, b)                                                                                      \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define LANES_HIGH(a, b)                                                                                     \
    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define PAIRS_LOW(a, b)                                                                                      \
    (vector_u32) __builtin_shufflevector((vector_u64)(a), (vector_u64)(b), 0, 8, 2, 10, 4, 12, 6, 14)
#define PAIRS_HIGH(a, b)                                                                                     \
    (vector_u32) __builtin_shufflevector((vector_u64)(a), (vector_u64)(b), 1, 9, 3, 11, 5, 13, 7, 15)
#define PARTS_EVEN(a, b)                                                                                     \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define PARTS_ODD(a, b)                                                                                      \
    __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#elif VECTOR_LANES == 8
#define LANES_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define LANES_HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define PAIRS_LOW(a, b)  (vector_u32) __builtin_shufflevector((vector_u64)(a), (vector_u64)(b), 0, 4, 2, 6)
#define PAIRS_HIGH(a, b) (vector_u32) __builtin_shufflevector((vector_u64)(a), (vector_u64)(b), 1, 5, 3, 7)
#define PARTS_EVEN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define PARTS_ODD(a, b)  __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#else
#define LANES_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define LANES_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define PAIRS_LOW(a, b)  (vector_u32) __builtin_shufflevector((vector_u64)(a), (vector_u64)(b), 0, 2)
#define PAIRS_HIGH(a, b) (vector_u32) __builtin_shufflevector((vector_u64)(a), (vector_u64)(b), 1, 3)
#endif

/*
 * Loads a square of 32-bit lanes, transposed: lane i of column[j] is lane j of row i, rows `distance` bytes
 * apart. Rows past `last` are read as that one.
 */
GEMM_INLINE void vector_load_transposed(const char *data, int64_t distance, int64_t last,
                                        vector_u32 column[VECTOR_LANES])
{
    UNROLL
    for (int i = 0; i < VECTOR_LANES; i++) {
        column[i] = *(const memory_u32 *)(data + (i < last ? i : last) * distance);
    }
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

#endif
