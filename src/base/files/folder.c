/* Folders written beside their target and renamed. */
#define _GNU_SOURCE // renameat2, which only Linux has and only GNU's headers show
#include "base/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"

#define ATTEMPTS     10000
#define PATH_BYTES   4096
#define SUFFIX_BYTES 48 // ".tmp.PID.N" and its NUL

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

enum mt_status mt_folder_check_free(struct mt_context *ctx, const char *path)
{
    struct stat info;
    if (path[0] == '\0') return mt_fail(ctx, MT_ERR_USAGE, "'' does not name a folder to write");
    if (lstat(path, &info) != 0) // a file above it, say
        return errno == ENOENT ? MT_OK : mt_file_fail(ctx, path, "make the folder", errno);
    if (!S_ISDIR(info.st_mode)) return mt_fail(ctx, MT_ERR_USAGE, "%s: exists and is not a folder", path);
    DIR *directory = opendir(path);
    if (directory == NULL) return mt_file_fail(ctx, path, "read", errno);
    bool empty = true;
    for (const struct dirent *entry = readdir(directory); entry != NULL && empty;
         entry = readdir(directory)) {
        empty = is_dot(entry->d_name);
    }
    (void)closedir(directory);
    if (empty) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s: exists and is not empty; write elsewhere, or remove it first",
                   path);
}

/* A fresh name each try: another thread, or the leftover of a killed process, may hold one. */
static enum mt_status make_temporary(struct mt_folder *folder)
{
    size_t bytes = strlen(folder->target) + SUFFIX_BYTES;
    int error = EEXIST;
    for (int attempt = 0; attempt < ATTEMPTS && error == EEXIST; attempt++) {
        (void)snprintf(folder->path, bytes, "%s" MT_FOLDER_TEMPORARY "%ld.%d", folder->target, (long)getpid(),
                       attempt);
        if (mkdir(folder->path, 0777) == 0) return MT_OK;
        error = errno;
    }
    return mt_file_fail(folder->ctx, folder->path, "make the folder", error);
}

static void release(struct mt_folder *folder)
{
    if (folder->path != NULL) mt_release(folder->ctx, folder->path, strlen(folder->target) + SUFFIX_BYTES);
    mt_path_release(folder->ctx, folder->target);
    *folder = (struct mt_folder){0};
}

static enum mt_status open_folder(struct mt_context *ctx, const char *target, bool replace,
                                  struct mt_folder *folder)
{
    *folder = (struct mt_folder){0};
    size_t length = strlen(target);
    while (length > 1 && target[length - 1] == '/') length--;
    if (length == 0) return mt_fail(ctx, MT_ERR_USAGE, "'' does not name a folder to write");
    enum mt_status status = replace ? MT_OK : mt_folder_check_free(ctx, target);
    if (status != MT_OK) return status;
    void *name = NULL;
    void *temporary = NULL;
    folder->ctx = ctx;
    folder->replace = replace;
    status = mt_allocate(ctx, length + 1, &name);
    if (status == MT_OK) {
        folder->target = name;
        memcpy(folder->target, target, length);
        folder->target[length] = '\0';
        status = mt_allocate(ctx, length + SUFFIX_BYTES, &temporary);
        folder->path = temporary;
    }
    if (status == MT_OK) status = make_temporary(folder);
    if (status != MT_OK) release(folder);
    return status;
}

enum mt_status mt_folder_open(struct mt_context *ctx, const char *target, struct mt_folder *folder)
{
    return open_folder(ctx, target, false, folder);
}

enum mt_status mt_folder_open_replacing(struct mt_context *ctx, const char *target, struct mt_folder *folder)
{
    return open_folder(ctx, target, true, folder);
}

/* A file, or a folder and all that is in it. What is not there, or cannot be removed, is left at that. */
static void remove_entry(int above, const char *name)
{
    if (unlinkat(above, name, 0) == 0) return;
    int descriptor = openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *directory = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (directory == NULL && descriptor >= 0) (void)close(descriptor);
    if (directory != NULL) {
        for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
            if (!is_dot(entry->d_name)) remove_entry(dirfd(directory), entry->d_name);
        }
        (void)closedir(directory);
    }
    (void)unlinkat(above, name, AT_REMOVEDIR);
}

int mt_folder_exchange_by_turns(const char *one, const char *other)
{
    char aside[PATH_BYTES];
    int length = snprintf(aside, sizeof aside, "%s.aside", one);
    if (length < 0 || (size_t)length >= sizeof aside) return ENAMETOOLONG;
    if (rename(other, aside) != 0) return errno;
    if (rename(one, other) != 0) {
        int error = errno;
        (void)rename(aside, other);
        return error;
    }
    return rename(aside, one) == 0 ? 0 : errno;
}

int mt_folder_exchange(const char *one, const char *other)
{
    int error = ENOSYS;
#ifdef RENAME_EXCHANGE
    error = renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#endif
    return error == EINVAL || error == ENOSYS ? mt_folder_exchange_by_turns(one, other) : error;
}

