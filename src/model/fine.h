/*
 * The first layers, forward, in f32. In training the roundings of a forward pass come back in every gradient,
 * and those of the first layers go through all others: they are most of what bf16 does to gradients
 * (docs/precision.md). Where activations are bf16 the first layer's forward, and attention in the second, are
 * therefore those of a twin, planned in f32; then what backward reads is rounded to where the layer itself
 * would have left it, and backward is the layer's own. What is no activation (statistics, routing record,
 * dropout's bits) the two have in common:
 *   share   makes it so, once both are planned
 *   keep    rounds the rest, after the twin's forward, but for gate and up, which forward rounds itself
 * What a twin does is never done again: recomputation is for the others. A twin's memory is what is kept for
 * layers above, which is free as long as they have not begun.
 *
 * In a few more layers the residual stream, and its gradient, are a bf16 tensor with a second one for what
 * rounding leaves of it, its rest.
 */
#ifndef MT_MODEL_FINE_H
#define MT_MODEL_FINE_H

#include "metier/space.h"
#include "model/layer.h"

#define MT_FINE_LAYERS 2 // that have a twin: the first wholly, the others for attention

/* What a twin does for its layer. */
enum mt_fine_part { MT_FINE_NOTHING, MT_FINE_ATTENTION, MT_FINE_WHOLE };

struct mt_fine {
    enum mt_fine_part part; // with MT_FINE_NOTHING the rest has no meaning
    struct mt_layer twin;
    struct mt_tensor y;     // f32 [T,d]: what leaves it, where it does all of the layer
    size_t end;             // bytes of kept memory from its start to behind the twin
    struct mt_space behind; // what is free of it, for scratch meanwhile
};

/* What a layer of such a pass should have a twin for. */
enum mt_fine_part mt_fine_wanted(const struct mt_pass *pass, const struct mt_layer_plan *plan, int64_t layer);

/* Whether stream and gradient should have a rest where they leave and enter it. */
bool mt_fine_stream_wanted(const struct mt_pass *pass, const struct mt_layer_plan *plan, int64_t layer);

/* What is computed again in a layer. */
enum mt_recompute mt_fine_recompute(enum mt_fine_part part, enum mt_recompute wanted);

/* Plans the twin of a layer that has just been planned; `behind` is the caller's to find. */
void mt_fine_plan(struct mt_fine *fine, enum mt_fine_part part, const struct mt_pass *pass,
                  const struct mt_layer_params *params, const struct mt_layer *layer,
                  struct mt_regions *regions);

/* As mt_layer_forward, with the twin. */
enum mt_status mt_fine_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               struct mt_fine *fine, struct mt_layer *layer, const struct mt_tensor *x,
                               const struct mt_tensor *y);

#endif
