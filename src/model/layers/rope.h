/* The numbers behind the tables of rotary positions. */
#ifndef MT_MODEL_ROPE_H
#define MT_MODEL_ROPE_H

#include "model/desc.h"

/*
 * Angle per position of pair `pair` of `pairs`, in f32 as it was when models were trained. `extended`:
 * LongRoPE takes its long factors; no other kind looks at it.
 */
float mt_rope_frequency(const struct mt_hf_rope *rope, int64_t pair, int64_t pairs, bool extended);

/* What cos and sin are multiplied with; max_position is the config's max_position_embeddings. */
double mt_rope_magnitude(const struct mt_hf_rope *rope, int64_t max_position, bool extended);

/* What latent attention multiplies its scores with, beside 1/sqrt(D): YaRN's mscale², 1 otherwise. */
double mt_rope_score_factor(const struct mt_hf_rope *rope);

#endif
