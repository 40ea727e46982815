/*
 * Dropout's draws and masks, the same on every device: an element is kept when its 16 random bits are not
 * below a threshold; a mask has 32 elements of a row in a word, the first in the lowest bit.
 */
#ifndef MT_OPS_DROPOUT_H
#define MT_OPS_DROPOUT_H

#include <math.h>
#include <stdint.h>

#define MT_MASK_BITS 32 // of a word

/* ceil(amount·2^16), for amounts in [0, 1); 2^16 itself drops everything. The product is exact. */
static inline uint32_t mt_dropout_threshold(float amount)
{
    return (uint32_t)ceilf(amount * 0x1p16f);
}

/* Words of a row of `columns` elements. */
static inline int64_t mt_mask_words(int64_t columns)
{
    return columns / MT_MASK_BITS + (columns % MT_MASK_BITS != 0);
}

#endif