/* Afterwards the temporary name is gone, or holds the folder that made way. */
static enum mt_status put_in_place(const struct mt_folder *folder)
{
    int error = rename(folder->path, folder->target) == 0 ? 0 : errno;
    if (folder->replace && (error == ENOTEMPTY || error == EEXIST))
        error = mt_folder_exchange(folder->path, folder->target);
    if (error == 0) return MT_OK;
    return mt_file_fail(folder->ctx, folder->target, "put the folder in place", error);
}

/* After what moved to the temporary name: it goes only when nobody can find it under another one. */
static enum mt_status finish(struct mt_folder *folder, const char *changed)
{
    enum mt_status status = mt_file_sync_name(folder->ctx, changed);
    if (status != MT_OK) {
        release(folder);
        return status;
    }
    mt_folder_abandon(folder);
    return MT_OK;
}

enum mt_status mt_folder_commit(struct mt_folder *folder)
{
    enum mt_status status = mt_file_sync_folder(folder->ctx, folder->path);
    if (status == MT_OK) status = put_in_place(folder);
    if (status == MT_OK) return finish(folder, folder->target);
    mt_folder_abandon(folder);
    return status;
}

void mt_folder_abandon(struct mt_folder *folder)
{
    if (folder->ctx == NULL) return;
    remove_entry(AT_FDCWD, folder->path);
    release(folder);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

enum mt_status mt_folder_make(struct mt_context *ctx, const char *path)
{
    if (is_folder(path)) return MT_OK;
    if (mkdir(path, 0777) == 0) return mt_file_sync_name(ctx, path);
    int error = errno;
    if (error == EEXIST && is_folder(path)) return MT_OK; // somebody else was quicker
    return mt_file_fail(ctx, path, "make the folder", error);
}

enum mt_status mt_folder_make_above(struct mt_context *ctx, const char *path)
{
    char *copy = NULL;
    enum mt_status status = mt_path_join(ctx, "", path, &copy);
    if (status != MT_OK) return status;
    for (char *slash = copy[0] != '\0' ? strchr(copy + 1, '/') : NULL; slash != NULL && status == MT_OK;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        status = mt_folder_make(ctx, copy);
        *slash = '/';
    }
    mt_path_release(ctx, copy);
    return status;
}

enum mt_status mt_folder_make_all(struct mt_context *ctx, const char *path)
{
    enum mt_status status = mt_folder_make_above(ctx, path);
    return status == MT_OK ? mt_folder_make(ctx, path) : status;
}

enum mt_status mt_folder_remove(struct mt_context *ctx, const char *path)
{
    struct mt_folder folder;
    enum mt_status status = mt_folder_open_replacing(ctx, path, &folder);
    if (status != MT_OK) return status;
    // An empty folder has the new name, and gives way.
    if (rename(path, folder.path) == 0) return finish(&folder, folder.target);
    status = mt_file_fail(ctx, path, "remove the folder", errno);
    mt_folder_abandon(&folder);
    return status;
}

/* The folder a file or folder is in; NULL where it cannot be read. */
static DIR *open_above(const char *path, const char **name)
{
    char above[PATH_BYTES] = ".";
    const char *slash = strrchr(path, '/');
    *name = slash != NULL ? slash + 1 : path;
    if (slash != NULL) (void)snprintf(above, sizeof above, "%.*s", (int)(*name - path), path);
    return opendir(above);
}

/* What follows the mark in a temporary name of `name`; NULL: it is none. */
static const char *after_temporary(const char *entry, const char *name)
{
    size_t length = strlen(name);
    size_t mark = strlen(MT_FOLDER_TEMPORARY);
    if (strncmp(entry, name, length) != 0 || strncmp(entry + length, MT_FOLDER_TEMPORARY, mark) != 0)
        return NULL;
    return entry + length + mark;
}

enum mt_status mt_folder_sweep(struct mt_context *ctx, const char *target)
{
    const char *name = NULL;
    DIR *directory = open_above(target, &name);
    if (directory == NULL) return mt_file_fail(ctx, target, "read the folder it is in", errno);
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (after_temporary(entry->d_name, name) != NULL) remove_entry(dirfd(directory), entry->d_name);
    }
    (void)closedir(directory);
    return MT_OK;
}

/* Whether another process of that number, at the start of the text, is there. */
static bool is_alive(const char *text)
{
    long process = strtol(text, NULL, 10);
    return process > 0 && process != (long)getpid() && (kill((pid_t)process, 0) == 0 || errno != ESRCH);
}

void mt_folder_sweep_dead(const struct mt_folder *folder)
{
    const char *name = NULL;
    const char *slash = strrchr(folder->path, '/');
    const char *own = slash != NULL ? slash + 1 : folder->path;
    DIR *directory = open_above(folder->target, &name);
    if (directory == NULL) return;
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        const char *process = after_temporary(entry->d_name, name);
        if (process != NULL && strcmp(entry->d_name, own) != 0 && !is_alive(process))
            remove_entry(dirfd(directory), entry->d_name);
    }
    (void)closedir(directory);
}
