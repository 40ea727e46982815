/*
 * One pass over one batch: what every layer of it reads, and memory every layer may write for a moment.
 */
#ifndef MT_MODEL_PASS_H
#define MT_MODEL_PASS_H

#include "arch/desc.h"
#include "metier/objective.h"
#include "metier/ops_lora.h"

/*
 * A sequence with so many tokens in one pass is a prompt, or a piece of one. Latent attention makes its keys
 * and values anew (attention_widened.h), which costs less than going through the latent space.
 */
#define MT_PROMPT_TOKENS 16

struct mt_cache;        // model/layers/cache.h
struct mt_expert_ranks; // model/experts/ranks.h
struct mt_placement;    // model/experts/experts.h

/* A sequence that goes on from earlier passes. */
struct mt_cached_sequence {
    int32_t slot;   // its place in the cache
    int32_t past;   // tokens already there; those of this pass come after them
    int32_t length; // of the sequence as far as it is known, which is what LongRoPE goes by
};

/* What a pass that goes on from earlier ones knows of them: read by attention and by who fills the cache. */
struct mt_cached_pass {
    const struct mt_cache *cache;              // keys and values of earlier passes; borrowed; NULL: none
    const struct mt_cached_sequence *sequence; // [B], host, borrowed; NULL: this pass leaves the cache alone
    struct mt_tensor key_offsets;              // i32 [B+1]: counts each sequence's keys, old and new
    struct mt_tensor key_starts;               // i32 [B]: where in the cache they lie
    struct mt_tensor places;                   // i32 [T]: where in the cache each token of this pass goes
    // Sequences with MT_PROMPT_TOKENS or more in this pass: the last of the batch.
    int64_t prompt_sequences, prompt_tokens, prompt_keys; // keys: old and new
    struct mt_tensor prompt_offsets;                      // i32 [sequences+1], from 0
    struct mt_tensor prompt_key_offsets;                  // i32 [sequences+1]
    struct mt_tensor prompt_key_places;                   // i32 [keys]: where in the cache each lies
    struct mt_tensor prompt_turns;             // i32 [keys], zeros: the row of still_cosine, still_sine
    struct mt_tensor still_cosine, still_sine; // f32 [1, rope_width/2]: a rotation that turns nothing
};

/* What only MoE layers read. */
struct mt_moe_pass {
    const struct mt_objective_config *method; // NULL: the task's loss alone
    struct mt_objective *objective;           // NULL likewise, and where its statistics are not wanted
    bool measure;                             // gradient norms of the objective's terms
    bool grams;                               // records have Gram matrices, whatever the method needs
    bool silent;                              // routed experts add nothing to what a layer makes
    const struct mt_placement *placement;     // of the routed experts
    struct mt_expert_ranks *ranks;            // that share them; borrowed; NULL: all are here
    int64_t unmasked;                         // tokens that are no padding
    struct mt_tensor mask;                    // i32 [T], absent: all count
    struct mt_tensor ortho_mask;              // i32 [T], absent: as mask
    struct mt_tensor given;                   // i32 [MoE layers,T,k], absent: routers choose
    struct mt_tensor proxy_places;            // i32 [2n²+n+1], where a term asks for proxies (proxies.h)
    uint64_t whole_step, first_sequence;      // as in the batch, for what is drawn for sequences
};

/* Memory that linear layers write for a moment, flat. */
struct mt_linear_work {
    struct mt_tensor xa[MT_LORA_LINEARS]; // gradients of rank-r products, of all linear layers of one input
    // Where activations are rounded: an exact linear layer's rank-r product before, the gradient of its
    // result after
    struct mt_tensor exact_xa, rounded;
};

struct mt_pass {
    struct mt_device *device;         // borrowed
    const struct mt_model_desc *desc; // borrowed
    enum mt_dtype type;               // of activations: f32 or bf16; f64 for finite differences on ref
    enum mt_dtype exact;              // of statistics, scores and losses: f32, or f64 with f64 activations

