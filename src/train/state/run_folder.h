/*
 * The folder of a run, and who may write there:
 *
 *     config.yaml            the settings, resolved
 *     text_form.json         how texts are written out that it trains on: text/text_form.h
 *     inputs.json            checksums of the files the run reads: formats/fingerprint.h
 *     metrics.jsonl          one line per record; tensorboard/ likewise
 *     checkpoints/           train/state/state.h
 *     adapter/ or model/     what was trained, at the end; adapter-best/ or model-best/ with an evaluation
 *     lock                   held while a process trains there
 */
#ifndef MT_TRAIN_RUN_FOLDER_H
#define MT_TRAIN_RUN_FOLDER_H

#include <stdbool.h>

#include "base/arena.h"

struct mt_run_folder {
    struct mt_context *ctx; // borrowed; NULL: not open
    const char *path;       // all in the arena given
    const char *config;
    const char *inputs;
    const char *checkpoints;
    const char *result; // RUN/adapter or RUN/model
    const char *best;   // RUN/adapter-best or RUN/model-best
    const char *lock_path;
    int held;  // descriptor of the folder itself; -1: not open
    int lock;  // descriptor; -1: not locked
    bool made; // by this process
};

/* The paths of a run, nothing on disk touched. `result` is "adapter" or "model". */
enum mt_status mt_run_folder_name(struct mt_context *ctx, const char *path, const char *result,
                                  struct mt_arena *arena, struct mt_run_folder *folder);

/*
 * Makes the folder, with those above it, or accepts one that is there, and locks it. What a killed run left
 * half-written is removed. Refused: a folder that is not a run's and has what a run writes, or a model or an
 * adapter; and one where another process trains. The caller closes, also after a failure: a folder made for a
 * run that never began goes.
 */
enum mt_status mt_run_folder_open(struct mt_run_folder *folder);

/* The folder of checkpoints, if it is not there: in the folder this run holds, whatever has its name now. */
enum mt_status mt_run_folder_make_checkpoints(const struct mt_run_folder *folder);

/*
 * Refuses to go on where the folder is not this run's any more: removed or moved, made anew, or emptied and
 * taken by another run. To be asked before anything is written there. Without a lock (a plan, another rank)
 * nothing is.
 */
enum mt_status mt_run_folder_check(const struct mt_run_folder *folder);

void mt_run_folder_close(struct mt_run_folder *folder); // a zeroed struct is allowed

/* True when a file or folder of that name is there. */
bool mt_run_folder_has(const char *path);

#endif
