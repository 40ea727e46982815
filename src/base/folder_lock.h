/*
 * One process at a time in a folder. The folder itself is locked, so that no file is left behind in it, and
 * the system gives the lock back when the process ends, however it does.
 */
#ifndef MT_BASE_FOLDER_LOCK_H
#define MT_BASE_FOLDER_LOCK_H

#include "metier/context.h"

#define MT_FOLDER_UNLOCKED (-1)

/*
 * Locks a folder that exists, or says that another process has it: "PATH: another process is WHAT there".
 * *lock is what mt_folder_unlock gives back; MT_FOLDER_UNLOCKED where the file system has no such locks, and
 * nobody is kept out.
 */
enum mt_status mt_folder_lock(struct mt_context *ctx, const char *path, const char *what, int *lock);

void mt_folder_unlock(int lock); // MT_FOLDER_UNLOCKED is allowed

#endif