    int64_t tokens;                // T
    int64_t sequences;             // B
    struct mt_tensor ids;          // i32 [T]
    struct mt_tensor positions;    // i32 [T], rows of the rope tables
    struct mt_tensor offsets;      // i32 [B+1]
    struct mt_tensor segment;      // i32 [T]: the token's sequence
    struct mt_tensor cosine, sine; // f32 [P, rope_width/2]

    bool training; // dropout, jitter, sampling
    uint64_t seed;
    uint64_t step;

    struct mt_cached_pass cached; // zeroed without a cache
    struct mt_moe_pass moe;
    struct mt_linear_work work;
};

/*
 * Somebody who looks on, in one of two ways.
 *
 * `look` is called after every MoE layer's forward with its number among the MoE layers, its record (rows
 * and residual included) and its input [T,d]. Both are the device's memory and last for the call. A pass that
 * is looked at so is not recorded (model/replay.h).
 *
 * `before` and `after` are called around a pass, which may be recorded, in models that keep their records
 * (mt_model_keeps_records). The records then have Gram matrices, and last until the next forward; inputs and
 * rows do not.
 */
struct mt_layer_observer {
    void *self; // borrowed; handed to each
    enum mt_status (*look)(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input); // NULL: not wanted
    // Both or none: a forward begins, and will overwrite the records of the last one; the device was told to
    // compute all layers; the batch had so many tokens, the first of the records.
    enum mt_status (*before)(void *self);
    enum mt_status (*after)(void *self, int64_t tokens);
};

/* Somebody who wants to know how far a backward has come. */
struct mt_layer_hook {
    enum mt_status (*layer_done)(void *self, int64_t layer); // its gradients are complete; NULL: nobody
    void *self;                                              // borrowed; handed to the call
};

/* What random numbers besides LoRA dropout are for; each has a stream per layer and step. */
enum mt_pass_stream {
    MT_STREAM_SAMPLING = 1, // SparseMixer's choice, dropping of slots
    MT_STREAM_INPUT_JITTER,
    MT_STREAM_ROUTER_JITTER,
    MT_STREAM_PROXIES, // noise on the router's rows
    MT_STREAM_POOL,    // sizes of sequences' pools
};

/* True when the method has a term that asks for this. */
bool mt_pass_needs(const struct mt_pass *pass, enum mt_term_needs what);

/* A stream of this step that no other stream number of this or another step shares (but for chance, 2^-64).
 */
uint64_t mt_pass_stream_now(const struct mt_pass *pass, uint64_t stream);

/* The same for a purpose within a layer. */
uint64_t mt_pass_layer_stream(const struct mt_pass *pass, enum mt_pass_stream purpose, int64_t layer);

/* For what is drawn for whole sequences: a stream of the optimizer step, whatever its micro-batch. */
uint64_t mt_pass_sequence_stream(const struct mt_pass *pass, enum mt_pass_stream purpose, int64_t layer);

/* The start of flat memory as [rows, columns]; it must be large enough. */
struct mt_tensor mt_pass_view(const struct mt_tensor *flat, int64_t rows, int64_t columns);

/* Rows [T,W] of this pass's tokens go to their places in a cache's [slots·positions, W]. */
enum mt_status mt_pass_remember(const struct mt_pass *pass, const struct mt_tensor *rows,
                                const struct mt_tensor *cache);

/*
 * Whether most of a pass is waiting for small kernels: it goes on from the cache and has few tokens, none of
 * a prompt. Work that can be is then issued beside other work (ops/beside.h). In training some of it waits
 * for random draws of the rest.
 */
bool mt_pass_is_short(const struct mt_pass *pass);

/* A contiguous [T, H·D] as [T,H,D]. */
struct mt_tensor mt_pass_heads(const struct mt_tensor *x, int64_t heads);

/* y [t,H,rope_width] = x rotated, or turned back, by the positions of the t tokens from `first` on; y may be
 * x.
 */
enum mt_status mt_pass_rotate(const struct mt_pass *pass, const struct mt_tensor *x, int64_t first,
                              bool inverse, const struct mt_tensor *y);

#endif
