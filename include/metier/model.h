/*
 * A language model at work: opened from a folder, run on batches of tokens, its losses and gradients.
 *
 *     mt_lm_open                                         a folder as Hugging Face has them
 *     mt_lm_forward, mt_lm_backward                      a batch; gradients add up
 *     mt_adamw_step (metier/train.h)                     moves what is trainable, and clears the gradients
 *     mt_lm_save_adapter (metier/adapter.h)
 *     mt_lm_close
 *
 * Every fallible function returns a status and leaves a sentence in the context of the device the model was
 * opened on (metier/context.h). What may be NULL is said where it is declared; anything else that is NULL,
 * and every value that an enum does not have, is MT_ERR_USAGE. Where the model or the device itself is NULL
 * there is no context to carry a sentence. Functions without a status then return false, NULL or zeros.
 *
 * Threads: a model, its device and its context belong to one thread at a time;
 * models on devices and contexts of their own may be used side by side. Functions that only look (const) may
 * be called by several threads while no other call is under way.
 */
#ifndef METIER_MODEL_H
#define METIER_MODEL_H

#include "metier/device.h"
#include "metier/export.h"
#include "metier/objective.h"

MT_PUBLIC_BEGIN

struct mt_lm; // opaque

enum mt_lm_training {
    MT_LM_FROZEN, // nothing is trainable: forward alone
    MT_LM_LORA,   // pairs beside the linear layers that `targets` names
    MT_LM_FULL,   // the tensors that `targets` names
};

/* What a zero means is said at each: a zeroed struct with `tokens` set is a model that can be run. All texts
 * and arrays are borrowed until mt_lm_open returns. */
struct mt_lm_options {
    int64_t tokens;    // of a batch at the most; at least 1
    int64_t sequences; // of a batch at the most; 0: as many as tokens
    int64_t positions; // of a sequence at the most; 0: as many as tokens
    enum mt_lm_training training;
    const char *const *targets; // parts (mt_lm_part), words (q_proj, all-linear) or globs on names; NULL at
                                // the end. NULL: every layer's linear maps for LoRA, everything for full
    const char *const *freeze;  // what is not trained although targets name it; NULL at the end. NULL: none
    const char *adapter; // with LoRA: the PEFT adapter to start from, whose pairs, rank and alpha count;
                         // frozen: the adapter to run with. NULL: none
    int rank;            // of LoRA's pairs; 0: 32
    double alpha;        // alpha / rank is their scale; 0: 4 · rank
    double dropout;      // of their input, in training
    const struct mt_objective_config *objective; // what is added to the task's loss; NULL: nothing
    const char *recompute; // what backward makes again instead of keeping: "none", "moe", "full"; NULL: none
    const char *activations;   // "f32", "bf16"; NULL: what the device is fastest on
    const char *chat_template; // what mt_lm_encode_row writes messages with: a name of share/metier/templates
                               // beside the library, or a file; NULL: the model's own
    uint64_t seed;             // of LoRA's pairs, dropout and jitter
};

/*
 * Opens a folder (config.json, weights, tokenizer) and takes all memory that training it needs. What cannot
 * be trained, a term that reaches nothing trainable, a target that names nothing are refused. The caller
 * closes; the device outlives the model. The files are mapped: they stay as they are while it is open.
 */
enum mt_status mt_lm_open(struct mt_device *device, const char *folder, const struct mt_lm_options *options,
                          struct mt_lm **lm);

/* Frees it and all that it handed out; what was made for it (mt_adamw_create) goes before. NULL is allowed.
 */
void mt_lm_close(struct mt_lm *lm);

/* What it is. Texts live with the model. */
struct mt_lm_info {
    const char *architecture; // model_type of config.json: "deepseek_v2"
    int64_t layers;
    int64_t moe_layers; // of these, with a router and experts
    int64_t width;      // d
    int64_t vocabulary; // V
    int experts;        // n of a layer
    int slots;          // k: experts of a token
    int64_t trainable;  // numbers that training moves
    size_t bytes;       // of memory it holds on its device: weights that are copied, gradients, activations
};
void mt_lm_info(const struct mt_lm *lm, struct mt_lm_info *info);

// ------------------------------------------------------------------ what is trainable

/* The parts that targets may name: "attention", "router", ...; NULL past the last. They live forever. */
const char *mt_lm_part(int index);

