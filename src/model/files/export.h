/*
 * A trained model as a folder of its own: every tensor of the model it was trained from, those that learned
 * with their masters' values, rounded once to the type they are written in; correction biases as they are
 * now, those the checkpoint has no tensor for beside it; config, tokenizer and so on carried over. Written as
 * a stream; the folder appears whole or not at all.
 */
#ifndef MT_MODEL_EXPORT_H
#define MT_MODEL_EXPORT_H

#include <stdio.h>

#include "model/files/carried_files.h"
#include "model/params/params.h"

struct mt_export_options {
    const char *directory;           // the model it was trained from
    const char *out;                 // must not exist, or be empty
    enum mt_hf_float dtype;          // of the weights; unknown: each tensor as it was stored
    uint64_t shard_bytes;            // of one file at the most; 0: 5 GB
    FILE *progress;                  // borrowed; NULL: none is shown
    struct mt_trained_texts trained; // what its texts were written out with
};

struct mt_export_result {
    size_t tensors; // in all
    size_t trained; // with new values
    size_t biases;  // correction biases that moved, and are written as f32
    size_t
        biases_beside; // of routers that have none in the checkpoint: in a file of their own (router_bias.h)
    uint64_t bytes;    // of all tensors
    size_t files;      // with weights
    size_t carried;    // other files copied
    bool narrow;       // some trained tensor has 16 bits
};

/*
 * LoRA pairs are refused: they are an adapter (model/adapters/adapter.h), which can be merged. `result` may
 * be NULL. After a failure there is nothing at `out`.
 */
enum mt_status mt_model_export(const struct mt_params *params, const struct mt_model_desc *desc,
                               const struct mt_export_options *options, struct mt_export_result *result);

#endif
