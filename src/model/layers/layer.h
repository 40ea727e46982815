/* One layer: h += attention(norm1(h)); h += mlp(norm2(h)). */
#ifndef MT_MODEL_LAYER_H
#define MT_MODEL_LAYER_H

#include "model/layers/attention_grouped.h"
#include "model/layers/attention_latent.h"
#include "model/layers/moe.h"

struct mt_layer {
    int64_t number;
    enum mt_recompute recompute;
    // from forward to backward
    struct mt_norm_saved norm1, norm2;
    struct mt_attention_grouped grouped; // one of the two
    struct mt_attention_latent latent;
    struct mt_tensor middle; // [T,d]: after attention, what norm2 reads
    struct mt_mlp dense;     // dense layers
    struct mt_moe moe;       // the others
    // work
    struct mt_tensor normed;  // [T,d]: what attention, then the MLP reads
    struct mt_tensor dnormed; // [T,d]
};

/* What a pass wants of a layer. */
struct mt_layer_plan {
    bool backward; // memory for it is wanted, and activations are kept
    bool hidden;   // every layer's input outlives the pass
    bool records;  // every layer's routing record does
    enum mt_recompute recompute;
};

void mt_layer_plan(struct mt_layer *layer, const struct mt_pass *pass, const struct mt_layer_params *params,
                   const struct mt_layer_plan *plan, struct mt_regions *regions);

/* True when anything in it is trained. */
bool mt_layer_is_trained(const struct mt_pass *pass, const struct mt_layer_params *params);

/* y = what leaves the layer when x enters, [T,d] both. */
enum mt_status mt_layer_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                struct mt_layer *layer, const struct mt_tensor *x, const struct mt_tensor *y);

/*
 * dx holds the gradient of the layer's output and, if `below` wants it, ends as that of x. y is the output,
 * which recomputation writes again.
 */
enum mt_status mt_layer_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                 struct mt_layer *layer, const struct mt_tensor *x, const struct mt_tensor *y,
                                 bool below, const struct mt_tensor *dx);

#endif
