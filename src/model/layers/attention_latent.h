/* Multi-head latent attention (DeepSeek-V2, -V3): keys and values from a normalised latent. */
#ifndef MT_MODEL_ATTENTION_LATENT_H
#define MT_MODEL_ATTENTION_LATENT_H

#include "model/layers/attention_absorbed.h"
#include "model/layers/attention_widened.h"
#include "model/layers/norm.h"

/* Letters: H heads, D = Dn + Dr width of queries and keys, Dv of values, C latent rank, Q query rank. */
struct mt_attention_latent {
    // from forward to backward
    struct mt_tensor q_latent; // [T,Q], where queries are compressed
    struct mt_norm_saved q_saved;
    struct mt_tensor q;         // [T,H·D], rotated
    struct mt_tensor kv_latent; // [T,C+Dr]: latent, then the key part all heads share, not rotated
    struct mt_norm_saved kv_saved;
    struct mt_tensor out; // [T,H·Dv]
    struct mt_tensor lse; // [T,H]
    struct mt_lora_trace q_lora, q_a_lora, q_b_lora, kv_a_lora, kv_b_lora, o_lora;
    // work; made again in backward
    struct mt_tensor q_normed;          // [T,Q]
    struct mt_tensor kv_normed;         // [T,C]
    struct mt_tensor kv;                // [T,H·(Dn+Dv)]: per head the key's first part, then the value
    struct mt_tensor key;               // [T,H·D]
    const struct mt_layer_cache *cache; // borrowed; NULL: none
    struct mt_attention_widened widened;
    struct mt_attention_absorbed absorbed; // work, where there is a cache
    // work of backward
    struct mt_tensor dq, dkey, dkv, dkv_latent, dout;
    struct mt_tensor dq_latent;  // [T,Q]
    struct mt_tensor dkv_normed; // [T,C]
};

void mt_attention_latent_plan(struct mt_attention_latent *attention, const struct mt_pass *pass,
                              const struct mt_layer_params *params, bool backward, struct mt_planner *saved,
                              struct mt_planner *work);

/* True when anything in it is trained. */
bool mt_attention_latent_is_trained(const struct mt_layer_params *params);

/* y = attention of x, [T,d] both. */
enum mt_status mt_attention_latent_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                           const struct mt_attention_latent *attention,
                                           const struct mt_tensor *x, const struct mt_tensor *y);

/* dx (NULL: not wanted) is overwritten; it must not be dy. */
enum mt_status mt_attention_latent_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                            const struct mt_attention_latent *attention,
                                            const struct mt_tensor *dy, const struct mt_tensor *x,
                                            const struct mt_tensor *dx);

#endif
