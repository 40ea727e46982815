/* Paths, atomic writing, whole reading, mapping. */
#define _DEFAULT_SOURCE // madvise
#include "base/files/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_PER_CALL      ((size_t)1 << 30) // some systems refuse more in one read or write
#define PIECE_BYTES        ((size_t)1 << 20)
#define TEMPORARY_ATTEMPTS 10000
#define PATH_BYTES         4096 // no system call takes a longer one
#define SUFFIX_BYTES       48   // ".tmp.PID.N" and its NUL

enum mt_status mt_file_fail(struct mt_context *ctx, const char *path, const char *doing, int error)
{
    char reason[128];
    // strerror_r because threads may fail at the same time
    if (strerror_r(error, reason, sizeof reason) != 0) {
        (void)snprintf(reason, sizeof reason, "error %d", error);
    }
    return mt_fail(ctx, MT_ERR_IO, "%s: cannot %s: %s", path, doing, reason);
}

// ------------------------------------------------------------------ paths

enum mt_status mt_path_join(struct mt_context *ctx, const char *directory, const char *name, char **path)
{
    *path = NULL;
    size_t first = name[0] == '/' ? 0 : strlen(directory);
    size_t slash = first > 0 && directory[first - 1] != '/' ? 1 : 0;
    size_t second = strlen(name) + 1; // with the NUL
    void *memory = NULL;
    enum mt_status status = mt_allocate(ctx, first + slash + second, &memory);
    if (status != MT_OK) return status;
    *path = memory;
    memcpy(*path, directory, first);
    if (slash != 0) (*path)[first] = '/';
    memcpy(*path + first + slash, name, second);
    return MT_OK;
}

void mt_path_release(struct mt_context *ctx, char *path)
{
    if (path != NULL) mt_release(ctx, path, strlen(path) + 1);
}

// ------------------------------------------------------------------ names on disk

enum mt_status mt_file_sync_folder(struct mt_context *ctx, const char *folder)
{
    enum mt_status status = MT_OK;
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // A directory may be writable but not readable, and some file systems cannot sync one: not our failure.
    if (descriptor < 0 && errno != EACCES) {
        status = mt_file_fail(ctx, folder, "open the directory", errno);
    } else if (descriptor >= 0 && fsync(descriptor) != 0 && errno != EINVAL) {
        status = mt_file_fail(ctx, folder, "bring the directory to disk", errno);
    }
    if (descriptor >= 0) (void)close(descriptor);
    return status;
}

enum mt_status mt_file_sync_name(struct mt_context *ctx, const char *path)
{
    char folder[PATH_BYTES];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    if (length == 0) return mt_file_sync_folder(ctx, ".");
    if (length >= sizeof folder) return mt_file_fail(ctx, path, "bring its name to disk", ENAMETOOLONG);
    memcpy(folder, path, length);
    folder[length] = '\0';
    return mt_file_sync_folder(ctx, folder);
}

// ------------------------------------------------------------------ writing

/* Closes and frees; removes the temporary file unless it already has its final name. */
static void close_writer(struct mt_file_writer *writer, bool in_place)
{
    if (writer->ctx == NULL) return;
    if (writer->descriptor >= 0) {
        (void)close(writer->descriptor);
        if (!in_place) (void)unlink(writer->temporary);
    }
    if (writer->path != NULL) mt_release(writer->ctx, writer->temporary, strlen(writer->path) + SUFFIX_BYTES);
    mt_path_release(writer->ctx, writer->path);
    *writer = (struct mt_file_writer){.descriptor = -1};
}

/* Replacing a directory fails late, replacing a device or a pipe would destroy it: refused at once. */
static enum mt_status check_target(struct mt_context *ctx, const char *path)
{
    struct stat info;
    size_t length = strlen(path);
    if (length == 0 || path[length - 1] == '/') {
        return mt_fail(ctx, MT_ERR_USAGE, "'%s' does not name a file to write", path);
    }
    if (lstat(path, &info) != 0) return MT_OK; // nothing there; what else is wrong shows when creating
    if (S_ISREG(info.st_mode) || S_ISLNK(info.st_mode)) return MT_OK;
    return mt_fail(ctx, MT_ERR_IO, "%s: exists and is not a regular file, so it is not replaced", path);
}

/* A fresh name each try: another thread, or the leftover of a killed process, may hold one. */
static enum mt_status create_temporary(struct mt_file_writer *writer)
{
    size_t bytes = strlen(writer->path) + SUFFIX_BYTES;
    for (int attempt = 0; attempt < TEMPORARY_ATTEMPTS; attempt++) {
        (void)snprintf(writer->temporary, bytes, "%s.tmp.%ld.%d", writer->path, (long)getpid(), attempt);
        // 0666: the process's umask decides, as for any new file.
        writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor >= 0) return MT_OK;
        if (errno != EEXIST && errno != EINTR) break;
    }
    return mt_file_fail(writer->ctx, writer->temporary, "create", errno);
}

