/* Loading parameters: what is done with each tensor of the checkpoint, and where its views go. */
#ifndef MT_MODEL_PARAMS_LOADING_H
#define MT_MODEL_PARAMS_LOADING_H

#include "model/params/params.h"
#include "model/planner.h"

enum mt_trainable {
    MT_TRAINABLE_NONE, // frozen
    MT_TRAINABLE_FULL, // the tensor itself
    MT_TRAINABLE_LORA, // a pair added to it
};

/* One tensor of the checkpoint. */
struct mt_params_item {
    struct mt_model_tensor tensor;
    const struct mt_safetensors_tensor *stored; // borrowed from the checkpoint
    enum mt_trainable trainable;
    bool correction;  // the router's correction bias: f32, writable, never trained by a gradient
    bool quantised;   // read from codes and scales
    bool published;   // the folder's own, used as they lie (arch/published/published.h)
    bool nested;      // of these: scales are codes, too
    bool elsewhere;   // a routed expert's that another rank holds
    const void *kept; // its codes in a file beside the model (codes_cache.h); NULL: they are made
};

struct mt_params_items {
    struct mt_context *ctx; // borrowed
    struct mt_params_item *item;
    size_t count;
};

/* Where the views of a tensor go. */
struct mt_params_place {
    struct mt_tensor *value, *gradient; // NULL: a linear layer's weight, or no gradient
    struct mt_linear *linear;           // whose weight it is; NULL: of none
    struct mt_linear *biased;           // routed experts, one of which has this bias; NULL: none
    int index;                          // which of its matrices or biases
    int projection;                     // of an expert's: 0 gate, 1 up, 2 down
};

/* Decides what is trained: fills `trainable` of every item and, for correction biases, finds the frozen ones.
 */
enum mt_status mt_params_select(struct mt_context *ctx, const struct mt_model_desc *desc,
                                const struct mt_train_selection *selection, struct mt_params_items *items,
                                struct mt_params *params);

/* LoRA adapts matrices that map one vector to another, so not the embedding. */
static inline bool mt_params_is_linear(const struct mt_model_tensor *tensor)
{
    return tensor->rank == 2 && tensor->part != MT_PART_EMBEDDING;
}

enum mt_status mt_params_find_place(struct mt_params *params, const struct mt_model_desc *desc,
                                    const struct mt_model_tensor *tensor, struct mt_params_place *place);

/* Makes the roundings and points the linear layers to them. */
enum mt_status mt_params_read_rounded(struct mt_params *params);

#endif
