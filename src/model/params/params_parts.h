/* Between the files that set parameters up: what is done with each tensor, and where its views go. */
#ifndef MT_MODEL_PARAMS_PARTS_H
#define MT_MODEL_PARAMS_PARTS_H

#include "model/params/params.h"
#include "model/planner.h"

enum mt_trainable {
    MT_TRAINABLE_NONE, // frozen
    MT_TRAINABLE_FULL, // the tensor itself
    MT_TRAINABLE_LORA, // a pair beside it
};

/* One tensor of the checkpoint. */
struct mt_params_item {
    struct mt_model_tensor tensor;
    const struct mt_safetensors_tensor *stored; // borrowed from the checkpoint
    enum mt_trainable trainable;
    bool correction; // the router's correction bias: f32, writable, never trained by a gradient
};

struct mt_params_items {
    struct mt_context *ctx; // borrowed
    struct mt_params_item *item;
    size_t count;
};

/* The views of one kind of projection (gate, up or down) of a layer's experts, while they are being filled
 * in. */
struct mt_expert_views {
    struct mt_tensor *weight, *dweight, *a, *b, *da, *db; // n each
};

#define MT_EXPERT_PROJECTIONS 3 // gate, up, down

/* Where the views of a tensor go; NULL where there is no such place. */
struct mt_params_place {
    struct mt_tensor *value, *gradient;
    struct mt_tensor *a, *b, *da, *db;
    struct mt_linear *linear;         // a linear layer outside the routed experts
    struct mt_expert_linear *experts; // a routed expert's
    const struct mt_expert_views *views;
};

/* Longest text: a name, "base_model.model." before it and ".lora_A.weight" behind. */
#define MT_PARAMS_NAME_BYTES (MT_MODEL_NAME_BYTES + 64)

/* The module a tensor belongs to: its name without ".weight" or ".bias". */
void mt_params_module_name(const char *tensor_name, char *module, size_t bytes);

/* What a layer's correction bias is called on disk. */
void mt_params_correction_name(const struct mt_model_desc *desc, int64_t layer, char *name, size_t bytes);

/* Decides what is trained: fills `learning` of every item and, for correction biases, finds the frozen ones.
 */
enum mt_status mt_params_select(struct mt_context *ctx, const struct mt_model_desc *desc,
                                const struct mt_train_selection *selection, struct mt_params_items *items,
                                struct mt_params *params);

/* LoRA adapts matrices that map one vector to another, so not the embedding. */
static inline bool mt_params_is_linear(const struct mt_model_tensor *tensor)
{
    return tensor->rank == 2 && tensor->part != MT_PART_EMBEDDING;
}

/* True when a tensor's name, or its module's, is the word or ends in it: "q_proj", "self_attn.q_proj". */
bool mt_params_word_names(const char *word, const struct mt_model_tensor *tensor);

/* Likewise for names transformers has and this checkpoint may not have: "mlp.gate",
 * "mlp.experts.gate_up_proj". */
bool mt_params_other_word_names(const struct mt_model_desc *desc, const char *word,
                                const struct mt_model_tensor *tensor);

/* Refuses a word of a list that names nothing, with what there is and what is nearest to it. */
enum mt_status mt_params_fail_word(struct mt_context *ctx, const struct mt_params_items *items,
                                   bool linear_only, const char *list, const char *word);

/* Where the views of this tensor go. `views` has MT_EXPERT_MAPS entries per layer. */
enum mt_status mt_params_find_place(struct mt_params *params, const struct mt_model_desc *desc,
                                    const struct mt_expert_views *views, const struct mt_model_tensor *tensor,
                                    struct mt_params_place *place);

/* One message for everything that is missing, unexpected or of another shape. */
enum mt_status mt_params_check(struct mt_context *ctx, const struct mt_model_desc *desc,
                               const struct mt_checkpoint *checkpoint);

/* Copies a stored tensor into f32 memory of the device. */
enum mt_status mt_params_upload_f32(struct mt_device *device, const struct mt_safetensors_tensor *stored,
                                    const struct mt_tensor *target);

/* Fills LoRA's A: uniform in ±1/sqrt(in), a pure function of the seed and the name. */
enum mt_status mt_params_fill_lora_a(struct mt_device *device, uint64_t seed, const char *name,
                                     const struct mt_tensor *a);

/* The type a tensor of a checked checkpoint is stored in. */
enum mt_dtype mt_params_stored_type(const struct mt_safetensors_tensor *stored);

/* Makes the roundings and points the linear layers to them. */
enum mt_status mt_params_read_rounded(struct mt_params *params);

#endif
