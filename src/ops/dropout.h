/*
 * Dropout's draws and masks, the same on every device: an element is kept when its 16 random bits are not
 * below a threshold; a mask has 32 elements of a row in a word, the first in the lowest bit.
 *
 * The bits of the 32 numbers lie across 16 random words: bit b of number j is bit j of word b. So 32 numbers
 * are compared by a few logical operations on words, from the highest bit down, and most often the eight
 * highest decide: what the other words would be nobody needs to know. Mask word i (row·words of a row + w)
 * has the words of blocks 4i … 4i+3 of its stream, the lowest bits first.
 */
#ifndef MT_OPS_DROPOUT_H
#define MT_OPS_DROPOUT_H

#include <math.h>
#include <stdint.h>

#define MT_MASK_BITS     32 // of a word
#define MT_DROPOUT_BITS  16 // of an element's number
#define MT_DROPOUT_PARTS 4  // blocks of random words to a mask word, of four bits of the numbers each

/* ceil(amount·2^16), for amounts in [0, 1); 2^16 itself drops everything. The product is exact. */
static inline uint32_t mt_dropout_threshold(float amount)
{
    return (uint32_t)ceilf(amount * 0x1p16f);
}

/*
 * The lowest of the four parts that has a say: below the threshold's lowest bit nothing has. MT_DROPOUT_PARTS
 * where nothing need be drawn: all elements are kept, or none is.
 */
static inline int mt_dropout_last_part(uint32_t threshold)
{
    int part = 0;
    while (part < MT_DROPOUT_PARTS && (threshold >> 4 * part & 15u) == 0) part++;
    return part;
}

/* Words of a row of `columns` elements. */
static inline int64_t mt_mask_words(int64_t columns)
{
    return columns / MT_MASK_BITS + (columns % MT_MASK_BITS != 0);
}

/* The bits of word `word` of a row that stand for elements: all but for the last word of some rows. */
static inline uint32_t mt_mask_used(int64_t columns, int64_t word)
{
    int64_t left = columns - word * MT_MASK_BITS;
    return left >= MT_MASK_BITS ? UINT32_MAX : ((uint32_t)1 << left) - 1u;
}

#endif
