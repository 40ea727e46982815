/*
 * A folder held while a process writes there. One process at a time: the folder itself is locked, so that no
 * file is left behind in it, and the system gives the lock back when the process ends, however it does. And
 * it must stay the same folder: one that was removed and made anew under the same name is somebody else's.
 */
#ifndef MT_BASE_FOLDER_LOCK_H
#define MT_BASE_FOLDER_LOCK_H

#include <stdbool.h>

#include "metier/context.h"

#define MT_FOLDER_UNLOCKED (-1)

/*
 * Locks a folder that exists, or says that another process has it: "PATH: another process is WHAT there".
 * *lock is what mt_folder_unlock gives back. Where the file system has no such locks the folder is held all
 * the same, and nobody is kept out.
 */
enum mt_status mt_folder_lock(struct mt_context *ctx, const char *path, const char *what, int *lock);

/* Holds a folder that exists and keeps nobody out: for those who write beside the one that has the lock. */
enum mt_status mt_folder_hold(struct mt_context *ctx, const char *path, int *lock);

void mt_folder_unlock(int lock); // MT_FOLDER_UNLOCKED is allowed

/* Refuses to go on when the path no longer names the folder that is held. MT_FOLDER_UNLOCKED: nothing is
 * held. */
enum mt_status mt_folder_check(struct mt_context *ctx, const char *path, int lock);

/* How work in a folder ended: where writing failed because the folder is no longer the one that is held, that
 * is told instead; and work that went well is refused likewise.
 */
enum mt_status mt_folder_blame(struct mt_context *ctx, enum mt_status status, const char *path, int lock);

/* True when the path names what the descriptor has open: the same folder or file. */
bool mt_folder_is_same(const char *path, int descriptor);

#endif
