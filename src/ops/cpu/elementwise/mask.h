/* Masks of dropout_bits on rows: dropped elements become 0, kept ones stay; who multiplies scales. */
#ifndef MT_OPS_CPU_MASK_H
#define MT_OPS_CPU_MASK_H

#include "ops/cpu/level.h"
#include "ops/cpu/vector.h"
#include "ops/dropout.h"

static inline const uint32_t *mask_row(const struct mt_tensor *mask, int64_t row)
{
    return (const uint32_t *)mask->data + row * mask->stride[0];
}

VECTOR_INLINE void mask_word_f32(const float *x, uint32_t word, float *y, int count)
{
#pragma omp simd
    for (int j = 0; j < count; j++) y[j] = (word & 1u << j) != 0 ? x[j] : 0.0f;
}

VECTOR_INLINE void mask_word_16(const uint16_t *x, uint32_t word, uint16_t *y, int count)
{
#pragma omp simd
    for (int j = 0; j < count; j++) y[j] = (word & 1u << j) != 0 ? x[j] : 0;
}

/* y = what the mask keeps of x, `count` elements whose first has the first bit of `words`. */
static inline void mask_f32(const float *x, const uint32_t *words, float *y, int64_t count)
{
    int64_t whole = count / MT_MASK_BITS;
    for (int64_t w = 0; w < whole; w++)
        mask_word_f32(x + w * MT_MASK_BITS, words[w], y + w * MT_MASK_BITS, MT_MASK_BITS);
    int left = (int)(count - whole * MT_MASK_BITS);
    if (left > 0) mask_word_f32(x + whole * MT_MASK_BITS, words[whole], y + whole * MT_MASK_BITS, left);
}

/* The same for a 16-bit type. */
static inline void mask_16(const uint16_t *x, const uint32_t *words, uint16_t *y, int64_t count)
{
    int64_t whole = count / MT_MASK_BITS;
    for (int64_t w = 0; w < whole; w++)
        mask_word_16(x + w * MT_MASK_BITS, words[w], y + w * MT_MASK_BITS, MT_MASK_BITS);
    int left = (int)(count - whole * MT_MASK_BITS);
    if (left > 0) mask_word_16(x + whole * MT_MASK_BITS, words[whole], y + whole * MT_MASK_BITS, left);
}

/* The same for elements of any of these types: `count` of x from element `from` on. */
static inline void mask_elements(enum mt_dtype dtype, const void *x, int64_t from, const uint32_t *words,
                                 void *y, int64_t count)
{
    if (dtype == MT_F32) {
        mask_f32((const float *)x + from, words, y, count);
    } else {
        mask_16((const uint16_t *)x + from, words, y, count);
    }
}

#endif
