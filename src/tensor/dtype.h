/*
 * Conversion between the float types. bf16 and f16 round to nearest, ties to even; NaN stays NaN
 * (quieted), values past the range become infinities. Single elements inline; arrays in dtype.c.
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
    // Exponent moved by plain arithmetic: multiplying by 2^112 also normalises subnormals.
    float scaled = mt_float_from_bits(magnitude << 13) * 0x1p112f;
    uint32_t finite = mt_float_bits(scaled);
    uint32_t special = 0x7F800000u | (magnitude << 13 & 0x7FFFFFu); // inf or NaN
    return mt_float_from_bits(sign | (magnitude >= 0x7C00u ? special : finite));
}

static inline uint16_t mt_float_to_f16(float value)
{
    uint32_t bits = mt_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t result;
    if (magnitude > 0x7F800000u) {
        result = 0x7E00u | (magnitude >> 13 & 0x3FFu); // NaN, quieted
    } else if (magnitude >= 0x477FF000u) {
        result = 0x7C00u; // 65520 and above rounds to infinity
    } else if (magnitude >= 0x38800000u) {
        result = (magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    } else {
        // Subnormal: adding 0.5 leaves the value, rounded to nearest even, in the low mantissa bits.
        result = mt_float_bits(mt_float_from_bits(magnitude) + 0.5f) - 0x3F000000u;
    }
    return (uint16_t)(sign | result);
}

/* Element `index` of an array of any type, as a double (i32 included). */
double mt_load(enum mt_dtype dtype, const void *data, int64_t index);

/* Stores a double into element `index`, rounding once, to the type's precision. */
void mt_store(enum mt_dtype dtype, void *data, int64_t index, double value);

/* Converts `count` consecutive elements to f32; source must be a float type. */
void mt_convert_to_f32(enum mt_dtype dtype, const void *source, int64_t count, float *target);

/* Converts `count` consecutive f32 elements to a float type. */
void mt_convert_from_f32(const float *source, int64_t count, enum mt_dtype dtype, void *target);

#endif
