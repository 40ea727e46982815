/*
 * A model folder written anew: every tensor of a checkpoint, in its stored type or another, some with new
 * values; config, tokenizer and so on carried over. Written as a stream, tensor by tensor, so the model may
 * be far larger than memory; the folder appears whole or not at all.
 *
 * Weights in codes (arch/published/published.h) are read as products read them, the numbers they stand for
 * rounded to bf16, and written as floats, or in codes again: those that do not change as they lie, others
 * from their new numbers.
 */
#ifndef MT_MODEL_REWRITE_H
#define MT_MODEL_REWRITE_H

#include <stdio.h>

#include "arch/published/published.h"
#include "model/files/carried_files.h"

/* One tensor of the result, or one matrix of it that is written in codes. */
struct mt_rewrite_tensor {
    const char *name;
    int rank;
    int64_t dim[MT_SAFETENSORS_MAX_RANK];
    int part;                                   // of the model (enum mt_model_part); -1: no tensor of it
    const struct mt_safetensors_tensor *stored; // what is written, unless it changes; NULL: stored in codes
    int64_t count;                              // elements
    const void *data;                     // what is written instead, of the same shape; NULL: what is stored
    enum mt_dtype from, to;               // types of what is written, and of the new file
    const void *change;                   // the caller's; NULL: it does not change
    int64_t row;                          // a changed one is asked for in whole rows of so many elements
    const struct mt_published *published; // codes of the folder; NULL: floats
    bool quantised;                       // floats that are read as codes: of this format
    enum mt_quantised_format format;
    bool nested;
    const struct mt_quantised *matrix; // while it is written: the codes it is read from; NULL: floats
};

/* Where new values come from. */
struct mt_rewrite_source {
    void *self; // borrowed; handed to both calls

    /*
     * Sets `change` and `row`, or sets `data`, `from` and `to`, or sets `quantised`, `format` and
     * `nested`; most tensors are left as they are.
     */
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
    const char *directory;                 // the model's folder
    const char *out;                       // must not exist, or be empty
    enum mt_hf_float dtype;                // of the weights; unknown: each tensor as it was stored
    uint64_t shard_bytes;                  // of one file at the most; 0: 5 GB
    const char *quantisation;              // of config.json, see carried_files.h; NULL: as it is
    const struct mt_config_number *number; // likewise
    size_t number_count;
    const char *renumbered; // likewise
    bool requantise;        // what is read from codes is written in codes again, else in floats
    bool verbatim;     // nothing changes: every tensor is written as it lies, codes are not even looked at
    FILE *progress;    // borrowed; NULL: none is shown
    const char *label; // of the progress
};

/* What writing matrices in codes again has cost, over the matrices of a part that changed. */
struct mt_rewrite_loss {
    size_t matrices;
    double error; // sum of squares of what is lost
    double size;  // of the numbers before
};

struct mt_rewrite_result {
    size_t tensors;  // in all
    size_t changed;  // by fill
    size_t replaced; // with other data
    uint64_t bytes;  // of all tensors
    size_t files;    // with weights
    size_t carried;  // other files copied
    bool narrow;     // some changed tensor has 16 bits
    size_t codes;    // matrices that are written in codes
    size_t left_out; // tensors of no part of the model, which stay behind where codes become floats
    struct mt_rewrite_loss loss[MT_MODEL_PART_COUNT];
};

/* The checkpoint is the folder's, and fits its config (mt_params_check). After a failure nothing is at `out`.
 */
enum mt_status mt_rewrite(struct mt_context *ctx, const struct mt_hf_config *config,
                          const struct mt_checkpoint *checkpoint, const struct mt_rewrite_source *source,
                          const struct mt_rewrite_options *options, struct mt_rewrite_result *result);

/* Elements first … first+count-1 of `data`, or of the codes, as f32, by way of `room`. */
void mt_rewrite_read(const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count, float *values,
                     float *room);

#endif
