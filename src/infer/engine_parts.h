/* Between the files of the engine: slots, and what a row of logits means to the request in one. */
#ifndef MT_INFER_ENGINE_PARTS_H
#define MT_INFER_ENGINE_PARTS_H

#include "infer/engine.h"

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
};

struct mt_engine {
    struct mt_context *ctx;   // borrowed
    struct mt_model *model;   // borrowed
    struct mt_device *device; // borrowed
    const struct mt_model_desc *desc;
    int64_t slots, positions, piece;
    int64_t tokens; // of a batch at the most
    struct engine_slot *slot;
    int32_t *slot_ids; // [slots·positions]
    int64_t turn;      // the slot that is asked first for its next piece
    struct mt_sampler sampler;
    // the line
    struct engine_waiting *line;
    size_t line_first, line_count, line_capacity;
    // the batch
    int32_t *ids;                      // [tokens]
    int32_t *offsets;                  // [slots+1]
    struct mt_cached_sequence *cached; // [slots]
    int32_t *fed;                      // [slots]: tokens each slot has in it
    int32_t *wanted;                   // [tokens]: rows of the batch
    struct engine_row *row;            // [tokens]: what each of those is
    int32_t *is_new;                   // [tokens]: 0 where a token was computed before
    bool all_new;
    int64_t sequences, batch_tokens, wanted_count;
    // logits of some rows at a time
    int64_t logit_rows;
    struct mt_buffer logits; // f32 [logit_rows, V]
    float *host_logits;      // the same, where the device's memory cannot be read; else NULL
    struct mt_engine_counts counts;
    size_t active; // requests that hold slots
};

/* A slot that is free, or -1. */
int64_t engine_free_slot(const struct mt_engine *engine);

/* Whatever was in a slot is not any more. */
void engine_free(struct mt_engine *engine, int64_t slot);

/* Puts a request into a free slot. */
void engine_start_generation(struct mt_engine *engine, int64_t slot, const struct mt_generation *generation);
void engine_start_scoring(struct mt_engine *engine, int64_t slot, const struct mt_scoring *scoring);

/* Begins as many continuations of prefixes that are there as there is room for. */
enum mt_status engine_start_continuations(struct mt_engine *engine);

/* Logits of the token at `position` of a slot. */
enum mt_status engine_take_logits(struct mt_engine *engine, int64_t slot, int64_t position, float *logits);

/* All tokens of a scoring's slot are computed and its logits taken. */
enum mt_status engine_finish_tokens(struct mt_engine *engine, int64_t slot);

#endif
