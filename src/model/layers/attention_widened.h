/*
 * Latent attention of prompts over a cache: keys and values of the heads are made anew from the latents of
 * all tokens a prompt sees, old and new. For many queries a sequence that is less work than the absorbed form
 * (attention_absorbed.h), whose scores and sums are as wide as the latent: C+Dr and C numbers where these
 * have D and Dv.
 */
#ifndef MT_MODEL_ATTENTION_WIDENED_H
#define MT_MODEL_ATTENTION_WIDENED_H

#include "model/layers/cache.h"
#include "model/layers/linear.h"

/* Work, within one layer; K is the pass's prompt_keys. */
struct mt_attention_widened {
    struct mt_tensor latent; // [K,C+Dr]: normalised, the shared key rotated, as the cache has them
    struct mt_tensor kv;     // [K,H·(Dn+Dv)]
    struct mt_tensor key;    // [K,H·D]
    struct mt_lora_trace lora;
};

void mt_attention_widened_plan(struct mt_attention_widened *widened, const struct mt_pass *pass,
                               const struct mt_layer_params *params, struct mt_planner *work);

/* Rows of out [T,H·Dv] that belong to prompts, from those of q [T,H·D], which are rotated here; the
 * cache has their keys. */
enum mt_status mt_attention_widened_forward(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                            const struct mt_layer_cache *cache,
                                            const struct mt_attention_widened *widened,
                                            const struct mt_tensor *q, const struct mt_tensor *out);

#endif