enum mt_status mt_file_writer_open(struct mt_context *ctx, const char *path, struct mt_file_writer *writer)
{
    *writer = (struct mt_file_writer){.descriptor = -1};
    enum mt_status status = check_target(ctx, path);
    if (status != MT_OK) return status;
    writer->ctx = ctx;
    status = mt_path_join(ctx, "", path, &writer->path);
    void *temporary = NULL;
    if (status == MT_OK) status = mt_allocate(ctx, strlen(path) + SUFFIX_BYTES, &temporary);
    writer->temporary = temporary;
    if (status == MT_OK) status = create_temporary(writer);
    if (status != MT_OK) close_writer(writer, false);
    return status;
}

enum mt_status mt_file_writer_write(struct mt_file_writer *writer, const void *data, size_t bytes)
{
    assert(writer->ctx != NULL);
    const char *next = data;
    if (writer->digest != NULL) mt_digest_add(writer->digest, data, bytes);
    while (bytes > 0) {
        ssize_t written = write(writer->descriptor, next, bytes < MOST_PER_CALL ? bytes : MOST_PER_CALL);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            int error = written < 0 ? errno : EIO;
            enum mt_status status = mt_file_fail(writer->ctx, writer->path, "write", error);
            close_writer(writer, false);
            return status;
        }
        next += written;
        bytes -= (size_t)written;
    }
    return MT_OK;
}

enum mt_status mt_file_writer_commit(struct mt_file_writer *writer)
{
    assert(writer->ctx != NULL);
    int failed = fsync(writer->descriptor);
    while (failed != 0 && errno == EINTR) failed = fsync(writer->descriptor);
    if (failed != 0) {
        enum mt_status status = mt_file_fail(writer->ctx, writer->path, "bring to disk", errno);
        close_writer(writer, false);
        return status;
    }
    if (rename(writer->temporary, writer->path) != 0) {
        enum mt_status status = mt_file_fail(writer->ctx, writer->path, "put in place", errno);
        close_writer(writer, false);
        return status;
    }
    enum mt_status status = mt_file_sync_name(writer->ctx, writer->path);
    close_writer(writer, true);
    return status;
}

void mt_file_writer_abandon(struct mt_file_writer *writer)
{
    close_writer(writer, false);
}

enum mt_status mt_file_write_all(struct mt_context *ctx, const char *path, const void *data, size_t bytes)
{
    struct mt_file_writer writer;
    enum mt_status status = mt_file_writer_open(ctx, path, &writer);
    if (status == MT_OK) status = mt_file_writer_write(&writer, data, bytes);
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    return status;
}

// ------------------------------------------------------------------ growing in place

/* What is written to the file must stay in the file. */
static enum mt_status check_growing(struct mt_context *ctx, const char *path, int descriptor)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0) return mt_file_fail(ctx, path, "inspect", errno);
    if (!S_ISREG(info.st_mode))
        return mt_fail(ctx, MT_ERR_IO, "%s: exists and is not a regular file, so it is not written to", path);
    if (info.st_nlink > 1)
        return mt_fail(
            ctx, MT_ERR_IO,
            "%s: is a hard link, so the file would change under its other name, too; replace it by a copy",
            path);
    return MT_OK;
}

enum mt_status mt_file_open_growing(struct mt_context *ctx, const char *path, int flags, int *descriptor)
{
    // O_NONBLOCK: a pipe of that name is to be refused, not waited for.
    *descriptor = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*descriptor < 0) {
        struct stat info;
        int error = errno;
        if (error == EEXIST && (flags & O_EXCL) != 0) return MT_OK;
        if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
            return mt_fail(
                ctx, MT_ERR_IO,
                "%s: exists and is a symbolic link, which metier does not follow when it writes; remove it",
                path);
        // What opens a pipe without a reader is told that there is no such device.
        if (error == ENXIO)
            return mt_fail(ctx, MT_ERR_IO, "%s: exists and is not a regular file, so it is not written to",
                           path);
        return mt_file_fail(ctx, path, "open it for writing", error);
    }
    enum mt_status status = check_growing(ctx, path, *descriptor);
    if (status == MT_OK) return MT_OK;
    (void)close(*descriptor);
    *descriptor = -1;
    return status;
}

// ------------------------------------------------------------------ reading

/* Opens a regular file and learns its size; the caller closes. */
static enum mt_status open_regular(struct mt_context *ctx, const char *path, int *descriptor, size_t *bytes)
{
    struct stat info;
    // O_NONBLOCK: opening a pipe must not wait for its writer; it means nothing for regular files.
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0) return mt_file_fail(ctx, path, "open", errno);
    enum mt_status status = MT_OK;
    if (fstat(*descriptor, &info) != 0) {
        status = mt_file_fail(ctx, path, "inspect", errno);
    } else if (S_ISDIR(info.st_mode)) {
        status = mt_fail(ctx, MT_ERR_IO, "%s: is a directory, expected a file", path);
    } else if (!S_ISREG(info.st_mode)) {
        status = mt_fail(ctx, MT_ERR_IO, "%s: is not a regular file", path);
    } else if ((uintmax_t)info.st_size > SIZE_MAX) {
        status = mt_fail(ctx, MT_ERR_IO, "%s: too large to address", path);
    } else {
        *bytes = (size_t)info.st_size;
    }
    if (status != MT_OK) (void)close(*descriptor);
    return status;
}

