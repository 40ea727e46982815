/* A folder's lock. */
#define _DEFAULT_SOURCE // flock

#include "base/folder_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum mt_status mt_folder_lock(struct mt_context *ctx, const char *path, const char *what, int *lock)
{
    *lock = MT_FOLDER_UNLOCKED;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return mt_fail(ctx, MT_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    if (flock(folder, LOCK_EX | LOCK_NB) == 0) {
        *lock = folder;
        return MT_OK;
    }
    int error = errno;
    (void)close(folder);
    // Some network file systems lock files that can be written, and no folders.
    if (error != EWOULDBLOCK) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "%s: another process is %s there; wait until it has ended, or choose another folder", path,
                   what);
}

void mt_folder_unlock(int lock)
{
    if (lock != MT_FOLDER_UNLOCKED) (void)close(lock);
}
