/* Attention with q, k and v projections: optional norm and clipping of q and k, rotation, heads in groups. */
#ifndef MT_MODEL_ATTENTION_GROUPED_H
#define MT_MODEL_ATTENTION_GROUPED_H

#include "model/layers/cache.h"
#include "model/layers/linear.h"
#include "model/layers/norm.h"

/* Letters: H heads, G key heads, D width of queries and keys, Dv of values. */
struct mt_attention_grouped {
    int window; // 0: none
    // from forward to backward
    struct mt_tensor q_projected; // [T,H·D] as the projections gave them
    struct mt_tensor k_projected; // [T,G·D]
    struct mt_tensor v_projected; // [T,G·Dv]
    struct mt_norm_saved q_saved, k_saved;
    struct mt_tensor out; // [T,H·Dv]
    struct mt_tensor lse; // [T,H]
    struct mt_lora_trace q_lora, k_lora, v_lora, o_lora;
    // q, k, v as attention reads them: the projections themselves, rotated in place, where nothing else is
    // done to them; else work memory, made again in backward
    struct mt_tensor q, k, v;
    const struct mt_layer_cache *cache; // borrowed; NULL: none
    // work of backward
    struct mt_tensor dq, dk, dv, dout;
};

/* Takes `saved` memory for what forward leaves to backward, and `work`. window: the layer's; 0: none. */
void mt_attention_grouped_plan(struct mt_attention_grouped *attention, const struct mt_pass *pass,
                               const struct mt_layer_params *params, int window, bool backward,
                               struct mt_planner *saved, struct mt_planner *work);

/* True when anything in it is trained. */
bool mt_attention_grouped_is_trained(const struct mt_layer_params *params);

/* y = attention of x, [T,d] both. */
enum mt_status mt_attention_grouped_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                            const struct mt_attention_grouped *attention,
                                            const struct mt_tensor *x, const struct mt_tensor *y);

/* dx (NULL: not wanted) is overwritten; it must not be dy. */
enum mt_status mt_attention_grouped_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                             const struct mt_attention_grouped *attention,
                                             const struct mt_tensor *dy, const struct mt_tensor *x,
                                             const struct mt_tensor *dx);

#endif