/* Reads until `bytes` are there or the file ends; *got tells. */
static enum mt_status read_up_to(struct mt_context *ctx, const char *path, int descriptor, void *target,
                                 size_t bytes, size_t *got)
{
    *got = 0;
    while (*got < bytes) {
        size_t wanted = bytes - *got < MOST_PER_CALL ? bytes - *got : MOST_PER_CALL;
        ssize_t count = read(descriptor, (char *)target + *got, wanted);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return mt_file_fail(ctx, path, "read", errno);
        if (count == 0) break;
        *got += (size_t)count;
    }
    return MT_OK;
}

static enum mt_status read_exactly(struct mt_context *ctx, const char *path, int descriptor, void *target,
                                   size_t bytes)
{
    size_t got = 0;
    size_t more = 0;
    char extra;
    enum mt_status status = read_up_to(ctx, path, descriptor, target, bytes, &got);
    if (status == MT_OK && got == bytes) status = read_up_to(ctx, path, descriptor, &extra, 1, &more);
    if (status != MT_OK || (got == bytes && more == 0)) return status;
    return mt_fail(ctx, MT_ERR_IO, "%s: %s while it was read (%zu bytes at first)", path,
                   more > 0 ? "grew" : "shrank", bytes);
}

enum mt_status mt_file_read_all(struct mt_context *ctx, const char *path, size_t max_bytes, void **data,
                                size_t *bytes)
{
    int descriptor = -1;
    size_t size = 0;
    void *memory = NULL;
    *data = NULL;
    *bytes = 0;
    enum mt_status status = open_regular(ctx, path, &descriptor, &size);
    if (status != MT_OK) return status;
    if (size > max_bytes) {
        status =
            mt_fail(ctx, MT_ERR_IO, "%s: has %zu bytes, more than the %zu allowed", path, size, max_bytes);
    }
    if (status == MT_OK) {
        status = mt_allocate(ctx, size, &memory);
        if (status != MT_OK) status = mt_fail_within(ctx, status, "%s", path);
    }
    if (status == MT_OK) status = read_exactly(ctx, path, descriptor, memory, size);
    (void)close(descriptor);
    if (status != MT_OK) {
        mt_release(ctx, memory, size);
        return status;
    }
    *data = memory;
    *bytes = size;
    return MT_OK;
}

enum mt_status mt_file_digest(struct mt_context *ctx, const char *path, struct mt_digest *digest)
{
    int descriptor = -1;
    size_t size = 0;
    void *piece = NULL;
    enum mt_status status = open_regular(ctx, path, &descriptor, &size);
    if (status != MT_OK) return status;
    status = mt_allocate(ctx, PIECE_BYTES, &piece);
    size_t got = PIECE_BYTES;
    while (status == MT_OK && got == PIECE_BYTES) {
        status = read_up_to(ctx, path, descriptor, piece, PIECE_BYTES, &got);
        if (status == MT_OK) mt_digest_add(digest, piece, got);
    }
    mt_release(ctx, piece, PIECE_BYTES);
    (void)close(descriptor);
    return status;
}

enum mt_status mt_file_map(struct mt_context *ctx, const char *path, struct mt_file_mapping *mapping)
{
    int descriptor = -1;
    size_t size = 0;
    *mapping = (struct mt_file_mapping){0};
    enum mt_status status = open_regular(ctx, path, &descriptor, &size);
    if (status != MT_OK) return status;
    if (size > 0) {
        void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
        if (memory == MAP_FAILED) {
            status = mt_file_fail(ctx, path, "map", errno);
        } else {
            *mapping = (struct mt_file_mapping){.data = memory, .bytes = size};
        }
    }
    (void)close(descriptor); // the mapping holds the file by itself
    return status;
}

void mt_file_advise(const struct mt_file_mapping *mapping, enum mt_file_access access)
{
    static const int advice[] = {
        [MT_FILE_USUAL] = POSIX_MADV_NORMAL,
        [MT_FILE_SEQUENTIAL] = POSIX_MADV_SEQUENTIAL,
        [MT_FILE_RANDOM] = POSIX_MADV_RANDOM,
        [MT_FILE_SOON] = POSIX_MADV_WILLNEED,
    };
    if (mapping->data == NULL) return;
    (void)posix_madvise((void *)mapping->data, mapping->bytes, advice[access]);
}

void mt_file_forget(const struct mt_file_mapping *mapping, const void *data, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)mapping->data;
    uintptr_t first = (uintptr_t)data;
    if (mapping->data == NULL || first < start || first + bytes > start + mapping->bytes) return;
    // Pages at both ends go, too: they are read again where a neighbour needs them.
    size_t before = (first - start) % page;
    // POSIX's own advice does nothing here.
    (void)madvise((char *)mapping->data + (first - start - before), bytes + before, MADV_DONTNEED);
}

void mt_file_unmap(struct mt_file_mapping *mapping)
{
    if (mapping->data != NULL) (void)munmap((void *)mapping->data, mapping->bytes);
    *mapping = (struct mt_file_mapping){0};
}
