/* Element access by type, and array conversion. */
#include "tensor/dtype.h"

#include <assert.h>
#include <math.h>

/*
 * Rounds a double to a narrow type in one step: going through f32 first could round twice. A value
 * that is inexact in f32 is nudged to an odd last bit, which keeps what the second rounding needs.
 */
static float round_to_odd(double value)
{
    float nearest = (float)value;
    if (isnan(value) || isinf(nearest) || (double)nearest == value) return nearest;
    uint32_t bits = mt_float_bits(nearest);
    if ((bits & 1u) == 0) {
        bool too_far = fabs((double)nearest) > fabs(value);
        bits = too_far ? bits - 1 : bits + 1;
    }
    return mt_float_from_bits(bits);
}

double mt_load(enum mt_dtype dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case MT_F32: return (double)((const float *)data)[index];
    case MT_BF16: return (double)mt_bf16_to_float(((const uint16_t *)data)[index]);
    case MT_F16: return (double)mt_f16_to_float(((const uint16_t *)data)[index]);
    case MT_I32: return (double)((const int32_t *)data)[index];
    case MT_F64: return ((const double *)data)[index];
    case MT_U8: return (double)((const uint8_t *)data)[index];
    case MT_DTYPE_COUNT: break;
    }
    assert(false && "mt_load: not a type");
    return 0.0;
}

void mt_store(enum mt_dtype dtype, void *data, int64_t index, double value)
{
    switch (dtype) {
    case MT_F32: ((float *)data)[index] = (float)value; return;
    case MT_BF16: ((uint16_t *)data)[index] = mt_float_to_bf16(round_to_odd(value)); return;
    case MT_F16: ((uint16_t *)data)[index] = mt_float_to_f16(round_to_odd(value)); return;
    case MT_I32: ((int32_t *)data)[index] = (int32_t)value; return;
    case MT_F64: ((double *)data)[index] = value; return;
    case MT_U8: ((uint8_t *)data)[index] = (uint8_t)value; return;
    case MT_DTYPE_COUNT: break;
    }
    assert(false && "mt_store: not a type");
}

void mt_convert_to_f32(enum mt_dtype dtype, const void *source, int64_t count, float *target)
{
    const uint16_t *half = source;
    if (count == 0) return; // the arrays may then be NULL, which memcpy does not take
    switch (dtype) {
    case MT_F32: memcpy(target, source, (size_t)count * sizeof *target); return;
    case MT_BF16:
        for (int64_t i = 0; i < count; i++) target[i] = mt_bf16_to_float(half[i]);
        return;
    case MT_F16:
        for (int64_t i = 0; i < count; i++) target[i] = mt_f16_to_float(half[i]);
        return;
    case MT_F64:
        for (int64_t i = 0; i < count; i++) target[i] = (float)((const double *)source)[i];
        return;
    case MT_I32:
    case MT_U8:
    case MT_DTYPE_COUNT: break;
    }
    assert(false && "mt_convert_to_f32: not a float type");
}

void mt_convert_from_f32(const float *source, int64_t count, enum mt_dtype dtype, void *target)
{
    uint16_t *half = target;
    if (count == 0) return; // the arrays may then be NULL, which memcpy does not take
    switch (dtype) {
    case MT_F32: memcpy(target, source, (size_t)count * sizeof *source); return;
    case MT_BF16:
        for (int64_t i = 0; i < count; i++) half[i] = mt_float_to_bf16(source[i]);
        return;
    case MT_F16:
        for (int64_t i = 0; i < count; i++) half[i] = mt_float_to_f16(source[i]);
        return;
    case MT_F64:
        for (int64_t i = 0; i < count; i++) ((double *)target)[i] = (double)source[i];
        return;
    case MT_I32:
    case MT_U8:
    case MT_DTYPE_COUNT: break;
    }
    assert(false && "mt_convert_from_f32: not a float type");
}