/* One tensor that is trained. The views are of the device's memory (mt_device_download), and live with the
 * model. */
struct mt_lm_param {
    const char *name; // as on disk, or PEFT's: "base_model.model.….lora_A.weight"; lives with the model
    const char *part; // as mt_lm_part
    int64_t layer;    // -1: of no layer
    int64_t expert;   // -1: of no routed expert
    struct mt_tensor value;    // f32
    struct mt_tensor gradient; // f32, the same shape
};

/* Number 0, 1, ...; false past the last. */
bool mt_lm_param(const struct mt_lm *lm, size_t index, struct mt_lm_param *param);

/* To be called after values were written by another than mt_adamw_step, before the next forward. */
enum mt_status mt_lm_values_written(struct mt_lm *lm);

/* All gradients become 0: of a step that is given up. mt_adamw_step does it itself. */
enum mt_status mt_lm_clear_gradients(struct mt_lm *lm);

// ------------------------------------------------------------------ batches

/*
 * Sequences packed one after the other: sequence b holds tokens offsets[b] … offsets[b+1]-1. Arrays of the
 * host, borrowed for the call.
 */
struct mt_lm_batch {
    int64_t tokens, sequences; // sequences without offsets: 0 or 1
    const int32_t *ids;        // [tokens]
    const int32_t *offsets;    // [sequences+1]; NULL: one sequence
    const int32_t *labels; // [tokens]: the token each should predict; negative: none. NULL: no loss at all
    const int32_t *mask;   // [tokens]: 0 is padding, only at a sequence's end; NULL: none
    bool evaluation;       // no dropout, jitter or sampling, and no backward follows
    // Of all batches of an optimizer step, where there are several: labels >= 0, tokens not masked. Each
    // label then weighs 1/step_labels. 0: this batch is the step.
    int64_t step_labels, step_tokens;
    double progress; // the learning rate now over its peak, for brake=decay; 0 counts as 1
};

struct mt_lm_loss {
    double task;  // mean cross-entropy over the labels
    double terms; // the objective's, weighted, summed over layers
    int64_t labels;
};

/*
 * All layers, and with labels the loss. MT_ERR_NUMERIC where it is not finite. What the numbers of noise are
 * depends on the seed and on how many forwards went before.
 */
enum mt_status mt_lm_forward(struct mt_lm *lm, const struct mt_lm_batch *batch, struct mt_lm_loss *loss);

/* Of the last forward, which had labels and was no evaluation: gradients are added to the parameters' own. */
enum mt_status mt_lm_backward(struct mt_lm *lm);

/* logits[tokens, vocabulary] of the last forward, into memory of the host that is the caller's. Before its
 * backward. */
enum mt_status mt_lm_logits(struct mt_lm *lm, float *logits);

/*
 * What an MoE layer (0 to moe_layers-1) did in the last forward: its record, views of the device's memory
 * that are valid until the next forward (but for rows and gram: until its backward). NULL: there is none.
 */
const struct mt_routing *mt_lm_routing(const struct mt_lm *lm, int64_t moe_layer);

/* Each term of the objective there, and the loads; valid until the next forward. NULL: no objective. */
const struct mt_layer_report *mt_lm_terms(const struct mt_lm *lm, int64_t moe_layer);

// ------------------------------------------------------------------ texts

/*
 * The ids of a plain text, into ids[capacity], which may be NULL where capacity is 0. *count is how many
 * there are: more than capacity are MT_ERR_LIMIT, and nothing is written. The tokenizer is read at the first
 * call.
 */
enum mt_status mt_lm_encode(struct mt_lm *lm, const char *text, size_t bytes, int32_t *ids, size_t capacity,
                            size_t *count);

/*
 * The same of a row of training data, a line of JSON: {"messages": ...}, {"prompt": ..., "completion": ...}
 * or another form (docs/data.md), with what each id should predict: the answer's tokens, else -100. It is
 * what `metier train` trains on.
 */
enum mt_status mt_lm_encode_row(struct mt_lm *lm, const char *json, size_t bytes, int32_t *ids,
                                int32_t *labels, size_t capacity, size_t *count);

/* The text of ids, valid UTF-8 and a NUL, into text[capacity]; *bytes is its length without the NUL. */
enum mt_status mt_lm_decode(struct mt_lm *lm, const int32_t *ids, size_t count, char *text, size_t capacity,
                            size_t *bytes);

MT_PUBLIC_END

#endif
