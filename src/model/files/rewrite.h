/*
 * A model folder written anew: every tensor of a checkpoint, in its stored type or another, some with new
 * values; config, tokenizer and so on carried over. Written as a stream, tensor by tensor, so the model may
 * be far larger than memory; the folder appears whole or not at all.
 */
#ifndef MT_MODEL_REWRITE_H
#define MT_MODEL_REWRITE_H

#include <stdio.h>

#include "arch/config.h"
#include "formats/safetensors/checkpoint.h"

/* One tensor of the result. */
struct mt_rewrite_tensor {
    const struct mt_safetensors_tensor *stored;
    int64_t count;          // elements
    const void *data;       // what is written, unless it changes: the stored data, or other of the same shape
    enum mt_dtype from, to; // types of `data`, and of the new file
    const void *change;     // the caller's; NULL: it does not change
    int64_t row;            // a changed one is asked for in whole rows of so many elements
};

/* Where new values come from. */
struct mt_rewrite_source {
    void *self; // borrowed; handed to both calls

    /* Sets `change` and `row`, or replaces `data`, `from` and `to`; most tensors are left as they are. */
    void (*choose)(void *self, struct mt_rewrite_tensor *tensor);

    /*
     * Elements first … first+count-1 of a changed tensor into `values`; `room` is as large. Pieces come in
     * order, the first with first = 0.
     */
    enum mt_status (*fill)(void *self, const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count,
                           float *values, float *room);

    /* Adds files of the caller's own to the folder before it takes its name; NULL: there are none. */
    enum mt_status (*add_files)(void *self, const char *directory);
};

struct mt_rewrite_options {
    const char *directory;  // the model's folder
    const char *out;        // must not exist, or be empty
    enum mt_hf_float dtype; // of the weights; unknown: each tensor as it was stored
    uint64_t shard_bytes;   // of one file at the most; 0: 5 GB
    FILE *progress;         // borrowed; NULL: none is shown
    const char *label;      // of the progress
};

struct mt_rewrite_result {
    size_t tensors;  // in all
    size_t changed;  // by fill
    size_t replaced; // with other data
    uint64_t bytes;  // of all tensors
    size_t files;    // with weights
    size_t carried;  // other files copied
    bool narrow;     // some changed tensor has 16 bits
};

/* The checkpoint is the folder's, and fits its config (mt_params_check). After a failure nothing is at `out`.
 */
enum mt_status mt_rewrite(struct mt_context *ctx, const struct mt_checkpoint *checkpoint,
                          const struct mt_rewrite_source *source, const struct mt_rewrite_options *options,
                          struct mt_rewrite_result *result);

/* Elements first … first+count-1 of `data` as f32, by way of `room`. */
void mt_rewrite_read(const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count, float *values,
                     float *room);

#endif
