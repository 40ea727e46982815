/* What a model at work consists of. Only model.c and the files of its batches include this. */
#ifndef MT_MODEL_MODEL_STRUCT_H
#define MT_MODEL_MODEL_STRUCT_H

#include "model/experts/ranks.h"
#include "model/layers/cache.h"
#include "model/model.h"
#include "model/replay.h"
#include "model/staging.h"
#include "model/transformer.h"

/* A recorded pass with more tokens than the caller's batch has. */
struct mt_padding {
    int32_t ids[MT_REPLAY_TOKENS];
    int32_t offsets[MT_REPLAY_TOKENS + 1];
    struct mt_cached_sequence cached[MT_REPLAY_TOKENS];
};

struct mt_model {
    struct mt_device *device; // borrowed
    struct mt_context *ctx;   // borrowed
    struct mt_model_options options;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_params params;
    struct mt_objective_config method; // a copy
    struct mt_objective *objective;    // NULL without one
    struct mt_cache cache;             // zeroed without one
    struct mt_expert_ranks ranks;      // zeroed where all experts are here
    struct mt_transformer transformer;
    struct mt_buffer index, kept, shared, work; // the regions' memory
    struct mt_buffer tables;                    // of the rotation
    struct mt_buffer biases;       // of routers that have none of their own, if a method moves them
    struct mt_buffer proxy_places; // model/experts/proxies.h, if a term asks for them
    int32_t *host;                 // [HOST_ROWS, host_row]: index tensors on their way to the device
    struct mt_staging staging;     // the same, as they will lie at the start of `index`
    int64_t host_row;              // numbers of each: the most of tokens, sequences + 1, prompts' keys
    struct mt_replay replay;       // of passes of one token a sequence
    struct mt_padding padding;     // of the pass at hand
    bool ran;                      // a forward that backward can follow has run
};

// Rows of the host's staging memory.
enum {
    HOST_POSITIONS,
    HOST_SEGMENT,
    HOST_LABELS,
    HOST_ORTHO_MASK,
    HOST_KEY_OFFSETS,
    HOST_KEY_STARTS,
    HOST_PLACES,
    HOST_PROMPT_OFFSETS,
    HOST_PROMPT_KEY_OFFSETS,
    HOST_PROMPT_KEY_PLACES,
    HOST_ZEROS,
    HOST_ROWS
};

#define INDEX_TENSORS 15 // of a batch

static inline int32_t *mt_model_host_row(const struct mt_model *model, int row)
{
    return model->host + (int64_t)row * model->host_row;
}

// ------------------------------------------------------------------ cached_batch.c: of batches with a cache

/* Refuses one that does not fit the cache; those without are fine. */
enum mt_status mt_cached_batch_check(const struct mt_model *model, const struct mt_batch *batch);

/* The sequences at the end of a cached batch that count as prompts. */
void mt_cached_batch_count(const struct mt_batch *batch, struct mt_batch_shape *shape);

/* Fills the host's rows. */
void mt_cached_batch_describe(const struct mt_model *model, const struct mt_batch *batch);

/* Whether the pass is one of those that come again and again: a token of each sequence, and nobody looks on
 * within it. */
bool mt_cached_batch_repeats(const struct mt_model *model, const struct mt_batch *batch);

/*
 * Puts copies of the last token behind a pass that repeats. They compute what that one computes, write the
 * same to the same place of the cache, and nobody asks for what comes of them.
 */
void mt_cached_batch_pad(struct mt_model *model, struct mt_batch *batch);

// ------------------------------------------------------------------

/* Lays the regions out for batches of a shape, in the memory there is, or counts what they need. */
void mt_model_lay_out(struct mt_model *model, const struct mt_batch_shape *shape, struct mt_regions *regions);

/* The most tokens of a cached batch that belong to no prompt. */
int64_t mt_model_other_tokens(const struct mt_model_options *options);

/* Runs the largest batches without computing: the device's scratch then suffices for every other. */
enum mt_status mt_model_plan_scratch(struct mt_model *model);

#endif
