/*
 * A model with fewer routed experts, as views of the whole one: its config, its tensors, an adapter of it and
 * the biases beside it. Experts that stay are numbered anew, from 0; the bytes of their tensors, codes and
 * scales included, are the checkpoint's own. Only what has a row for every expert (routers, selection biases)
 * is copied, row by row. Whoever writes or merges the views writes or merges the smaller model.
 */
#ifndef MT_MODEL_SHRINK_H
#define MT_MODEL_SHRINK_H

#include "formats/safetensors/checkpoint.h"
#include "model/adapters/adapter.h"
#include "model/files/carried_files.h"
#include "model/kept.h"

#define MT_SHRINK_NUMBERS 6

/* What config.json says of the smaller model. */
struct mt_shrunk_config {
    struct mt_config_number number[MT_SHRINK_NUMBERS];
    size_t count;
};

/*
 * The config in memory becomes the smaller model's. Groups that limit nothing (topk_group is n_group, or
 * the router knows none) become one group; layers that predict further tokens, which nothing here reads and
 * no score tells apart, go.
 */
void mt_shrink_config(struct mt_hf_config *config, int keep, struct mt_shrunk_config *written);

/*
 * The tensors of the smaller model. `config` is still that of the whole one. The view borrows from the
 * checkpoint and lives in the arena: it is not closed. *left_out: tensors of layers that go.
 */
enum mt_status mt_shrink_checkpoint(const struct mt_checkpoint *checkpoint, const struct mt_hf_config *config,
                                    const struct mt_kept *kept, struct mt_arena *arena,
                                    struct mt_checkpoint *shrunk, size_t *left_out);

/* Drops and renumbers the pairs of an adapter that fits the whole model; biases included. */
enum mt_status mt_shrink_adapter(struct mt_adapter *adapter, const struct mt_hf_config *config,
                                 const struct mt_kept *kept, struct mt_arena *arena);

/* Selection biases in a file of ours (router_bias.h), opened for the whole model. */
enum mt_status mt_shrink_biases(struct mt_safetensors *biases, const struct mt_kept *kept,
                                struct mt_arena *arena);

#endif
