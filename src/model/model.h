/*
 * A model at work: parameters, activations, objective; forward and backward over packed sequences.
 */
#ifndef MT_MODEL_MODEL_H
#define MT_MODEL_MODEL_H

#include "comm/comm.h"
#include "metier/objective.h"
#include "model/params/params.h"
#include "model/pass.h"
#include "model/planner.h"

struct mt_model_options {
    int64_t tokens;    // T at the most in a batch
    int64_t sequences; // B at the most
    int64_t positions; // of a sequence at the most; for the rope tables
    enum mt_recompute recompute;
    bool backward;                               // false: nothing is kept for backward
    const struct mt_objective_config *objective; // NULL: L_h alone
    const char *objective_prefix;                // of its keys in messages: "objective."; NULL: ""
    struct mt_train_selection selection;         // empty: everything frozen
    bool keep_hidden;                            // mt_model_hidden and _routing work without backward, too
    enum mt_dtype activations;    // f32; bf16 halves their memory; f64 on ref, for finite differences
    struct mt_comm *expert_ranks; // the ranks that share the routed experts, borrowed: all of them open the
                                  // model alike and make the same calls. NULL: every expert is here
    bool expert_direct;           // they read the device's memory themselves
    struct mt_device
        *expert_sender;   // cards send them, on its stream (ops/streams.h); borrowed; NULL: they do not
    double expert_room;   // rows that may arrive there, over a rank's own at the most; 0: all that can
    bool without_biases;  // leave the file of biases beside the weights alone (router_bias.h)
    bool cache;           // remember keys and values: slots of `positions` tokens each; no backward
    int64_t cache_slots;  // of it; 0: one per sequence. Sequences of a batch may lie in the same one
    bool without_weights; // a folder with a config alone, on a dry device
    bool choices;         // batches may bring choices of experts
    int64_t logit_rows;   // with a cache, that mt_model_logits_of is asked for at the most; 0: T
};

/* Packed sequences: sequence b holds tokens offsets[b] … offsets[b+1]-1. Host arrays, borrowed. */
struct mt_batch {
    int64_t tokens, sequences;
    const int32_t *ids;     // [T]
    const int32_t *offsets; // [B+1]
    const int32_t *labels;  // [T]; negative: no loss. NULL: no loss at all
    const int32_t *mask;    // [T], 0: padding, out of every statistic and loss; only after a sequence's last
                            // token. NULL: none
    uint64_t step;          // for dropout, jitter, sampling
    // For what is drawn for whole sequences (pools): the same however a step is cut into micro-batches.
    uint64_t whole_step;     // the optimizer step; 0: as step
    uint64_t first_sequence; // the number of the batch's first sequence in it
    bool training;           // dropout, jitter, SparseMixer's sampling, dropping of slots
    bool unseen;             // observers do not look: a rank takes part for others
    bool loss_only;          // no backward will follow; the objective is left alone
    bool measure;            // backward also measures the gradient norm of each of the objective's terms
    double progress;         // the learning rate now over its peak, for brake=decay
    // Of the whole step, when the batch is one of several whose gradients add up: each label then weighs
    // 1/step_labels, and the terms of the objective, which are means over tokens, the batch's share of
    // step_tokens. 0: the batch is the step.
    int64_t step_labels; // labels >= 0
    int64_t step_tokens; // not masked
    // Where other processes run batches at the same time and the objective's statistics are those of all: how
    // many tokens these have together. 0: this batch's own.
    int64_t shared_tokens;
    // With a cache: where each sequence's earlier tokens lie, and where these will. NULL: sequences begin
    // here, and nothing is remembered.
    // Sequences with MT_PROMPT_TOKENS or more (pass.h) are the last of the batch.
    const struct mt_cached_sequence *cached; // [B]
    // Experts of every token, each once, instead of the routers' choice; -1 in all slots of a token: the
    // router chooses. NULL: routers choose. Needs options.choices.
    const int32_t *chosen; // [MoE layers,T,k]
};

struct mt_model; // opaque

/*
 * With a cache: how many keys, old and new, the prompts of a batch may have together (pass.h); one prompt
 * always fits. 0 without a cache.
 */
int64_t mt_model_prompt_keys(const struct mt_model_options *options);

/*
 * Opens DIR (config.json and weights), sets parameters up and allocates everything. The caller closes; the
 * device outlives the model.
 */
enum mt_status mt_model_open(struct mt_device *device, const char *directory,
                             const struct mt_model_options *options, struct mt_model **model);
void mt_model_close(struct mt_model *model); // NULL is allowed

