/*
 * Folders are looked through anew for every question instead of being listed once: a run keeps a handful of
 * them, and nothing needs memory.
 */
#include "train/state/state_folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "train/state/state.h"

#define NAME_START       "step-"
#define NAME_DIGITS      8 // at least
#define ASIDE            ".superseded"
#define ASIDE_ATTEMPTS   1000
#define ASIDE_NAME_BYTES (MT_STATE_NAME_BYTES + 32)

void mt_state_folder_name(uint64_t step, char name[MT_STATE_NAME_BYTES])
{
    (void)snprintf(name, MT_STATE_NAME_BYTES, NAME_START "%0*" PRIu64, NAME_DIGITS, step);
}

/* The step of a name that begins like a checkpoint's; *rest is what follows. */
static bool parse_name(const char *name, uint64_t *step, const char **rest)
{
    char again[MT_STATE_NAME_BYTES];
    if (strncmp(name, NAME_START, strlen(NAME_START)) != 0) return false;
    const char *digit = name + strlen(NAME_START);
    uint64_t value = 0;
    while (*digit >= '0' && *digit <= '9') {
        uint64_t next = (uint64_t)(*digit++ - '0');
        if (value > (UINT64_MAX - next) / 10) return false;
        value = 10 * value + next;
    }
    // Only one spelling of a step: too few or too many zeros are somebody else's.
    mt_state_folder_name(value, again);
    size_t length = (size_t)(digit - name);
    *step = value;
    *rest = digit;
    return strlen(again) == length && memcmp(again, name, length) == 0;
}

static bool is_folder(DIR *directory, const char *name)
{
    struct stat info;
    return fstatat(dirfd(directory), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

static enum mt_status open_folder(struct mt_context *ctx, const char *folder, DIR **directory)
{
    *directory = opendir(folder);
    if (*directory != NULL || errno == ENOENT) return MT_OK;
    return mt_fail(ctx, MT_ERR_IO, "%s: cannot be read: %s", folder, strerror(errno));
}

enum mt_status mt_state_step_below(struct mt_context *ctx, const char *folder, uint64_t below, bool *found,
                                   uint64_t *step)
{
    DIR *directory = NULL;
    *found = false;
    *step = 0;
    enum mt_status status = open_folder(ctx, folder, &directory);
    if (status != MT_OK || directory == NULL) return status;
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        uint64_t one = 0;
        const char *rest = NULL;
        if (!parse_name(entry->d_name, &one, &rest) || *rest != '\0') continue;
        if (one >= below || (*found && one <= *step) || !is_folder(directory, entry->d_name)) continue;
        *found = true;
        *step = one;
    }
    (void)closedir(directory);
    return MT_OK;
}

/* Gives one folder the first aside name that is free. */
static enum mt_status set_one_aside(struct mt_context *ctx, const char *folder, uint64_t step)
{
    char name[MT_STATE_NAME_BYTES];
    char aside_name[ASIDE_NAME_BYTES];
    char *path = NULL;
    char *aside = NULL;
    int error = EEXIST;
    mt_state_folder_name(step, name);
    enum mt_status status = mt_path_join(ctx, folder, name, &path);
    for (int i = 1; i <= ASIDE_ATTEMPTS && status == MT_OK && error != 0; i++) {
        (void)snprintf(aside_name, sizeof aside_name, i == 1 ? "%s" ASIDE : "%s" ASIDE ".%d", name, i);
        status = mt_path_join(ctx, folder, aside_name, &aside);
        if (status != MT_OK) break;
        error = rename(path, aside) == 0 ? 0 : errno;
        mt_path_release(ctx, aside);
        if (error != 0 && error != EEXIST && error != ENOTEMPTY) break;
    }
    if (status == MT_OK && error != 0)
        status =
            mt_fail(ctx, MT_ERR_IO, "%s: cannot be renamed to %s: %s", path, aside_name, strerror(error));
    mt_path_release(ctx, path);
    return status;
}

enum mt_status mt_state_set_aside(struct mt_context *ctx, const char *folder, uint64_t step)
{
    bool found = true;
    bool any = false;
    enum mt_status status = MT_OK;
    while (status == MT_OK && found) {
        uint64_t later = 0;
        status = mt_state_step_below(ctx, folder, UINT64_MAX, &found, &later);
        if (status != MT_OK || later <= step) break;
        status = set_one_aside(ctx, folder, later);
        any = true;
    }
    return status == MT_OK && any ? mt_file_sync_folder(ctx, folder) : status;
}

// ------------------------------------------------------------------ pruning

static enum mt_status remove_named(struct mt_context *ctx, const char *folder, const char *name)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, folder, name, &path);
    if (status == MT_OK) status = mt_folder_remove(ctx, path);
    mt_path_release(ctx, path);
    return status;
}

/* One temporary folder after the other; *found is false when there was none. */
static enum mt_status remove_a_temporary(struct mt_context *ctx, const char *folder, bool *found)
{
    DIR *directory = NULL;
    char name[sizeof((struct dirent){0}.d_name)] = "";
    *found = false;
    enum mt_status status = open_folder(ctx, folder, &directory);
    if (status != MT_OK || directory == NULL) return status;
    for (const struct dirent *entry = readdir(directory); entry != NULL && !*found;
         entry = readdir(directory)) {
        uint64_t step = 0;
        const char *rest = NULL;
        if (!parse_name(entry->d_name, &step, &rest)) continue;
        if (strncmp(rest, MT_FOLDER_TEMPORARY, strlen(MT_FOLDER_TEMPORARY)) != 0) continue;
        if (!is_folder(directory, entry->d_name)) continue;
        (void)snprintf(name, sizeof name, "%s", entry->d_name);
        *found = true;
    }
    (void)closedir(directory);
    return *found ? remove_named(ctx, folder, name) : MT_OK;
}

enum mt_status mt_state_sweep(struct mt_context *ctx, const char *folder)
{
    bool found = true;
    enum mt_status status = MT_OK;
    while (found && status == MT_OK) status = remove_a_temporary(ctx, folder, &found);
    return status;
}

enum mt_status mt_state_prune(struct mt_context *ctx, const char *folder, int64_t keep, uint64_t best_step)
{
    uint64_t below = UINT64_MAX;
    bool found = true;
    if (keep < 1)
        return mt_fail(ctx, MT_ERR_USAGE, "%" PRId64 " checkpoints to keep: at least one must stay", keep);
    enum mt_status status = MT_OK;
    for (int64_t kept = 0; found && status == MT_OK; kept++) {
        uint64_t step = 0;
        status = mt_state_step_below(ctx, folder, below, &found, &step);
        below = step;
        if (status != MT_OK || !found || kept < keep || (best_step != 0 && step == best_step)) continue;
        char name[MT_STATE_NAME_BYTES];
        mt_state_folder_name(step, name);
        status = remove_named(ctx, folder, name);
    }
    return status == MT_OK ? mt_state_sweep(ctx, folder) : status;
}
