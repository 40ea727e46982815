/*
 * The parameters of a model: every tensor of the checkpoint as the device computes with it, which of them
 * are trained, and the LoRA pairs beside them.
 *
 * A frozen tensor on a host device is a view into the mapped file, in the type it is stored in, or, where it
 * is quantised, codes and scales made of it (quantised.h). A trainable tensor has an f32 master, which is
 * computed with, and an f32 gradient. LoRA tensors are f32 masters. All gradients lie in one buffer, all
 * masters in another, in the order of `trained`; where activations have 16 bits, products read bf16 roundings
 * of the pairs (mt_params_round).
 *
 * Where ranks share the routed experts, each holds those of its own: the others' are neither mapped nor
 * copied, have no masters and no gradients. What every rank holds lies first in the buffers, the rank's own
 * experts' part after it; `trained` names all of it on every rank.
 */
#ifndef MT_MODEL_PARAMS_H
#define MT_MODEL_PARAMS_H

#include "arch/desc.h"
#include "arch/model_tensors.h"
#include "arch/quantise.h"
#include "base/arena.h"
#include "base/log.h"
#include "comm/comm.h"
#include "formats/safetensors/checkpoint.h"
#include "metier/buffer.h"
#include "metier/objective.h"
#include "model/params/weight.h"

/* What is trained, and how. Patterns are part keys ("attention", "routed_experts", ...) or globs on names. */
struct mt_train_selection {
    const char *const *full;   // tensors trained as they are; NULL-terminated; NULL: none
    const char *const *lora;   // linear layers that get a LoRA pair
    const char *const *freeze; // taken away from both, e.g. "router"
    int lora_rank;             // r
    double lora_alpha;         // scale = alpha / r
    double lora_dropout;       // of the LoRA input, in training
    // ESFT: for each layer the experts that are trained (full or LoRA, as selected above); NULL: all of them.
    const bool *const *experts;   // [layers] arrays of n flags; a NULL array: all of that layer
    struct mt_comm *expert_ranks; // the ranks that share the routed experts, borrowed; NULL: all are here
    struct mt_params *shared; // another loading of the same folder on the same device, of which nothing is
                              // trained: frozen weights read there. It outlives these. NULL: none
    uint64_t seed;            // LoRA A: kaiming uniform (a = sqrt 5), B: zero
    bool rounded;             // products read bf16 roundings of the pairs: see mt_params_round
    bool forward_only;        // nothing has gradients; mt_model_open sets it
    bool host_embedding; // a frozen embedding that is not the head lies in the host's memory: params.beside
    bool biases; // every router has a selection bias, zeros where the checkpoint has none: router_bias.h
    struct mt_quantise_options quantise; // which weights become codes as they are loaded
    const char *folder;       // where they are kept, if they are: the model's; mt_model_open sets it
    const struct mt_log *log; // where that is told of; NULL: nowhere
};

/* One thing the optimizer moves. */
struct mt_param {
    const char *name;       // as on disk, or PEFT's: "base_model.model.….lora_A.weight"
    struct mt_tensor value; // f32; without data where another rank holds it
    struct mt_tensor grad;  // f32, the same shape
    enum mt_model_part part;
    int64_t layer;  // -1: of no layer
    int64_t expert; // -1: of no routed expert
    int owner;      // which of the ranks that share the experts holds it; -1: every rank does
};

/* False when another rank holds it. */
static inline bool mt_param_is_here(const struct mt_param *param)
{
    return param->value.data != NULL;
}

/*
 * A linear layer, y = x Wᵀ (+ b) (+ scale · drop(x) Aᵀ Bᵀ), or those of a layer's routed experts, which have
 * one shape. Lists have a view for each of weight.count and are the parameters' arena's; NULL: there is none,
 * or none is trained. An absent view: this expert has none.
 */
struct mt_linear {
    struct mt_weight weight;
    struct mt_tensor *dweight;               // f32 [out,in]
    struct mt_tensor *a, *b;                 // f32 [r,in], [out,r]
    struct mt_tensor *da, *db;               // f32, likewise
    struct mt_tensor *rounded_a, *rounded_b; // bf16: a and b as products read them; NULL: these themselves
    struct mt_tensor bias, dbias;            // [out], f32 [out]; of a single linear layer
    struct mt_tensor *biases, *dbiases;      // the same of each routed expert
    int64_t rank;                            // r
    float lora_scale;
    float dropout;
    bool exact;      // never in less than f32: the router, whose order of experts would change
    uint64_t stream; // of its dropout; the step is added by the caller
};

struct mt_norm_weight {
    struct mt_tensor weight, bias;   // [d]; bias only for LayerNorm
    struct mt_tensor dweight, dbias; // f32, absent when frozen
};

struct mt_mlp_params {
    struct mt_linear gate, up, down;
};

