/*
 * A run at one step, on disk: RUN/checkpoints/step-00000200/ with
 *
 *     state.safetensors   trained values, both moments of AdamW, correction biases, the objective's numbers
 *     state-1.safetensors values and moments that rank 1 moves, and so on; what rank 0 moves is in the first
 *     manifest.json       version, every number of struct mt_run_numbers, the settings' text, and for each of
 *                         the other files its size and checksum; a checksum of itself at its end
 *
 * The folder appears whole or not at all. Reading checks sizes and checksums before anything is taken over; a
 * checkpoint that fails is named in a warning and the one before it is taken. Which rank holds what, threads
 * and device may change between saving and loading. A folder of checkpoints has one run at a time that
 * writes; the caller sees to that.
 */
#ifndef MT_TRAIN_STATE_H
#define MT_TRAIN_STATE_H

#include "base/log.h"
#include "train/state/state_manifest.h"
#include "train/state/state_tensors.h"

/*
 * Writes folder/step-NNNNNNNN; the folder is there. A checkpoint of the same step is replaced. Checkpoints of
 * later steps belong to a past that was given up (a newest one that could not be read, a restart from an
 * earlier one): they are kept, but renamed to step-NNNNNNNN.superseded, so that no run resumes from them.
 * After a failure everything is as before. Collective: every rank writes its file, all fail or none, and the
 * first puts the folder in place.
 */
enum mt_status mt_state_save(struct mt_device *device, const char *folder,
                             const struct mt_run_numbers *numbers, const struct mt_run_tensors *tensors,
                             const char *settings_text);

struct mt_state_reader; // opaque: a checkpoint whose checksums are right. Every rank has its own

/*
 * Opens the newest checkpoint that is whole; those that are not are named as warnings. *reader is NULL when
 * there is none (no folder, or an empty one). Checkpoints of which none is whole are an error. The caller
 * closes.
 */
enum mt_status mt_state_find(struct mt_context *ctx, const char *folder, const struct mt_log *log,
                             struct mt_state_reader **reader);

/* The checkpoint of one step. The caller closes. */
enum mt_status mt_state_open(struct mt_context *ctx, const char *folder, uint64_t step,
                             struct mt_state_reader **reader);
void mt_state_close(struct mt_state_reader *reader); // NULL is allowed

/* Valid until the reader is closed. */
const char *mt_state_settings(const struct mt_state_reader *reader);
const struct mt_run_numbers *mt_state_numbers(const struct mt_state_reader *reader);

/*
 * Takes the tensors over. Names, types and shapes must be exactly those of the run: one that is not is named,
 * and nothing is changed. With both moments absent, the checkpoint's are left alone (to export or evaluate).
 */
enum mt_status mt_state_load(struct mt_device *device, const struct mt_state_reader *reader,
                             const struct mt_run_tensors *tensors);

/* Removes temporary folders left by killed runs. */
enum mt_status mt_state_sweep(struct mt_context *ctx, const char *folder);

/*
 * Removes checkpoints but for the newest `keep` (at least 1) and that of best_step (0: none), and temporary
 * folders left by killed runs.
 */
enum mt_status mt_state_prune(struct mt_context *ctx, const char *folder, int64_t keep, uint64_t best_step);

#endif
