/*
 * A model folder with random weights: a copy of the config, and a checkpoint with the names, shapes and
 * sharding of a real one. Written as a stream, so the model may be far larger than memory.
 */
#ifndef MT_MODEL_INIT_H
#define MT_MODEL_INIT_H

#include <stdio.h>

#include "arch/quantise.h"

struct mt_model_init_options {
    const char *config;     // path of the config.json to start from
    const char *directory;  // appears whole where it does not exist; refused where it has weights
    uint64_t seed;          // values depend on it and the tensor's name, nothing else
    enum mt_hf_float dtype; // unknown: as the config says, and f32 where it does not
    double deviation;       // negative: the config's initializer_range, 0.02 where it has none
    struct mt_quantise_options quantise; // in codes, as folders are published; the others stay floats
    uint64_t shard_bytes;                // of one file at the most; 0: 5 GB
    int threads;                         // 0: as many as the machine has
    FILE *progress;                      // borrowed; NULL: none is shown
};

struct mt_model_init_result {
    int64_t parameters;
    uint64_t bytes;
    size_t files;
};

/* `result` may be NULL. After a failure there are no weights in the directory. */
enum mt_status mt_model_init(struct mt_context *ctx, const struct mt_model_init_options *options,
                             struct mt_model_init_result *result);

#endif
