/*
 * Dropout's mask words (ops/dropout.h says what they are). Numbers are compared with the threshold from their
 * highest part down; an element is open while its bits are the threshold's, and a word whose elements are all
 * decided needs no further part.
 */
#ifndef MT_OPS_CUDA_MASK_DRAW_CUH
#define MT_OPS_CUDA_MASK_DRAW_CUH

#include "ops/cuda/elementwise/philox.cuh"
#include "ops/dropout.h"

/* What a call draws. */
struct mask_draw {
    struct random_keys keys;
    uint64_t stream;
    uint32_t threshold;
    int last_part;                 // the lowest that is drawn
    uint32_t bit[MT_DROPOUT_BITS]; // the threshold's bits, each as a whole word
};

static inline struct mask_draw mask_draw_of(float amount, uint64_t seed, uint64_t stream)
{
    struct mask_draw draw = {};
    draw.keys = random_keys_of(seed);
    draw.stream = stream;
    draw.threshold = mt_dropout_threshold(amount);
    draw.last_part = mt_dropout_last_part(draw.threshold);
    for (int b = 0; b < MT_DROPOUT_BITS; b++) draw.bit[b] = (draw.threshold >> b & 1u) != 0 ? 0xffffffffu : 0;
    return draw;
}

/* A mask word on its way. */
struct mask_word {
    uint32_t open;  // bits of elements that are as the threshold so far
    uint32_t below; // of those below it
};

/* Before anything is drawn; 2^16 has a bit that no number has. */
__device__ static inline struct mask_word mask_word_begin(const struct mask_draw &draw)
{
    if (draw.threshold >> MT_DROPOUT_BITS != 0) return {0u, 0xffffffffu};
    return {0xffffffffu, 0u};
}

/* Narrows the search by the four bits of a part of word `index`. */
__device__ static inline void mask_word_part(const struct mask_draw &draw, uint64_t index, int part,
                                             struct mask_word &word)
{
    uint4 block = cuda_random_block<7>(draw.keys, draw.stream, index * MT_DROPOUT_PARTS + (uint64_t)part);
    const uint32_t drawn[4] = {block.x, block.y, block.z, block.w};
    uint32_t below = 0;
    uint32_t same = 0xffffffffu;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t bit = draw.bit[4 * part + i];
        below = (~drawn[i] & bit) | (below & (~drawn[i] | bit)); // from the lowest bit up: one instruction
        same &= ~(drawn[i] ^ bit);
    }
    word.below |= word.open & below;
    word.open &= same;
}

/* What dropout keeps of word `index`. */
__device__ static inline uint32_t mask_word_kept(const struct mask_draw &draw, uint64_t index)
{
    struct mask_word word = mask_word_begin(draw);
    for (int part = MT_DROPOUT_PARTS - 1; part >= draw.last_part && word.open != 0; part--)
        mask_word_part(draw, index, part, word);
    return ~word.below;
}

#endif
