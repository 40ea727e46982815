/* Making, accepting, refusing and locking the folder of a run. */
#define _DEFAULT_SOURCE // flock

#include "train/state/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compare.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "formats/fingerprint.h"

#define LOCK_NAME        "lock"
#define CONFIG_NAME      "config.yaml"
#define CHECKPOINTS_NAME "checkpoints"

static enum mt_status join(struct mt_arena *arena, const char *directory, const char *name,
                           const char *ending, const char **path)
{
    size_t bytes = strlen(directory) + strlen(name) + strlen(ending) + 2;
    enum mt_status status = MT_OK;
    char *made = mt_arena_array(arena, bytes, 1, &status);
    if (status == MT_OK) (void)snprintf(made, bytes, "%s/%s%s", directory, name, ending);
    *path = made;
    return status;
}

enum mt_status mt_run_folder_name(struct mt_context *ctx, const char *path, const char *result,
                                  struct mt_arena *arena, struct mt_run_folder *folder)
{
    *folder = (struct mt_run_folder){.ctx = ctx, .held = MT_FOLDER_UNLOCKED, .lock = -1};
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    enum mt_status status = mt_arena_copy_text(arena, path, length, &folder->path);
    const char *copy = folder->path;
    if (status == MT_OK) status = join(arena, copy, CONFIG_NAME, "", &folder->config);
    if (status == MT_OK) status = join(arena, copy, LOCK_NAME, "", &folder->lock_path);
    if (status == MT_OK) status = join(arena, copy, MT_FINGERPRINT_FILE, "", &folder->inputs);
    if (status == MT_OK) status = join(arena, copy, CHECKPOINTS_NAME, "", &folder->checkpoints);
    if (status == MT_OK) status = join(arena, copy, result, "", &folder->result);
    if (status == MT_OK) status = join(arena, copy, result, "-best", &folder->best);
    return status;
}

bool mt_run_folder_has(const char *path)
{
    struct stat entry;
    return lstat(path, &entry) == 0;
}

/* What a run would write over, or a model or adapter that a run does not belong into. Results of other verbs,
 * which may have come first, are no harm. */
static bool is_taken(const char *name)
{
    static const char *const names[] = {CONFIG_NAME,   "metrics.jsonl",      "tensorboard", CHECKPOINTS_NAME,
                                        "adapter",     "adapter-best",       "model",       "model-best",
                                        "config.json", "adapter_config.json"};
    bool taken = mt_ends_with(name, ".safetensors");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) taken = taken || strcmp(name, names[i]) == 0;
    return taken;
}

/* A run makes its lock first. A config.yaml alone may be anybody's, and must not be written over. */
static enum mt_status check_content(const struct mt_run_folder *folder)
{
    if (mt_run_folder_has(folder->lock_path) && mt_run_folder_has(folder->config)) return MT_OK;
    DIR *listing = opendir(folder->path);
    if (listing == NULL)
        return mt_fail(folder->ctx, MT_ERR_IO, "%s: cannot be read: %s", folder->path, strerror(errno));
    char stranger[256] = "";
    for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (!is_taken(entry->d_name)) continue;
        (void)snprintf(stranger, sizeof stranger, "%s", entry->d_name);
        break;
    }
    (void)closedir(listing);
    if (stranger[0] == '\0') return MT_OK;
    return mt_fail(folder->ctx, MT_ERR_USAGE,
                   "%s: has %s, but is not the folder of a run (" CONFIG_NAME " and " LOCK_NAME
                   "); choose another one as out",
                   folder->path, stranger);
}

/* The process that left its number in the lock. */
static long holder(int descriptor)
{
    char text[32] = "";
    ssize_t count = pread(descriptor, text, sizeof text - 1, 0);
    return count > 0 ? strtol(text, NULL, 10) : 0;
}

static enum mt_status fail_lock(struct mt_run_folder *folder, const char *doing, int error)
{
    return mt_fail(folder->ctx, MT_ERR_IO, "%s: cannot be %s: %s", folder->lock_path, doing, strerror(error));
}

