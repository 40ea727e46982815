/* Tables of rotary positions, and the numbers behind them. */
#ifndef MT_ARCH_ROPE_H
#define MT_ARCH_ROPE_H

#include "arch/arch.h"

/*
 * Angle per position of pair `pair` of `pairs`, in f32 as it was when models were trained. `extended`:
 * LongRoPE takes its long factors; no other kind looks at it.
 */
float mt_rope_frequency(const struct mt_hf_rope *rope, int64_t pair, int64_t pairs, bool extended);

/* What cos and sin are multiplied with; max_position is the config's max_position_embeddings. */
double mt_rope_magnitude(const struct mt_hf_rope *rope, int64_t max_position, bool extended);

/* What latent attention multiplies its scores with, beside 1/sqrt(D): YaRN's mscale², 1 otherwise. */
double mt_rope_score_factor(const struct mt_hf_rope *rope);

/*
 * Rows of the rope tables for sequences of at most `positions` tokens. LongRoPE rotates sequences longer than
 * the original maximum by other factors: when there may be such, they have rows of their own after the short
 * ones'.
 */
int64_t mt_rope_rows(const struct mt_hf_config *config, int64_t positions);

/* The row of the first token of a sequence of `length` tokens; the others follow. */
int64_t mt_rope_start(const struct mt_hf_config *config, int64_t length);

/* cos and sin, [rows, width/2] each, of angles in f32 (rope.c), magnitude factors included; width: of what is
 * rotated of a head. */
void mt_rope_tables(const struct mt_hf_config *config, int64_t width, int64_t positions, float *cosine,
                    float *sine);

#endif
