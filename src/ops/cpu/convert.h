/*
 * Rows converted between f32, bf16 and f16, vectorised at the kernel's own level (the functions of
 * tensor/dtype.c are compiled for the lowest).
 */
#ifndef MT_OPS_CPU_CONVERT_H
#define MT_OPS_CPU_CONVERT_H

#include <string.h>

#include "ops/cpu/level.h"

/* True for the types cpu_convert knows. */
static inline bool cpu_converts(enum mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_BF16 || dtype == MT_F16;
}

static inline void cpu_convert_to_f32(enum mt_dtype from, const void *restrict source, int64_t count,
                                      float *restrict target)
{
    const uint16_t *half = source;
    if (from == MT_BF16) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) target[i] = mt_bf16_to_float(half[i]);
    } else if (from == MT_F16) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) target[i] = mt_f16_to_float(half[i]);
    } else if (count > 0) {
        memcpy(target, source, (size_t)count * sizeof(float));
    }
}

static inline void cpu_convert_from_f32(const float *restrict source, int64_t count, enum mt_dtype to,
                                        void *restrict target)
{
    uint16_t *half = target;
    if (to == MT_BF16) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) half[i] = mt_float_to_bf16(source[i]);
    } else if (to == MT_F16) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) half[i] = mt_float_to_f16(source[i]);
    } else if (count > 0) {
        memcpy(target, source, (size_t)count * sizeof(float));
    }
}

/* Any of the three types to any other; equal types are copied bit by bit. */
static inline void cpu_convert(enum mt_dtype from, const void *restrict source, enum mt_dtype to,
                               void *restrict target, int64_t count)
{
    if (from == to) {
        if (count > 0) memcpy(target, source, (size_t)count * mt_dtype_bytes(from));
    } else if (to == MT_F32) {
        cpu_convert_to_f32(from, source, count, target);
    } else if (from == MT_F32) {
        cpu_convert_from_f32(source, count, to, target);
    } else {
        // bf16 and f16: f32 holds either exactly, so only the last step rounds.
        const uint16_t *halves = source;
        uint16_t *converted = target;
        if (from == MT_BF16) {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) converted[i] = mt_float_to_f16(mt_bf16_to_float(halves[i]));
        } else {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) converted[i] = mt_float_to_bf16(mt_f16_to_float(halves[i]));
        }
    }
}

#endif