static enum mt_status take_lock(struct mt_run_folder *folder)
{
    char text[32];
    enum mt_status status = mt_file_open_growing(folder->ctx, folder->lock_path, O_RDWR, &folder->lock);
    if (status != MT_OK) return status;
    int error = flock(folder->lock, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error != 0 && error != EWOULDBLOCK) return fail_lock(folder, "locked", error);
    // Whoever gave up may have removed the file meanwhile.
    if (error != 0 || !mt_folder_is_same(folder->lock_path, folder->lock)) {
        long process = holder(folder->lock);
        folder->made = false; // somebody else's now
        return mt_fail(folder->ctx, MT_ERR_USAGE, "%s: process %ld is training there", folder->path, process);
    }
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    bool written = ftruncate(folder->lock, 0) == 0 && pwrite(folder->lock, text, (size_t)length, 0) == length;
    return written ? MT_OK : fail_lock(folder, "written", errno);
}

/* Whoever left these is gone, or the lock would be taken. */
static enum mt_status sweep(const struct mt_run_folder *folder)
{
    enum mt_status status = mt_folder_sweep(folder->ctx, folder->config);
    if (status == MT_OK) status = mt_folder_sweep(folder->ctx, folder->inputs);
    if (status == MT_OK) status = mt_folder_sweep(folder->ctx, folder->result);
    return status == MT_OK ? mt_folder_sweep(folder->ctx, folder->best) : status;
}

/* Makes the folder and those above it. */
static enum mt_status make(struct mt_run_folder *folder)
{
    enum mt_status status = mt_folder_make_above(folder->ctx, folder->path);
    if (status != MT_OK) return status;
    folder->made = mkdir(folder->path, 0777) == 0; // and nobody else
    if (folder->made) return mt_file_sync_name(folder->ctx, folder->path);
    return errno == EEXIST ? MT_OK : mt_file_fail(folder->ctx, folder->path, "make the folder", errno);
}

enum mt_status mt_run_folder_open(struct mt_run_folder *folder)
{
    struct stat entry;
    enum mt_status status = make(folder);
    if (status != MT_OK) return status;
    if (stat(folder->path, &entry) != 0 || !S_ISDIR(entry.st_mode))
        return mt_fail(folder->ctx, MT_ERR_USAGE, "%s: is not a folder", folder->path);
    status = mt_folder_hold(folder->ctx, folder->path, &folder->held);
    if (status == MT_OK) status = check_content(folder);
    if (status == MT_OK) status = take_lock(folder);
    // Before there is a config: without a lock beside it, it would be taken for somebody else's.
    if (status == MT_OK) status = mt_file_sync_name(folder->ctx, folder->lock_path);
    if (status == MT_OK) status = mt_run_folder_check(folder);
    if (status == MT_OK) status = sweep(folder);
    return status;
}

enum mt_status mt_run_folder_make_checkpoints(const struct mt_run_folder *folder)
{
    if (folder->held == MT_FOLDER_UNLOCKED) return mt_folder_make(folder->ctx, folder->checkpoints);
    // Within what this run holds: another folder may have its name by now.
    if (mkdirat(folder->held, CHECKPOINTS_NAME, 0777) == 0) {
        (void)fsync(folder->held); // some file systems cannot, and keep it all the same
        return MT_OK;
    }
    if (errno == EEXIST) return MT_OK;
    return mt_file_fail(folder->ctx, folder->checkpoints, "make the folder", errno);
}

enum mt_status mt_run_folder_check(const struct mt_run_folder *folder)
{
    if (folder->lock < 0) return MT_OK;
    enum mt_status status = mt_folder_check(folder->ctx, folder->path, folder->held);
    if (status != MT_OK) return status;
    // The same folder, emptied and taken by another run, has a lock of that run's.
    if (!mt_run_folder_has(folder->lock_path) || mt_folder_is_same(folder->lock_path, folder->lock))
        return MT_OK;
    return mt_fail(
        folder->ctx, MT_ERR_IO,
        "%s: another run began there while this one was training; this one writes nothing more there",
        folder->path);
}

void mt_run_folder_close(struct mt_run_folder *folder)
{
    if (folder->ctx == NULL) return;
    // A run that never began leaves nothing. The lock is held until its name is gone.
    bool ours = folder->lock < 0 || mt_folder_is_same(folder->lock_path, folder->lock);
    if (folder->made && ours && !mt_run_folder_has(folder->config)) {
        (void)unlink(folder->lock_path);
        (void)rmdir(folder->path);
    }
    if (folder->lock >= 0) (void)close(folder->lock);
    mt_folder_unlock(folder->held);
    folder->lock = -1;
    folder->held = MT_FOLDER_UNLOCKED;
    folder->made = false;
}
