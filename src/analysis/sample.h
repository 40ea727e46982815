/*
 * A random sample of tokens and their vectors: every token has a random number that depends on the seed, the
 * stream and its own number alone, and the tokens with the smallest numbers are kept. So a sample does not
 * depend on how the tokens came in, and two samples merge into that of all their tokens.
 */
#ifndef MT_ANALYSIS_SAMPLE_H
#define MT_ANALYSIS_SAMPLE_H

#include <stdint.h>

#include "metier/context.h"

struct mt_vector_sample {
    struct mt_context *ctx; // borrowed; NULL: not open
    int64_t capacity;       // tokens at the most
    int64_t count;
    int64_t width;    // of a token's vector
    int slots;        // k
    uint64_t *number; // [capacity]: the random number of the token at a place
    int64_t *heap;    // [capacity]: places, the one with the largest number first
    float *vectors;   // [capacity,width]
    int32_t *experts; // [capacity,k]
};

/* The caller closes. */
enum mt_status mt_sample_open(struct mt_context *ctx, int64_t capacity, int64_t width, int slots,
                              struct mt_vector_sample *sample);
void mt_sample_close(struct mt_vector_sample *sample); // a zeroed struct is allowed

/* The random number of a token. */
uint64_t mt_sample_number(uint64_t seed, uint64_t stream, int64_t token);

/*
 * The place a token with this number takes, whose vector and experts the caller then writes; -1: it is not
 * kept.
 */
int64_t mt_sample_place(struct mt_vector_sample *sample, uint64_t number);

/* Puts the tokens in the order of their numbers, which does not depend on how they came in. */
enum mt_status mt_sample_sort(struct mt_vector_sample *sample); // a zeroed struct is allowed

/* Takes what another sample of the same width has. */
void mt_sample_merge(struct mt_vector_sample *sample, const struct mt_vector_sample *other);

#endif
