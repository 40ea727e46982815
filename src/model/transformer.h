/* The whole stack: embedding, layers, head; forward and backward over one packed batch. */
#ifndef MT_MODEL_TRANSFORMER_H
#define MT_MODEL_TRANSFORMER_H

#include "model/layers/head.h"
#include "model/layers/layer.h"

struct mt_transformer {
    struct mt_pass pass;
    const struct mt_params *params; // borrowed
    struct mt_layer_plan plan;
    struct mt_layer *layer;   // [layers], owned by the model
    struct mt_tensor *hidden; // [layers + 1]: what enters layer l, at last what leaves the last one; likewise
    struct mt_head head;
    struct mt_tensor labels;           // i32 [T]
    struct mt_tensor dhidden;          // [T,d]: the gradient on its way down
    struct mt_layer_observer observer; // zeroed: nobody
    struct mt_layer_hook hook;
    size_t work_bytes; // of work memory, the most any batch took
};

/* The size of a batch. */
struct mt_batch_shape {
    int64_t tokens, sequences;
    int64_t prompt_sequences, prompt_tokens, prompt_keys; // of them (pass.h)
    bool mask;                                            // it has padding
    bool ortho_mask;                                      // the objective leaves first tokens out
    bool given;                                           // it brings choices of experts
};

/* True when every layer's input outlives the pass. */
bool mt_transformer_keeps_hidden(const struct mt_transformer *transformer);

/* Takes memory for a batch of this shape. pass.desc, type, method and the parameters must be set. */
void mt_transformer_plan(struct mt_transformer *transformer, const struct mt_batch_shape *shape,
                         struct mt_regions *regions);

/* From pass.ids to the normalised end. The objective, if there is one, sees every MoE layer. */
enum mt_status mt_transformer_forward(struct mt_transformer *transformer);

/* The loss of every token, into head.loss; with gradients also what backward starts from. */
enum mt_status mt_transformer_loss(struct mt_transformer *transformer, float loss_weight, bool gradients);

/* From dhidden, the gradient of the normalised end, down to the lowest thing that is trained. */
enum mt_status mt_transformer_backward(struct mt_transformer *transformer);

#endif
