/*
 * A model's weights in a directory: model.safetensors, or shards named by model.safetensors.index.json.
 * model.safetensors wins where both are there, as in transformers.
 */
#ifndef MT_FORMATS_CHECKPOINT_H
#define MT_FORMATS_CHECKPOINT_H

#include <stdbool.h>

#include "formats/safetensors/safetensors.h"

#define MT_CHECKPOINT_SINGLE "model.safetensors"
#define MT_CHECKPOINT_INDEX  "model.safetensors.index.json"

#define MT_CHECKPOINT_MAX_BYTES                                                                              \
    ((int64_t)1 << 60) // of all shards together; sums of sizes stay far from overflow

// ------------------------------------------------------------------ the index alone

struct mt_checkpoint_name {
    const char *name; // of a tensor
    size_t shard;
};

/* What model.safetensors.index.json says. */
struct mt_checkpoint_index {
    struct mt_arena arena;            // owns every text
    struct mt_checkpoint_name *names; // sorted by name
    size_t name_count;
    const char **shards; // file names, sorted, each once
    size_t shard_count;
    int64_t total_size; // metadata.total_size; -1 when it gives none
};

/*
 * Reads an index file, or `text` where it is not NULL; `path` then only names it. The caller frees it. A
 * shard name that leaves the directory is refused.
 */
enum mt_status mt_checkpoint_index_read(struct mt_context *ctx, const char *path, const void *text,
                                        size_t bytes, struct mt_checkpoint_index *index);

/* Frees an index; a zeroed one is allowed. */
void mt_checkpoint_index_free(struct mt_checkpoint_index *index);

// ------------------------------------------------------------------ the weights

struct mt_checkpoint_tensor {
    const struct mt_safetensors_tensor *info;
    size_t shard;
};

struct mt_checkpoint {
    struct mt_context *ctx; // borrowed
    struct mt_safetensors *shards;
    size_t shard_count;
    struct mt_checkpoint_tensor *tensors; // of all shards, sorted by name
    size_t tensor_count;
    uint64_t data_bytes;   // of all tensors
    bool stacked;          // some tensors are matrices inside others (arch/published/stacks.h)
    struct mt_arena arena; // of these; zeroed where there are none
};

/*
 * Opens every shard and checks that index and shards name exactly the same tensors in the same places. The
 * caller closes it; after a failure there is nothing to close.
 */
enum mt_status mt_checkpoint_open(struct mt_context *ctx, const char *directory,
                                  struct mt_checkpoint *checkpoint);

/* Closes every shard; a zeroed struct is allowed. */
void mt_checkpoint_close(struct mt_checkpoint *checkpoint);

/* The tensor of that name, or NULL. */
const struct mt_safetensors_tensor *mt_checkpoint_find(const struct mt_checkpoint *checkpoint,
                                                       const char *name);

/* True when the directory has an entry of that name, whatever it is. */
enum mt_status mt_checkpoint_has_file(struct mt_context *ctx, const char *directory, const char *name,
                                      bool *found);

#endif
