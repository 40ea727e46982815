/* The tensors of a checkpoint: their names and shapes in the file, and where they lie in a run. */
#ifndef MT_TRAIN_STATE_TENSORS_H
#define MT_TRAIN_STATE_TENSORS_H

#include "formats/safetensors/safetensors_writer.h"
#include "metier/objective.h"
#include "model/params/params.h"
#include "model/params/shards.h"

/* The tensors of a run: all borrowed. */
struct mt_run_tensors {
    struct mt_params *params;       // values, and the correction bias of every layer that has one
    struct mt_tensor first, second; // f32 flat, as long as params->masters: the moments of AdamW
    struct mt_objective *objective; // NULL without one
    double *running;                // statistics the log goes on with, on the host; NULL without any
    size_t running_count;
};

struct mt_state_place {
    void *data;                   // NULL: another rank holds it
    bool on_device;               // the device's memory; else the host's
    const struct mt_param *param; // it belongs to; NULL: none
    enum mt_shard_array array;    // which of the param's
};

struct mt_state_tensors {
    struct mt_arena arena;          // owns everything here
    const struct mt_params *params; // borrowed
    struct mt_safetensors_spec *specs;
    struct mt_state_place *places; // one for each spec
    size_t count, capacity;
};

/* Lists what a run has; the caller frees. Moments must be there, or (while reading) both be absent. */
enum mt_status mt_state_tensors_list(struct mt_context *ctx, const struct mt_run_tensors *run, bool reading,
                                     struct mt_state_tensors *list);
void mt_state_tensors_free(struct mt_state_tensors *list);

/* Writes the file; every byte is added to the digest. What other ranks hold they are asked for. */
enum mt_status mt_state_tensors_write(struct mt_device *device, const struct mt_state_tensors *list,
                                      const char *path, struct mt_digest *digest);

/* Takes the file's tensors over, as far as they are this rank's, once all of them are known to fit. */
enum mt_status mt_state_tensors_read(struct mt_device *device, const struct mt_state_tensors *list,
                                     const struct mt_safetensors *file, bool with_moments);

#endif