/*
 * Another objective from here on, for comparing methods on one model; NULL: the task's loss alone. Nothing is
 * left of the one before, a selection bias that it moved included. Memory grows where the new one needs more.
 * After a failure the model can only be closed.
 */
enum mt_status mt_model_set_objective(struct mt_model *model, const struct mt_objective_config *objective);

/*
 * From here on routers choose so many experts a token, from 1 to as many as the model's config says, which 0
 * stands for. Weights are normalised as the architecture does it. Only for passes with loss_only. Refused
 * where the router has its own number (SparseMixer).
 */
enum mt_status mt_model_set_slots(struct mt_model *model, int slots);

/* From here on routed experts are computed but add nothing (or do again); shared experts stay. As above. */
void mt_model_silence(struct mt_model *model, bool silent);

const struct mt_model_desc *mt_model_description(const struct mt_model *model);
enum mt_dtype mt_model_activations(const struct mt_model *model);
struct mt_params *mt_model_params(struct mt_model *model);
struct mt_objective *mt_model_objective(struct mt_model *model); // NULL without one

/* Bytes by purpose, for the plan that is printed. */
struct mt_model_bytes {
    size_t mapped;   // used from the file
    size_t copies;   // frozen weights that could not be
    size_t beside;   // the embedding in memory of the host, where the device has its own
    size_t codes;    // quantised weights
    size_t unpacked; // copies of these that products read, a layer's at a time
    size_t masters;  // trained parameters, and their roundings where there are any
    size_t gradients;
    size_t activations; // kept for backward
    size_t work;        // shared by all layers
    size_t cache;       // keys and values
};
struct mt_model_bytes mt_model_bytes(const struct mt_model *model);

struct mt_model_loss {
    double task;  // L_h: mean cross-entropy over labels >= 0
    double terms; // of the objective, weighted, summed over layers
    int64_t labels;
};

/*
 * Forward through all layers; with labels also the loss. Unless loss_only, what backward needs of it is made
 * in the same pass: the gradients of the head's own parameters are added here.
 */
enum mt_status mt_model_forward(struct mt_model *model, const struct mt_batch *batch,
                                struct mt_model_loss *loss);

/* Backward of the last forward; gradients are added to the parameters' own. */
enum mt_status mt_model_backward(struct mt_model *model);

/* From now on backward tells of every layer it has done. Copied. */
void mt_model_set_layer_hook(struct mt_model *model, const struct mt_layer_hook *hook);

/*
 * True where routing records last until the next forward although nothing else is kept: with a cache, on a
 * device with memory of its own, where looking on within a pass would stop the device after every layer.
 */
bool mt_model_keeps_records(const struct mt_model *model);

/*
 * After forward: views of the device's memory, valid until the next. They need backward or keep_hidden;
 * records are also there with mt_model_keeps_records, and may then have copies of the batch's last token at
 * their end (model/replay.h). Of a record, rows last only where they are kept for
 * backward, and only until it; so does gram, but where records are kept.
 */
const struct mt_tensor *mt_model_hidden(const struct mt_model *model,
                                        int64_t layer); // [T,d] leaving the layer
const struct mt_routing *mt_model_routing(const struct mt_model *model, int64_t layer); // NULL: a dense layer

/* [MoE layers]: rows of the last forward whose expert is another rank's; NULL: all experts are here. */
const int64_t *mt_model_rows_sent(const struct mt_model *model);

/*
 * From now on the observer sees every MoE layer of every forward, whatever is kept afterwards; NULL ends it.
 * It is copied; what it points to must outlive its use.
 */
void mt_model_observe(struct mt_model *model, const struct mt_layer_observer *observer);

/* logits f32 [T,V] of the last forward, in memory of the device that the caller owns. After a pass with
 * a cache mt_model_logits_of is what there is. */
enum mt_status mt_model_logits(struct mt_model *model, const struct mt_tensor *logits);

/* logits f32 [count,V] of some of its tokens: rows[count] on the host, at most options.logit_rows. Only with
 * a cache. */
enum mt_status mt_model_logits_of(struct mt_model *model, const int32_t *rows, int64_t count,
                                  const struct mt_tensor *logits);

/* The first `tokens` of slot `from` are remembered in slot `to`, too. */
enum mt_status mt_model_copy_slot(struct mt_model *model, int64_t from, int64_t to, int64_t tokens);

/* The ranks that share the experts; NULL: every expert is here. */
struct mt_comm *mt_model_expert_ranks(const struct mt_model *model);

/* The device it was opened on. */
struct mt_device *mt_model_device(const struct mt_model *model);

#endif
