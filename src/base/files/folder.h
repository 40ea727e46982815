/*
 * A folder that appears whole or not at all: its files are written into "TARGET.tmp.PID.N" beside the target,
 * and the folder takes the target's name in one step. What a killed process leaves behind has the temporary
 * name, which nobody reads.
 */
#ifndef MT_BASE_FOLDER_H
#define MT_BASE_FOLDER_H

#include <stdbool.h>

#include "metier/context.h"

#define MT_FOLDER_TEMPORARY ".tmp." // follows the target's name in a temporary one

struct mt_folder {
    struct mt_context *ctx; // borrowed; NULL: not open
    char *target;           // owned; without a slash at its end
    char *path;             // owned; where to write the files
    bool replace;           // the target may be there: it makes way
};

/*
 * Opens a caller-owned folder. A target that exists must be an empty directory: folders are not replaced. End
 * with commit or abandon.
 */
enum mt_status mt_folder_open(struct mt_context *ctx, const char *target, struct mt_folder *folder);

/* The same refusal alone, for who computes for long before the folder is opened. */
enum mt_status mt_folder_check_free(struct mt_context *ctx, const char *target);

/* The same as opening, for a target that may be there and hold files: committing removes it, in the same step
 * if the file system can. */
enum mt_status mt_folder_open_replacing(struct mt_context *ctx, const char *target, struct mt_folder *folder);

/*
 * Puts the folder in place, safe on disk with all names in it; its files have to be so before. Whatever the
 * outcome, it is closed afterwards.
 */
enum mt_status mt_folder_commit(struct mt_folder *folder);

/* Removes the temporary folder and all that is in it; a closed or zeroed folder is allowed. */
void mt_folder_abandon(struct mt_folder *folder);

/* Makes a folder, its name safe on disk, unless there is one; the folder above must exist. */
enum mt_status mt_folder_make(struct mt_context *ctx, const char *path);

/* Makes the folders above a path, unless they are there: where a file is going to be written. */
enum mt_status mt_folder_make_above(struct mt_context *ctx, const char *path);

/* Makes a folder and those above it, unless they are there. */
enum mt_status mt_folder_make_all(struct mt_context *ctx, const char *path);

/* Gives a folder a temporary name, then removes it and all that is in it: it is there wholly or not at all.
 */
enum mt_status mt_folder_remove(struct mt_context *ctx, const char *path);

/* Removes what killed processes left under temporary names of a file or folder; nobody may be writing it now.
 */
enum mt_status mt_folder_sweep(struct mt_context *ctx, const char *target);

/* The same for an open folder's target, beside which others may be writing: what is theirs, and the folder
 * itself, stay. What cannot be removed is left at that. */
void mt_folder_sweep_dead(const struct mt_folder *folder);

/* Two folders change names: in one step where the system can do that, else by turns. 0, or the error number;
 * then nothing changed. */
int mt_folder_exchange(const char *one, const char *other);

/*
 * Three renames: for a moment `other` is not there. A process killed then leaves what `other` was at
 * "ONE.aside".
 */
int mt_folder_exchange_by_turns(const char *one, const char *other);

#endif
