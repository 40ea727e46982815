/*
 * Many sequences at once: requests wait in line, take a slot of the model's cache when one is free, and leave
 * when they are done; a step computes the next tokens of all that hold a slot, so that weights are read once
 * for all.
 *
 * Two kinds: a generation goes on from a prompt; a scoring asks how likely given continuations of one prefix
 * are, the prefix being computed once.
 *
 * What a request gets depends on the request alone, to the last bit, not on its company: rows of a batch do
 * not touch each other, prompts are cut into pieces at fixed places, each a sequence of its own to attention,
 * and draws are counted by request and position.
 *
 * Requests that begin with the same ids have whole pieces of the beginning computed once, as far as they
 * allow
 * (`common`): also when one comes after the other, as long as its slot was not needed. The model's parameters
 * therefore stay as they are while an engine lives.
 *
 * All memory is taken when the engine is made, but for the list of waiting requests, which grows when one is
 * added. A step allocates nothing.
 */
#ifndef MT_INFER_ENGINE_H
#define MT_INFER_ENGINE_H

#include "infer/sampler.h"
#include "model/model.h"

struct mt_engine_options {
    int64_t slots;     // sequences computed together
    int64_t positions; // tokens of a sequence at the most, prompt and answer
    int64_t piece;     // prompts are cut at multiples of so many tokens; 0: 128
    // Tokens of prompts that a batch may hold besides one of every slot: many pieces, of one prompt or of
    // several. At least a piece; 0: 512.
    int64_t pass_tokens;
};

/* What a model is opened with to be used by such an engine; options' selection is left as it is. */
void mt_engine_model_options(const struct mt_engine_options *options, struct mt_model_options *model);

enum mt_finish {
    MT_FINISH_STOP_TOKEN,
    MT_FINISH_CALLER, // the request's own `token` said so
    MT_FINISH_LENGTH, // max_new, or no room for more
};

/* A prompt to go on from. Borrowed from mt_engine_add_generation until `finished` was called. */
struct mt_generation {
    const int32_t *ids; // [count], at least one, at most the engine's positions
    int64_t count;
    int64_t common;  // ids from the first on that may be had from another request; they count as computed
                     // before. 0: all is computed for this one; more than `count`: all ids
    uint64_t number; // of the request, for its draws
    struct mt_sampling sampling;
    int64_t max_new;         // tokens; at least 1
    const int32_t *stop_ids; // tokens that end the answer, and are not part of it
    size_t stop_count;
    void *self; // handed to all:
    // Before each token, and before the one that ends the answer: what it is chosen from, [V], valid during
    // the call. NULL: nobody wants it.
    void (*logits)(void *self, const float *logits);
    // One more token of the answer. *stop ends it here. A failure ends the step with that status.
    enum mt_status (*token)(void *self, int32_t id, bool *stop);
    // Before `finished`: the stop token that ended the answer. NULL: nobody wants it.
    enum mt_status (*stopped)(void *self, int32_t id);
    enum mt_status (*finished)(void *self, enum mt_finish why);
};

struct mt_continuation {
    const int32_t *ids; // [count], at least one
    int64_t count;
    // Filled in:
    double log_probability; // Σ log p(id | all before)
    bool greedy;            // each id was the most likely one
    float *each;            // [count], the caller's: log p of every id; NULL: not wanted
};

/* Continuations of one prefix. Borrowed until `finished` was called. */
struct mt_scoring {
    const int32_t *ids; // the prefix, [count], at least one
    int64_t count;
    int64_t common;                       // as a generation's
    uint64_t number;                      // of the request, for observers
    struct mt_continuation *continuation; // [continuations], at least one
    size_t continuations;
    void *self;
    // The logits [V] that ids[index] of a continuation is looked up in, valid during the call; those of a
    // continuation come in order. NULL: nobody wants them.
    void (*logits)(void *self, size_t continuation, int64_t index, const float *logits);
    enum mt_status (*finished)(void *self); // NULL: nobody waits for it
};

struct mt_engine; // opaque

/* The model was opened with mt_engine_model_options and outlives the engine. The caller destroys. */
enum mt_status mt_engine_create(struct mt_model *model, const struct mt_engine_options *options,
                                struct mt_engine **engine);
void mt_engine_destroy(struct mt_engine *engine); // NULL is allowed; requests still there are forgotten

/* Puts a request at the end of the line. */
enum mt_status mt_engine_add_generation(struct mt_engine *engine, const struct mt_generation *generation);
enum mt_status mt_engine_add_scoring(struct mt_engine *engine, const struct mt_scoring *scoring);

/* Computes one batch. *working is false when there was nothing to do. */
enum mt_status mt_engine_step(struct mt_engine *engine, bool *working);

/*
 * With experts spread over ranks every pass is one of all these ranks: each computes its own batch, and steps
 * wait for each other. A rank that has nothing more to do lends a hand, with a token that counts for nothing,
 * until no rank has; all call it then. `status` is how its own work ended: a failure ends the job, as the
 * others wait for this rank. Without other ranks it comes back.
 */
enum mt_status mt_engine_lend(struct mt_engine *engine, enum mt_status status);

/* Drops all requests, which then hear no more. */
void mt_engine_forget(struct mt_engine *engine);

/*
 * Within a step, for an observer of the model: of each token of the batch at hand, 1, or 0 where the same
 * token of the same request was computed before (continuations beside each other, LongRoPE's edge) or is one
 * that the request has in common with others. NULL: none is.
 */
const int32_t *mt_engine_new_tokens(const struct mt_engine *engine);

/*
 * Within a step, for an observer of the model: whose tokens the batch at hand holds, sequence by sequence.
 * Tokens of a scoring's prefix belong to part 0, those of continuation i to part i+1; a generation has one
 * part, 0.
 */
struct mt_engine_sequence {
    uint64_t request; // its number
    const void *self; // its own
    int64_t tokens;   // in the batch, behind those of the sequences before
    int64_t position; // of the first of them in the request
    int64_t prefix;   // tokens at positions before this one are of part 0
    uint64_t later;   // the part of the others
};
int64_t mt_engine_sequences(const struct mt_engine *engine);
struct mt_engine_sequence mt_engine_sequence(const struct mt_engine *engine, int64_t index);

/* Requests that are waiting or being computed. */
size_t mt_engine_requests(const struct mt_engine *engine);

/* What was computed so far. */
struct mt_engine_counts {
    int64_t steps;
    int64_t prompt_tokens;    // prompts, prefixes and continuations
    int64_t generated_tokens; // answers, one per request and step
};
struct mt_engine_counts mt_engine_counts(const struct mt_engine *engine);

#endif
