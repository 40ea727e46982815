/*
 * Rows converted between f32, bf16 and f16, vectorised at the kernel's own level (the functions of
 * tensor/dtype.c are compiled for the lowest).
 */
#ifndef MT_OPS_CPU_CONVERT_H
#define MT_OPS_CPU_CONVERT_H

#include <string.h>

#include "ops/cpu/level.h"
#include "ops/cpu/vector.h"

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

/*
 * f32 to f16 in whole vectors, from the first element on; returns how many were done. x86 has an instruction
 * with mt_float_to_f16's bits, NaN included, which no compiler finds in that: it is a dozen operations.
 */
static inline int64_t cpu_convert_f16_vectors(const float *restrict source, int64_t count,
                                              uint16_t *restrict target)
{
    int64_t done = 0;
#if defined(__F16C__)
    for (; done + VECTOR_LANES <= count; done += VECTOR_LANES) {
        vector_f32 value = vector_load(source + done);
#if defined(__AVX512F__)
        typedef short halves __attribute__((vector_size(32)));
        halves half = __builtin_ia32_vcvtps2ph512_mask(value, 0 /* to nearest, even */, (halves){0}, 0xFFFF);
#else
        typedef short halves __attribute__((vector_size(16)));
        halves half = __builtin_ia32_vcvtps2ph256(value, 0 /* to nearest, even */);
#endif
        memcpy(target + done, &half, sizeof half);
    }
#else
    (void)source;
    (void)count;
    (void)target;
#endif
    return done;
}

static inline void cpu_convert_from_f32(const float *restrict source, int64_t count, enum mt_dtype to,
                                        void *restrict target)
{
    uint16_t *half = target;
    if (to == MT_BF16) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) half[i] = mt_float_to_bf16(source[i]);
    } else if (to == MT_F16) {
        int64_t done = cpu_convert_f16_vectors(source, count, half);
#pragma omp simd
        for (int64_t i = done; i < count; i++) half[i] = mt_float_to_f16(source[i]);
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
