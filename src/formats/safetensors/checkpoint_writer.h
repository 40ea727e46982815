/*
 * Writes a model's weights into a directory, in shards of a given size, as a stream (see
 * safetensors_writer.h). One shard is called model.safetensors; several are model-00001-of-00003.safetensors
 * and so on, and model.safetensors.index.json comes last: until it is there, there is no checkpoint.
 */
#ifndef MT_FORMATS_CHECKPOINT_WRITER_H
#define MT_FORMATS_CHECKPOINT_WRITER_H

#include "formats/safetensors/safetensors_writer.h"

#define MT_CHECKPOINT_SHARD_BYTES 5000000000 // transformers' "5GB"

struct mt_checkpoint_shard {
    const char *path;
    size_t first; // of the specs
    size_t count;
};

struct mt_checkpoint_writer {
    struct mt_context *ctx;                  // borrowed
    const char *directory;                   // borrowed
    const struct mt_safetensors_spec *specs; // borrowed
    size_t spec_count;
    struct mt_arena arena; // the plan
    struct mt_checkpoint_shard *shards;
    size_t shard_count;
    size_t current; // the shard being written
    size_t placed;  // so many shards may have their final name
    uint64_t total_bytes;
    struct mt_safetensors_writer shard;
    bool open;
};

/*
 * Opens a caller-owned writer on an existing directory. Refuses one that already has a checkpoint: shards
 * cannot replace others in one step. The metadata of every shard is {"format": "pt"}. A tensor larger than
 * max_shard_bytes has a shard of its own.
 */
enum mt_status mt_checkpoint_writer_open(struct mt_context *ctx, const char *directory,
                                         const struct mt_safetensors_spec *specs, size_t spec_count,
                                         uint64_t max_shard_bytes, struct mt_checkpoint_writer *writer);

/* Appends a piece of the current tensor. After a failure every file written is gone. */
enum mt_status mt_checkpoint_writer_write(struct mt_checkpoint_writer *writer, const void *data,
                                          size_t bytes);

/* Completes the last shard and writes the index. Closes the writer; after a failure every file is gone. */
enum mt_status mt_checkpoint_writer_finish(struct mt_checkpoint_writer *writer);

/* Removes everything written; a closed or zeroed writer is allowed. */
void mt_checkpoint_writer_abandon(struct mt_checkpoint_writer *writer);

#endif
