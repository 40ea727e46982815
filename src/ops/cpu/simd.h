/*
 * Math the compiler can vectorise: branch-free scalar functions for use inside `#pragma omp simd`
 * loops. Errors are stated in units in the last place (ulp), measured by tests/ops/test_simd.c.
 */
#ifndef MT_OPS_CPU_SIMD_H
#define MT_OPS_CPU_SIMD_H

#include "tensor/dtype.h"

/*
 * exp, 2 ulp. x = n·ln2 + r, |r| <= ln2/2; a polynomial for exp(r), then two exact multiplications by
 * powers of two, so that overflow gives inf and underflow goes through the subnormals to 0. NaN stays.
 */
static inline float simd_exp(float x)
{
    const float round_magic = 0x1.8p23f; // adding it leaves the nearest integer in the low mantissa bits
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 0x1.715476p0f + round_magic;
    float n = shifted - round_magic;
    float r = x - n * 0x1.62e4p-1f; // ln2 in two parts: the first product is exact
    r = r - n * 0x1.7f7d1cp-20f;
    float p = 0x1.6850e4p-10f;
    p = p * r + 0x1.123bccp-7f;
    p = p * r + 0x1.555b98p-5f;
    p = p * r + 0x1.55548ep-3f;
    p = p * r + 0x1.fffff8p-2f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t exponent = (int32_t)mt_float_bits(shifted) - (int32_t)mt_float_bits(round_magic);
    int32_t half = exponent >> 1;
    float first = mt_float_from_bits((uint32_t)(half + 127) << 23);
    float second = mt_float_from_bits((uint32_t)(exponent - half + 127) << 23);
    return p * first * second;
}

/* 1 / (1 + exp(-x)). */
static inline float simd_sigmoid(float x)
{
    return 1.0f / (1.0f + simd_exp(-x));
}

#endif
