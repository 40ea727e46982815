/*
 * Latent attention in the latent space, for decoding: queries absorb kv_b's key part, and what attention sums
 * is a latent, from which kv_b's value part makes the output (model/layers/cache.h has the formula). A token
 * in the cache is read once for all heads.
 */
#ifndef MT_MODEL_ATTENTION_ABSORBED_H
#define MT_MODEL_ATTENTION_ABSORBED_H

#include "model/layers/cache.h"
#include "model/layers/linear.h"
#include "model/layers/norm.h"

/* Work, within one layer, of the T' tokens that belong to no prompt. */
struct mt_attention_absorbed {
    struct mt_tensor query; // [T',H·(C+Dr)]: in the latent space, and the rotated part
    struct mt_tensor sum;   // [T',H·C]
    struct mt_tensor xa;    // [T',H·r], with LoRA on kv_b
};

void mt_attention_absorbed_plan(struct mt_attention_absorbed *absorbed, const struct mt_pass *pass,
                                const struct mt_layer_params *params, struct mt_planner *work);

/*
 * Their rows of out [T,H·Dv] from those of q [T,H·D], not rotated yet, over the cache, which knows this
 * pass's tokens already.
 */
enum mt_status mt_attention_absorbed_forward(const struct mt_pass *pass, const struct mt_linear *kv_b,
                                             const struct mt_layer_cache *cache,
                                             const struct mt_attention_absorbed *absorbed,
                                             const struct mt_tensor *q, const struct mt_tensor *out);

#endif
