/*
 * Vectors of one register, in GCC's vector extensions. The level's register decides the width; nothing
 * else depends on the level.
 */
#ifndef MT_OPS_CPU_VECTOR_H
#define MT_OPS_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define VECTOR_LANES 16
#elif defined(__AVX__)
#define VECTOR_LANES 8
#else
#define VECTOR_LANES 4
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
#define VECTOR_REGISTERS 32
#else
#define VECTOR_REGISTERS 16
#endif

// Loops over lanes and tiles have constant bounds; unrolled wholly, their arrays become registers.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

// For functions whose counts are constants wherever they are inlined.
#define VECTOR_INLINE static inline __attribute__((always_inline))

typedef float vector_f32 __attribute__((vector_size(VECTOR_LANES * 4)));
typedef int32_t vector_i32 __attribute__((vector_size(VECTOR_LANES * 4)));
typedef uint32_t vector_u32 __attribute__((vector_size(VECTOR_LANES * 4)));
typedef uint64_t vector_u64 __attribute__((vector_size(VECTOR_LANES * 4)));
typedef uint16_t vector_u16 __attribute__((vector_size(VECTOR_LANES * 2)));

// The same, where memory is aligned to elements only.
typedef float memory_f32 __attribute__((vector_size(VECTOR_LANES * 4), aligned(4), may_alias));
typedef uint32_t memory_u32 __attribute__((vector_size(VECTOR_LANES * 4), aligned(2), may_alias));
typedef uint16_t memory_u16 __attribute__((vector_size(VECTOR_LANES * 2), aligned(2), may_alias));

VECTOR_INLINE vector_f32 vector_load(const float *source)
{
    return *(const memory_f32 *)source;
}

VECTOR_INLINE void vector_store(float *target, vector_f32 value)
{
    *(memory_f32 *)target = value;
}

/*
 * The value itself. Of a·b + c·d a compiler may fuse either product with the addition, and need not choose
 * alike in every place the code is inlined into: a product that has passed through here is not fused. (The
 * empty instruction is what no optimisation looks through; a value in a register costs nothing.)
 */
VECTOR_INLINE vector_f32 vector_rounded(vector_f32 value)
{
#if defined(__x86_64__)
    __asm__("" : "+v"(value));
#elif defined(__aarch64__)
    __asm__("" : "+w"(value));
#else
    __asm__("" : "+m"(value));
#endif
    return value;
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

// Four floats: one number for each of four vectors.
typedef float four_f32 __attribute__((vector_size(16)));

/* The larger in each lane; b where one is NaN. The compiler makes one instruction of it. */
VECTOR_INLINE vector_f32 vector_larger(vector_f32 a, vector_f32 b)
{
    float left[VECTOR_LANES];
    float right[VECTOR_LANES];
    vector_store(left, a);
    vector_store(right, b);
#pragma omp simd
    for (int l = 0; l < VECTOR_LANES; l++) right[l] = left[l] > right[l] ? left[l] : right[l];
    return vector_load(right);
}

/* Σ of the 128-bit parts. */
VECTOR_INLINE four_f32 vector_sum_of_parts(vector_f32 value)
{
    four_f32 part[VECTOR_LANES / 4];
    memcpy(part, &value, sizeof part);
#if VECTOR_LANES == 16
    return (part[0] + part[2]) + (part[1] + part[3]);
#elif VECTOR_LANES == 8
    return part[0] + part[1];
#else
    return part[0];
#endif
}

/* Σ of the lanes of each of four vectors, in an order that depends on nothing else. */
VECTOR_INLINE four_f32 vector_sums(const vector_f32 value[4])
{
    vector_f32 first = LANES_LOW(value[0], value[1]) + LANES_HIGH(value[0], value[1]);
    vector_f32 last = LANES_LOW(value[2], value[3]) + LANES_HIGH(value[2], value[3]);
    return vector_sum_of_parts((vector_f32)PAIRS_LOW(first, last) + (vector_f32)PAIRS_HIGH(first, last));
}

/* The largest lane of each of four vectors, none of them NaN. */
VECTOR_INLINE four_f32 vector_maxima(const vector_f32 value[4])
{
    vector_f32 first = vector_larger(LANES_LOW(value[0], value[1]), LANES_HIGH(value[0], value[1]));
    vector_f32 last = vector_larger(LANES_LOW(value[2], value[3]), LANES_HIGH(value[2], value[3]));
    vector_f32 both = vector_larger((vector_f32)PAIRS_LOW(first, last), (vector_f32)PAIRS_HIGH(first, last));
    // Each step halves the number of 128-bit parts that matter; the others are copies.
#if VECTOR_LANES >= 8
    both = vector_larger(PARTS_EVEN(both, both), PARTS_ODD(both, both));
#endif
#if VECTOR_LANES == 16
    both = vector_larger(PARTS_EVEN(both, both), PARTS_ODD(both, both));
#endif
    four_f32 maxima;
    memcpy(&maxima, &both, sizeof maxima);
    return maxima;
}

#endif
