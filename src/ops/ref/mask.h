/* Masks of dropout_bits, element by element, and their draws. */
#ifndef MT_OPS_REF_MASK_H
#define MT_OPS_REF_MASK_H

#include "base/rng.h"
#include "ops/dropout.h"
#include "ops/ref/ref.h"

/* What an element is multiplied by: `scale` or 0; 1 where there is no mask. */
static inline double ref_masked(const struct mt_tensor *mask, float scale, int64_t row, int64_t column)
{
    if (!mt_tensor_present(mask)) return 1.0;
    const uint32_t *words = (const uint32_t *)mask->data + row * mask->stride[0];
    return (words[column / MT_MASK_BITS] >> column % MT_MASK_BITS & 1u) != 0 ? (double)scale : 0.0;
}

/*
 * Mask word `index` of a stream: bit j is set when number j is not below the threshold. From the lowest bit
 * up, a number is below when its bit is 0 where the threshold's is 1, not below the other way round, and as
 * its lower bits say where they are the same.
 */
static inline uint32_t ref_mask_word(uint64_t seed, uint64_t stream, uint32_t threshold, uint64_t index)
{
    uint32_t below = 0;
    for (int part = 0; part < MT_DROPOUT_PARTS; part++) {
        struct mt_rng_block drawn = mt_rng_words7(seed, stream, index * MT_DROPOUT_PARTS + (uint64_t)part);
        for (int bit = 0; bit < 4; bit++) {
            bool one = (threshold >> (4 * part + bit) & 1u) != 0;
            below = one ? ~drawn.word[bit] | below : ~drawn.word[bit] & below;
        }
    }
    return threshold >> MT_DROPOUT_BITS != 0 ? 0 : ~below;
}

#endif
