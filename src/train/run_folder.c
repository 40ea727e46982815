/* Making, accepting, refusing and locking the folder of a run. */
#define _DEFAULT_SOURCE // flock

#include "train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/folder.h"

#define LOCK_NAME   "lock"
#define CONFIG_NAME "config.yaml"

static enum mt_status join(struct mt_arena *arena, const char *directory, const char *name,
                           const char *ending, const char **path)
{
    size_t bytes = strlen(directory) + strlen(name) + strlen(ending) + 2;
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(arena, bytes, &memory);
    if (status != MT_OK) return status;
    (void)snprintf(memory, bytes, "%s/%s%s", directory, name, ending);
    *path = memory;
    return MT_OK;
}

enum mt_status mt_run_folder_name(struct mt_context *ctx, const char *path, const char *result,
                                  struct mt_arena *arena, struct mt_run_folder *folder)
{
    *folder = (struct mt_run_folder){.ctx = ctx, .lock = -1};
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(arena, length + 1, &memory);
    if (status != MT_OK) return status;
    char *copy = memory;
    memcpy(copy, path, length);
    copy[length] = '\0';
    folder->path = copy;
    status = join(arena, copy, CONFIG_NAME, "", &folder->config);
    if (status == MT_OK) status = join(arena, copy, LOCK_NAME, "", &folder->lock_path);
    if (status == MT_OK) status = join(arena, copy, "checkpoints", "", &folder->checkpoints);
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
    static const char *const names[] = {CONFIG_NAME,   "metrics.jsonl",      "tensorboard", "checkpoints",
                                        "adapter",     "adapter-best",       "model",       "model-best",
                                        "config.json", "adapter_config.json"};
    static const char weights[] = ".safetensors";
    size_t length = strlen(name);
    size_t ending = sizeof weights - 1;
    bool taken = length >= ending && strcmp(name + length - ending, weights) == 0;
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

/* True when the locked file is still the one of that name: whoever gave up may have removed it meanwhile. */
static bool is_still_there(const struct mt_run_folder *folder)
{
    struct stat held;
    struct stat named;
    return fstat(folder->lock, &held) == 0 && stat(folder->lock_path, &named) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

static enum mt_status fail_lock(struct mt_run_folder *folder, const char *doing, int error)
{
    return mt_fail(folder->ctx, MT_ERR_IO, "%s: cannot be %s: %s", folder->lock_path, doing, strerror(error));
}

static enum mt_status take_lock(struct mt_run_folder *folder)
{
    char text[32];
    folder->lock = open(folder->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->lock < 0) return fail_lock(folder, "made", errno);
    int error = flock(folder->lock, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error != 0 && error != EWOULDBLOCK) return fail_lock(folder, "locked", error);
    if (error != 0 || !is_still_there(folder)) {
        long process = holder(folder->lock);
        folder->made = false; // somebody else's now
        return mt_fail(folder->ctx, MT_ERR_USAGE, "%s: process %ld is training there", folder->path, process);
    }
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    bool written = ftruncate(folder->lock, 0) == 0 && pwrite(folder->lock, text, (size_t)length, 0) == length;
    return written ? MT_OK : fail_lock(folder, "written", errno);
}

/* True for the temporary name of something this run writes, whole or not at all. */
static bool is_left_over(const struct mt_run_folder *folder, const char *name)
{
    const char *const written[] = {folder->config, folder->result, folder->best};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        const char *own = strrchr(written[i], '/') + 1;
        size_t length = strlen(own);
        if (strncmp(name, own, length) == 0 && strncmp(name + length, ".tmp.", 5) == 0) return true;
    }
    return false;
}

/* Whoever left these is gone, or the lock would be taken. */
static enum mt_status sweep(const struct mt_run_folder *folder)
{
    DIR *listing = opendir(folder->path);
    enum mt_status status = MT_OK;
    if (listing == NULL)
        return mt_fail(folder->ctx, MT_ERR_IO, "%s: cannot be read: %s", folder->path, strerror(errno));
    for (const struct dirent *entry = readdir(listing); status == MT_OK && entry != NULL;
         entry = readdir(listing)) {
        char *path = NULL;
        if (!is_left_over(folder, entry->d_name)) continue;
        if (unlinkat(dirfd(listing), entry->d_name, 0) == 0) continue;
        status = mt_path_join(folder->ctx, folder->path, entry->d_name, &path);
        if (status == MT_OK) status = mt_folder_remove(folder->ctx, path);
        mt_path_release(folder->ctx, path);
    }
    (void)closedir(listing);
    return status;
}

/* Makes the folder and those above it. */
static enum mt_status make(struct mt_run_folder *folder, char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        enum mt_status status = MT_OK;
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            status = mt_fail(folder->ctx, MT_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
        *slash = '/';
        if (status != MT_OK) return status;
    }
    folder->made = mkdir(path, 0777) == 0;
    if (folder->made || errno == EEXIST) return MT_OK;
    return mt_fail(folder->ctx, MT_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
}

enum mt_status mt_run_folder_open(struct mt_run_folder *folder)
{
    struct stat entry;
    char *path = NULL;
    enum mt_status status = mt_path_join(folder->ctx, "", folder->path, &path); // a copy
    if (status == MT_OK) status = make(folder, path);
    mt_path_release(folder->ctx, path);
    if (status != MT_OK) return status;
    if (stat(folder->path, &entry) != 0 || !S_ISDIR(entry.st_mode))
        return mt_fail(folder->ctx, MT_ERR_USAGE, "%s: is not a folder", folder->path);
    status = check_content(folder);
    if (status == MT_OK) status = take_lock(folder);
    if (status == MT_OK) status = sweep(folder);
    return status;
}

void mt_run_folder_close(struct mt_run_folder *folder)
{
    if (folder->ctx == NULL) return;
    // A run that never began leaves nothing. The lock is held until its name is gone.
    if (folder->made && !mt_run_folder_has(folder->config)) {
        (void)unlink(folder->lock_path);
        (void)rmdir(folder->path);
    }
    if (folder->lock >= 0) (void)close(folder->lock);
    folder->lock = -1;
    folder->made = false;
}
