/* Inside the engine: its slots and what they hold. For src/infer/engine*.c alone. */
#ifndef MT_INFER_ENGINE_STRUCT_H
#define MT_INFER_ENGINE_STRUCT_H

#include "base/arena.h"
#include "infer/engine.h"
#include "metier/buffer.h"

enum slot_use {
    SLOT_FREE,
    SLOT_GENERATION,
    SLOT_PREFIX,       // a scoring's prefix is being computed
    SLOT_HELD,         // a scoring's prefix is there; nothing is computed in this slot
    SLOT_CONTINUATION, // of a scoring whose prefix lies in slot `home`, which may be this one
};

struct engine_slot {
    enum slot_use use;
    int32_t *ids;         // [positions]: the tokens so far
    int64_t count;        // of them
    int64_t done;         // of them, in the cache
    int64_t seen;         // of them, computed at some time for this request
    int64_t first_wanted; // position of the first token whose logits are wanted

    // What others may copy of the slot. It stays when the slot is free.
    int64_t whole;    // tokens from the first on that are in the cache and were computed in whole pieces
    int64_t rotation; // of those: where the rope tables begin for them (arch/rope.h)
    int64_t source;   // the slot whose first `shared` tokens this one waits for; -1: it does not wait
    int64_t shared;

    const struct mt_generation *generation; // borrowed
    int64_t generated;

    const struct mt_scoring *scoring; // borrowed
    int64_t home;
    size_t continuation; // which one is computed here
    // of a home: continuations are begun in order, first those that share the prefix, then the others
    size_t next_shared, next_alone;
    size_t shared_left; // not finished
    size_t alone_left;
    bool prefix_seen; // some continuation has been begun
};

/* A request in line. */
struct engine_waiting {
    const struct mt_generation *generation; // one of the two
    const struct mt_scoring *scoring;
};

/* A row of the batch whose logits are wanted. */
struct engine_row {
    int32_t slot;
    int32_t position;
    int32_t row;
};

#define MT_ENGINE_PICKS 1024 // at a time

/* An id whose logit a continuation waits for. */
struct engine_pick {
    struct mt_continuation *continuation; // borrowed
    int64_t index;                        // of the id in it
    int64_t row;                          // of the logits at hand
};

struct mt_engine {
    struct mt_context *ctx;   // borrowed
    struct mt_arena arena;    // of all arrays below but the line
    struct mt_model *model;   // borrowed
    struct mt_device *device; // borrowed
    const struct mt_model_desc *desc;
    int64_t slots, positions, piece;
    int64_t tokens;         // of a batch at the most
    int64_t most_sequences; // likewise: a piece is one
    int64_t prompt_keys;    // likewise (mt_model_prompt_keys)
    struct engine_slot *slot;
    int64_t turn; // the slot that is asked first for its next piece
    struct mt_sampler sampler;
    // the line
    struct engine_waiting *line;
    size_t line_first, line_count, line_capacity;
    // the batch
    int32_t *ids;                      // [tokens]
    int32_t *offsets;                  // [most_sequences+1]
    struct mt_cached_sequence *cached; // [most_sequences]
    int32_t *fed;                      // [slots]: tokens each slot has in it
    struct engine_row *row;            // [tokens]: what logits are wanted of
    int32_t *wanted;                   // [tokens]: their rows
    int32_t *is_new;                   // [tokens]: 0 where a token was computed before
    bool all_new;
    int64_t sequences, batch_tokens, wanted_count;
    // logits of some rows at a time
    int64_t logit_rows;
    struct mt_buffer logits;      // f32 [logit_rows, V]
    struct mt_buffer host_logits; // the same, where the device's memory cannot be read; else empty
    // of those rows, on the device and here
    struct mt_buffer device_log_sum; // f64 [logit_rows]
    struct mt_buffer device_highest; // i32 [logit_rows]
    double *log_sum;
    int32_t *highest; // -1: a logit is not finite
    // logits of given ids that scorings wait for
    struct mt_buffer device_places; // i32 [MT_ENGINE_PICKS]: row · V + id
    struct mt_buffer device_picked; // f32 [MT_ENGINE_PICKS]
    int32_t *places;
    float *picked;
    struct engine_pick *pick;
    int64_t picks;
    struct mt_engine_counts counts;
    size_t active; // requests that hold slots
};

// ------------------------------------------------------------------ engine_slots.c

/* A slot without a request: its memory stays, and what others may copy. */
void mt_engine_free_slot(struct engine_slot *slot);

/* True when tokens of the slot are to be computed now. */
bool mt_engine_slot_computes(const struct engine_slot *slot);

/* Slots that waited for tokens of another copy them, once they are there. */
enum mt_status mt_engine_take_shared(struct mt_engine *engine);

/* Those first in line take the slots that are free. */
enum mt_status mt_engine_admit(struct mt_engine *engine);

/* Begins continuations of the scorings whose prefix is there. */
enum mt_status mt_engine_start_continuations(struct mt_engine *engine);

/* True when the whole row of logits is needed: to choose the slot's next token, or because somebody asked. */
bool mt_engine_slot_reads(const struct engine_slot *slot);

/* Hands row `row` of the logits at hand to its slot; `logits` is the row where the slot reads it. */
enum mt_status mt_engine_take_row(struct mt_engine *engine, int64_t row, const struct engine_row *whose,
                                  float *logits);

/* Fetches what scorings wait for of the logits at hand. */
enum mt_status mt_engine_take_picks(struct mt_engine *engine);

/* All tokens of a slot that scores are computed. */
enum mt_status mt_engine_finish_tokens(struct mt_engine *engine, int64_t slot);

#endif
