/*
 * The tensors of a checkpoint: their names and shapes in its files, and where they lie in a run. Each rank
 * writes what it moves, values and moments, and reads all values it holds with the moments of what it moves.
 */
#ifndef MT_TRAIN_STATE_TENSORS_H
#define MT_TRAIN_STATE_TENSORS_H

#include "formats/safetensors/safetensors_writer.h"
#include "metier/objective.h"
#include "train/buckets.h"
#include "train/state/state_pieces.h"

/* The tensors of a run: all borrowed. */
struct mt_run_tensors {
    struct mt_params *params;         // values, and the correction bias of every layer that has one
    const struct mt_buckets *buckets; // what of them this rank moves
    struct mt_tensor first, second;   // f32 flat, as long as buckets->own: the moments of AdamW
    struct mt_comm *comm;             // all ranks of the run
    struct mt_objective *objective;   // NULL without one
    double *running;                  // statistics the log goes on with, on the host; NULL without any
    size_t running_count;
};

/* What is written or read of a tensor. */
struct mt_state_place {
    void *data;     // of the first of these numbers
    int64_t first;  // among those of the tensor
    int64_t count;  // 0: other ranks read it
    bool on_device; // the device's memory; else the host's
};

struct mt_state_tensors {
    struct mt_arena arena; // owns everything here
    struct mt_safetensors_spec *specs;
    struct mt_state_place *places; // one for each spec
    size_t count, capacity;
};

/*
 * Lists what this rank writes, in its file's names and shapes, or reads, as whole tensors: with those other
 * ranks read, so that nothing may be missing. The caller frees. Moments must be there, or (while reading)
 * both be absent.
 */
enum mt_status mt_state_tensors_list(struct mt_context *ctx, const struct mt_run_tensors *run, bool reading,
                                     struct mt_state_tensors *list);
void mt_state_tensors_free(struct mt_state_tensors *list);

/* Writes a file of what is listed; every byte is added to the digest. */
enum mt_status mt_state_tensors_write(struct mt_device *device, const struct mt_state_tensors *list,
                                      const char *path, struct mt_digest *digest);

/* Takes over what is listed, once all of the checkpoint is known to fit. */
enum mt_status mt_state_tensors_read(struct mt_device *device, const struct mt_state_tensors *list,
                                     const struct mt_state_pieces *pieces, bool with_moments);

#endif
