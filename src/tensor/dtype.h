/*
 * Conversion between the float types. To bf16 and f16: rounded to nearest, ties to even; NaN stays
 * NaN (quieted), values past the range become infinities. To f32 every value is kept, bit patterns of NaN
 * included. Single elements inline; arrays in dtype.c.
 */
#ifndef MT_TENSOR_DTYPE_H
#define MT_TENSOR_DTYPE_H

#include <stdint.h>
#include <string.h>

#include "metier/tensor.h"

static inline uint32_t mt_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float mt_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float mt_bf16_to_float(uint16_t half)
{
    return mt_float_from_bits((uint32_t)half << 16);
}

static inline uint16_t mt_float_to_bf16(float value)
{
    uint32_t bits = mt_float_bits(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16; // carries into inf by itself
    uint32_t quiet_nan = (bits >> 16) | 0x0040u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
}

static inline float mt_f16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7FFFu;
    uint32_t shifted = magnitude << 13; // the mantissa in place, the exponent still with f16's bias
    uint32_t normal = shifted + 0x38000000u;
    uint32_t special = shifted + 0x70000000u; // inf or NaN: the exponent field is full again
    // Subnormal: the mantissa behind a leading one, minus that one; exact, and no operand is subnormal.
    uint32_t subnormal = mt_float_bits(mt_float_from_bits(shifted + 0x38800000u) - 0x1p-14f);
    uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
    return mt_float_from_bits(sign | (magnitude < 0x7C00u ? finite : special));
}

static inline uint16_t mt_float_to_f16(float value)
{
    uint32_t bits = mt_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    // All four outcomes are computed and one is selected: without branches, loops vectorise.
    uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    // Subnormal: adding 0.5 leaves the value, rounded to nearest even, in the low mantissa bits.
    uint32_t subnormal = mt_float_bits(mt_float_from_bits(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t quiet_nan = 0x7E00u | (magnitude >> 13 & 0x3FFu);
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477FF000u ? 0x7C00u : result; // 65520 and above rounds to infinity
    result = magnitude > 0x7F800000u ? quiet_nan : result;
    return (uint16_t)(sign | result);
}

/* Element `index` of an array of any type, as a double (i32 and u8 included). */
double mt_load(enum mt_dtype dtype, const void *data, int64_t index);

/* Stores a double into element `index`, rounding once, to the type's precision. */
void mt_store(enum mt_dtype dtype, void *data, int64_t index, double value);

/* Converts `count` consecutive elements to f32; source must be a float type. */
void mt_convert_to_f32(enum mt_dtype dtype, const void *source, int64_t count, float *target);

/* Converts `count` consecutive f32 elements to a float type. */
void mt_convert_from_f32(const float *source, int64_t count, enum mt_dtype dtype, void *target);

#endif
