/* Masks of dropout_bits, element by element. */
#ifndef MT_OPS_REF_MASK_H
#define MT_OPS_REF_MASK_H

#include "ops/dropout.h"
#include "ops/ref/ref.h"

/* What an element is multiplied by: `scale` or 0; 1 where there is no mask. */
static inline double ref_masked(const struct mt_tensor *mask, float scale, int64_t row, int64_t column)
{
    if (!mt_tensor_present(mask)) return 1.0;
    const uint32_t *words = (const uint32_t *)mask->data + row * mask->stride[0];
    return (words[column / MT_MASK_BITS] >> column % MT_MASK_BITS & 1u) != 0 ? (double)scale : 0.0;
}

#endif
