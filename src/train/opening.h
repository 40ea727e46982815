/*
 * What of the settings opens a model for training, and what a rank of a run then holds: counted by opening
 * all of it on a dry device, as one rank of many that are not there. Dry runs, `metier plan` and the sizes a
 * run chooses for itself have their memory from here.
 */
#ifndef MT_TRAIN_OPENING_H
#define MT_TRAIN_OPENING_H

#include "base/log.h"
#include "model/model.h"
#include "train/fit.h"
#include "train/settings/settings.h"

/* What is trainable, as the settings or their adapter say. The adapter is the caller's to close. */
enum mt_status mt_train_select(struct mt_context *ctx, const struct mt_train_settings *settings,
                               const struct mt_model_desc *desc, struct mt_arena *arena,
                               struct mt_adapter *adapter, struct mt_train_selection *selection);

/* What the model is opened with in these sizes, on one rank. */
struct mt_model_options mt_train_model_options(const struct mt_train_settings *settings,
                                               const struct mt_train_selection *selection,
                                               const struct mt_device *device,
                                               const struct mt_fit_sizes *sizes);

/* Whether the embedding may go to the host's memory: it is frozen, and the device has memory of its own. */
bool mt_train_embedding_may_leave(const struct mt_train_settings *settings, const struct mt_model_desc *desc,
                                  const struct mt_device *device);

/* What may be chosen so that a run fits, without the embedding's place; tokens_open: batch.tokens, too. */
struct mt_fit_freedom mt_train_freedom(const struct mt_train_settings *settings, bool tokens_open);

struct mt_rank_memory {
    struct mt_model_bytes model;
    size_t moments;
    size_t buffers; // all of the device's: the model's, moments, and statistics
    size_t summed;  // bytes of gradients that other ranks have, too
    size_t common;  // bytes of gradients every rank has
    size_t own;     // of the routed experts of this rank, where these are spread
    size_t live;    // of the context while all of it is open
    bool narrow;    // activations have 16 bits
    // Numbers that are trained: of all routed experts, of the embedding, and of the rest.
    int64_t trained_experts, trained_embedding, trained_rest;
};

/*
 * Counts rank `rank` of `ranks`, of which sizes->expert_ranks share the experts. The options' expert_ranks
 * are set; `sources` are those of the data. The device is dry, and new.
 */
enum mt_status mt_rank_memory(struct mt_device *dry, const struct mt_train_settings *settings,
                              struct mt_model_options *options, const struct mt_fit_sizes *sizes, int rank,
                              int ranks, int sources, struct mt_rank_memory *memory);

/* What counts for the limit of the memory it computes in. */
size_t mt_rank_memory_bytes(const struct mt_device *dry, const struct mt_rank_memory *memory);

#endif