struct mt_layer_params {
    bool moe;
    struct mt_norm_weight norm1, norm2; // before attention, before the MLP
    struct mt_norm_weight q_norm, k_norm;
    struct mt_linear q, k, v, o; // grouped attention; MLA uses q (or q_a, q_b), kv_a, kv_b, o
    struct mt_linear q_a, q_b, kv_a, kv_b;
    struct mt_tensor sinks, dsinks; // [H], f32 [H]
    struct mt_norm_weight q_a_norm, kv_a_norm;
    struct mt_mlp_params dense;
    struct mt_linear router;
    struct mt_tensor correction; // f32 [n], the correction bias; moved by mt_bias_update, never by a gradient
    bool correction_frozen;      // the selection's freeze names it: not even mt_bias_update may move it
    struct mt_mlp_params experts; // routed
    struct mt_mlp_params shared;
    struct mt_linear shared_gate; // [1,d]; only where the description names one
};

/* Every linear layer of a layer, there or not; those of the routed experts come last. */
#define MT_LAYER_LINEARS 19
#define MT_LAYER_ROUTED  16 // the first of them
void mt_layer_linears(struct mt_layer_params *layer, struct mt_linear *linears[MT_LAYER_LINEARS]);

struct mt_params {
    struct mt_device *device;                    // borrowed
    struct mt_arena arena;                       // owns names and arrays
    struct mt_buffer masters, gradients, copies; // copies: what could not be used from the mapping
    struct mt_buffer beside;    // the embedding in memory of the host, which the device reads a few rows of
    struct mt_buffer codes;     // quantised weights: codes and scales
    struct mt_safetensors kept; // these where a file has them; zeros: there is none
    struct mt_buffer unpacked;  // bf16 copies of them that products read, a layer's at a time
    struct mt_buffer rounded;   // bf16, laid out like the masters; empty: nobody reads it
    struct mt_buffer biases;    // of routers the checkpoint has none for; empty: there are none
    size_t mapped;              // bytes used from the mapping
    struct mt_tensor embedding, dembedding; // [V,d]
    struct mt_linear head;                  // lm_head; tied: weight is embedding
    struct mt_norm_weight norm;             // final
    struct mt_layer_params *layer;          // [layers]
    int64_t layers;
    float lora_scale; // of every LoRA pair; 0 without any
    struct mt_param *trained;
    size_t trained_count;
    int64_t trained_elements;     // in all, wherever they are
    size_t common_bytes;          // of masters and of gradients, from their beginning: what every rank holds
    struct mt_comm *expert_ranks; // the selection's
};

/*
 * Sets every tensor up from an open checkpoint, which must outlive the parameters. A missing, mis-shaped or
 * unexpected tensor is named. A pattern that matches nothing is refused. The caller frees.
 */
enum mt_status mt_params_load(struct mt_device *device, const struct mt_model_desc *desc,
                              const struct mt_checkpoint *checkpoint,
                              const struct mt_train_selection *selection, struct mt_params *params);
void mt_params_free(struct mt_params *params); // a zeroed struct is allowed

/*
 * Products of 16-bit rows round the pairs' masters anyway: where the selection says so, they read them
 * rounded once, when loaded and after every change. Routers' pairs are read so in backward alone, the head's
 * as they are. All roundings, flat, for the optimizer to refresh; absent where there are none.
 */
struct mt_tensor mt_params_rounded(const struct mt_params *params);

/* Refreshes the roundings after masters were written. Nothing where there are none. */
enum mt_status mt_params_round(const struct mt_params *params);

/* All gradients become 0. */
enum mt_status mt_params_zero_gradients(struct mt_params *params);

/* What can be trained in each MoE layer, for mt_objective_check_live: paths[MoE layers], in order. */
void mt_params_paths(const struct mt_params *params, const struct mt_model_desc *desc,
                     struct mt_layer_paths *paths);

// ------------------------------------------------------------------ tensors of a checkpoint

/* Longest text: a name, "base_model.model." before it and ".lora_A.weight" behind. */
#define MT_PARAMS_NAME_BYTES (MT_MODEL_NAME_BYTES + 64)

/* The module a tensor belongs to: its name without ".weight" or ".bias". */
void mt_params_module_name(const char *tensor_name, char *module, size_t bytes);

/* What a layer's correction bias is called on disk. */
void mt_params_correction_name(const struct mt_model_desc *desc, int64_t layer, char *name, size_t bytes);

/* One message for everything that is missing, unexpected or of another shape. */
enum mt_status mt_params_check(struct mt_context *ctx, const struct mt_model_desc *desc,
                               const struct mt_checkpoint *checkpoint);

/* The type a tensor of a checked checkpoint is stored in. */
enum mt_dtype mt_params_stored_type(const struct mt_safetensors_tensor *stored);

/* Copies a stored tensor into f32 memory of the device. */
enum mt_status mt_params_upload_f32(struct mt_device *device, const struct mt_safetensors_tensor *stored,
                                    const struct mt_tensor *target);

#endif
