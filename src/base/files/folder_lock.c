/* A folder's lock, and whether it is still the same folder. */
#define _DEFAULT_SOURCE // flock

#include "base/files/folder_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum mt_status mt_folder_hold(struct mt_context *ctx, const char *path, int *lock)
{
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock >= 0) return MT_OK;
    *lock = MT_FOLDER_UNLOCKED;
    return mt_fail(ctx, MT_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
}

enum mt_status mt_folder_lock(struct mt_context *ctx, const char *path, const char *what, int *lock)
{
    enum mt_status status = mt_folder_hold(ctx, path, lock);
    if (status != MT_OK || flock(*lock, LOCK_EX | LOCK_NB) == 0) return status;
    // Some network file systems lock files that can be written, and no folders.
    if (errno != EWOULDBLOCK) return MT_OK;
    (void)close(*lock);
    *lock = MT_FOLDER_UNLOCKED;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "%s: another process is %s there; wait until it has ended, or choose another folder", path,
                   what);
}

void mt_folder_unlock(int lock)
{
    if (lock != MT_FOLDER_UNLOCKED) (void)close(lock);
}

bool mt_folder_is_same(const char *path, int descriptor)
{
    struct stat held;
    struct stat named;
    // What is held keeps its number: no other can have it meanwhile.
    return fstat(descriptor, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

enum mt_status mt_folder_check(struct mt_context *ctx, const char *path, int lock)
{
    if (lock == MT_FOLDER_UNLOCKED || mt_folder_is_same(path, lock)) return MT_OK;
    return mt_fail(ctx, MT_ERR_IO,
                   "%s: was moved, removed or replaced while this process was writing there; it writes "
                   "nothing more there",
                   path);
}

enum mt_status mt_folder_blame(struct mt_context *ctx, enum mt_status status, const char *path, int lock)
{
    if (status != MT_OK && status != MT_ERR_IO) return status;
    enum mt_status lost = mt_folder_check(ctx, path, lock);
    return lost != MT_OK ? lost : status;
}
