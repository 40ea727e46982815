/*
 * exp and sigmoid of several vectors at once. A function like these is one long chain of dependent steps;
 * the processor sees far enough ahead to overlap two or three of them, so the steps of several vectors are
 * written side by side. Errors, in units in the last place (ulp), are measured by tests/ops/test_simd.c.
 */
#ifndef MT_OPS_CPU_VECTOR_MATH_H
#define MT_OPS_CPU_VECTOR_MATH_H

#include "ops/cpu/vector.h"

#if VECTOR_REGISTERS == 32
#define VECTORS_TOGETHER 4 // with what a step needs of each and the constants, 32 registers suffice
#else
#define VECTORS_TOGETHER 2
#endif
#define FLOATS_TOGETHER (VECTORS_TOGETHER * VECTOR_LANES)

/* a = a · b + c, for all. */
VECTOR_INLINE void vectors_multiply_add(vector_f32 *a, const vector_f32 *b, float c)
{
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) a[i] = a[i] * b[i] + c;
}

/*
 * x = exp(x) for x <= 0: 2 ulp down to -87, and 0 from about -87.7 down, where n <= -127; NaN stays. As
 * simd_exp, but the bias of the exponent is added with the magic number: one shift makes the power of two.
 */
VECTOR_INLINE void vectors_exp_nonpositive(vector_f32 *x)
{
    const float round_magic = 0x1.8p23f + 127.0f;
    vector_f32 shifted[VECTORS_TOGETHER];
    vector_f32 n[VECTORS_TOGETHER];
    vector_f32 p[VECTORS_TOGETHER];
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) shifted[i] = x[i] * 0x1.715476p0f + round_magic;
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) n[i] = shifted[i] - round_magic;
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) x[i] = x[i] - n[i] * 0x1.62e4p-1f; // ln2 in two parts
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) x[i] = x[i] - n[i] * 0x1.7f7d1cp-20f;
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) p[i] = x[i] * 0x1.6850e4p-10f + 0x1.123bccp-7f;
    vectors_multiply_add(p, x, 0x1.555b98p-5f);
    vectors_multiply_add(p, x, 0x1.55548ep-3f);
    vectors_multiply_add(p, x, 0x1.fffff8p-2f);
    vectors_multiply_add(p, x, 1.0f);
    vectors_multiply_add(p, x, 1.0f);
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) {
        vector_f32 value = p[i] * (vector_f32)((vector_u32)shifted[i] << 23);
        x[i] = (vector_f32)((vector_i32)value & ~(shifted[i] <= round_magic - 127.0f));
    }
}

/*
 * x = 1 / (1 + exp(-x)), 4 ulp, without a division, which takes as long as all the rest. With e = exp(-|x|)
 * the denominator d = 1 + e lies in [1, 2]: a parabola is within 1 % of its inverse, and each of two steps of
 * Newton's squares the error. For x < 0 the result is e/d.
 */
VECTOR_INLINE void vectors_sigmoid(vector_f32 *x)
{
    vector_f32 e[VECTORS_TOGETHER];
    vector_f32 d[VECTORS_TOGETHER];
    vector_f32 inverse[VECTORS_TOGETHER];
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) e[i] = (vector_f32)((vector_u32)x[i] | 0x80000000u);
    vectors_exp_nonpositive(e);
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) d[i] = 1.0f + e[i];
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) inverse[i] = d[i] * 0x1.4afd6ap-2f - 0x1.745d18p0f;
    vectors_multiply_add(inverse, d, 0x1.0f83ep1f);
    UNROLL
    for (int step = 0; step < 2; step++) {
        vector_f32 off[VECTORS_TOGETHER];
        UNROLL
        for (int i = 0; i < VECTORS_TOGETHER; i++) off[i] = 1.0f - d[i] * inverse[i];
        UNROLL
        for (int i = 0; i < VECTORS_TOGETHER; i++) inverse[i] = inverse[i] + inverse[i] * off[i];
    }
    UNROLL
    for (int i = 0; i < VECTORS_TOGETHER; i++) {
        vector_u32 negative = (vector_u32)(x[i] < 0.0f);
        vector_u32 below = negative & (vector_u32)(e[i] * inverse[i]);
        x[i] = (vector_f32)(below | (~negative & (vector_u32)inverse[i]));
    }
}

#endif
