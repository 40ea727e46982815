/*
 * A library to preload (LD_PRELOAD): writes down every call that changes a file below $CRASH_FOLDER, in
 * $CRASH_LOG.
 *
 * Only calls that go through the dynamic linker are seen. What the C library does inside of itself, as stdio
 * does, is not: such calls are interposed by their outer name, and where one is not modelled the log says so,
 * which fails every replay. Whether anything escaped shows when the log is replayed without losses: the files
 * must be the same.
 *
 * A call and its record are one step for all threads and processes that write to one log.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log.h"

#define LOG_DESCRIPTOR 200 // above those that programs count on

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int log_descriptor = -1;

/* The function of that name behind ours. */
static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) abort();
    return found;
}

// ------------------------------------------------------------------ what lies below the folder

/* The part of an absolute path below the folder; NULL elsewhere. */
static const char *below(const char *path)
{
    const char *folder = getenv("CRASH_FOLDER");
    if (folder == NULL || getenv("CRASH_LOG") == NULL) return NULL;
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0) return NULL;
    if (path[length] == '\0') return path + length;
    return path[length] == '/' ? path + length + 1 : NULL;
}

/* The absolute path of an entry, its links resolved but for the last part; false where there is no such
 * folder. */
static bool absolute(int at, const char *path, char out[PATH_MAX])
{
    char joined[2 * PATH_MAX];
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        char link[64];
        (void)snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return false;
        base[length] = '\0';
    }
    int length = snprintf(joined, sizeof joined, "%s/%s", base, path);
    if (length <= 0 || (size_t)length >= sizeof joined) return false;
    while (length > 1 && joined[length - 1] == '/') joined[--length] = '\0';
    char *slash = strrchr(joined, '/');
    *slash = '\0';
    if (realpath(joined[0] != '\0' ? joined : "/", out) == NULL) return false;
    size_t used = strlen(out);
    return snprintf(out + used, PATH_MAX - used, "/%s", slash + 1) < (int)(PATH_MAX - used);
}

/* True for an entry below the folder; *inner points into `out`. */
static bool concerns(int at, const char *path, char out[PATH_MAX], const char **inner)
{
    int error = errno;
    bool found = absolute(at, path, out);
    errno = error;
    *inner = found ? below(out) : NULL;
    return *inner != NULL;
}

/* The inode of an open file or folder below the folder, else false. */
static bool concerns_open(int descriptor, uint64_t *inode)
{
    char link[64];
    char path[PATH_MAX];
    struct stat info;
    int error = errno;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    bool found = length > 0 && path[0] == '/' && fstat(descriptor, &info) == 0;
    errno = error;
    if (!found) return false;
    path[length] = '\0';
    *inode = info.st_ino;
    return below(path) != NULL;
}

// ------------------------------------------------------------------ the log

static int open_log(void)
{
    int (*real_open)(const char *, int, ...) = real("open");
    int opened = real_open(getenv("CRASH_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (opened < 0) abort();
    int moved = fcntl(opened, F_DUPFD_CLOEXEC, LOG_DESCRIPTOR);
    if (moved < 0) return opened;
    (void)close(opened);
    return moved;
}

static void lock_log(short how)
{
    struct flock lock = {.l_type = how, .l_whence = SEEK_SET};
    while (fcntl(log_descriptor, F_SETLKW, &lock) != 0) {
        if (errno != EINTR) abort();
    }
}

/* Other threads and processes wait until `leave`. */
static void enter(void)
{
    int error = errno;
    if (pthread_mutex_lock(&turn) != 0) abort();
    if (log_descriptor < 0) log_descriptor = open_log();
    lock_log(F_WRLCK);
    errno = error;
}

static void leave(void)
{
    int error = errno;
    lock_log(F_UNLCK);
    if (pthread_mutex_unlock(&turn) != 0) abort();
    errno = error;
}

static void put(struct crash_header header, const char *path, const char *other, const void *data)
{
    static ssize_t (*real_writev)(int, const struct iovec *, int);
    int error = errno;
    if (real_writev == NULL) real_writev = real("writev");
    header.path_bytes = (uint32_t)strlen(path);
    header.other_bytes = (uint32_t)strlen(other);
    const struct iovec parts[] = {{&header, sizeof header},
                                  {(void *)path, header.path_bytes},
                                  {(void *)other, header.other_bytes},
                                  {(void *)data, header.data_bytes}};
    size_t bytes = sizeof header + header.path_bytes + header.other_bytes + header.data_bytes;
    if (real_writev(log_descriptor, parts, 4) != (ssize_t)bytes) abort();
    errno = error;
}

static void put_path(enum crash_kind kind, const char *path)
{
    put((struct crash_header){.kind = kind}, path, "", NULL);
}

static void put_made(enum crash_kind kind, const char *inner, const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) abort();
    put((struct crash_header){.kind = kind, .inode = info.st_ino}, inner, "", NULL);
}

/* A call that would change an open file in a way that is not modelled. */
static void refuse_open(int descriptor, const char *call)
{
    uint64_t inode = 0;
    if (!concerns_open(descriptor, &inode)) return;
    enter();
    put_path(CRASH_UNKNOWN, call);
    leave();
}

static void refuse_path(int at, const char *path, const char *call)
{
    char full[PATH_MAX];
    const char *inner = NULL;
    if (!concerns(at, path, full, &inner)) return;
    enter();
    put_path(CRASH_UNKNOWN, call);
    leave();
}

// ------------------------------------------------------------------ opening

static int opening(int at, const char *path, int flags, mode_t mode)
{
    static int (*next)(int, const char *, int, ...);
    char full[PATH_MAX];
    const char *inner = NULL;
    struct stat info;
    if (next == NULL) next = real("openat");
    bool plain = (flags & (O_CREAT | O_TRUNC)) == 0 && (flags & O_TMPFILE) != O_TMPFILE;
    if (plain || !concerns(at, path, full, &inner)) return next(at, path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE) refuse_path(at, path, "open with O_TMPFILE");
    enter();
    int error = errno;
    bool there = lstat(full, &info) == 0;
    errno = error;
    if (there && S_ISLNK(info.st_mode)) put_path(CRASH_UNKNOWN, "open through a symbolic link");
    int opened = next(at, path, flags, mode);
    if (opened >= 0 && !there) put_made(CRASH_CREATE, inner, full);
    if (opened >= 0 && there && (flags & O_TRUNC) != 0)
        put((struct crash_header){.kind = CRASH_TRUNCATE, .inode = info.st_ino}, "", "", NULL);
    leave();
    return opened;
}

static mode_t mode_of(int flags, va_list arguments)
{
    bool given = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return given ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return opening(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return opening(at, path, flags, mode);
}

int creat(const char *path, mode_t mode)
{
    return opening(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat64(int at, const char *path, int flags, ...) __attribute__((alias("openat")));
int creat64(const char *path, mode_t mode) __attribute__((alias("creat")));

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *) = real("fopen");
    if (strpbrk(mode, "wa+") != NULL) refuse_path(AT_FDCWD, path, "fopen for writing");
    return next(path, mode);
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    FILE *(*next)(const char *, const char *, FILE *) = real("freopen");
    if (path != NULL && strpbrk(mode, "wa+") != NULL) refuse_path(AT_FDCWD, path, "freopen for writing");
    return next(path, mode, stream);
}

FILE *fdopen(int descriptor, const char *mode)
{
    FILE *(*next)(int, const char *) = real("fdopen");
    if (strpbrk(mode, "wa+") != NULL) refuse_open(descriptor, "fdopen for writing");
    return next(descriptor, mode);
}

int mkostemps(char *path, int suffix, int flags)
{
    int (*next)(char *, int, int) = real("mkostemps");
    int opened = next(path, suffix, flags);
    if (opened >= 0) refuse_open(opened, "mkstemp");
    return opened;
}

int mkostemp(char *path, int flags)
{
    return mkostemps(path, 0, flags);
}

int mkstemp(char *path)
{
    return mkostemps(path, 0, 0);
}

int mkstemp64(char *path) __attribute__((alias("mkstemp")));

char *mkdtemp(char *path)
{
    char *(*next)(char *) = real("mkdtemp");
    char *made = next(path);
    if (made != NULL) refuse_path(AT_FDCWD, path, "mkdtemp");
    return made;
}

// ------------------------------------------------------------------ data

static void put_data(uint64_t inode, off_t offset, const struct iovec *parts, int count, ssize_t written)
{
    size_t left = (size_t)written;
    for (int i = 0; i < count && left > 0; i++) {
        size_t bytes = parts[i].iov_len < left ? parts[i].iov_len : left;
        put(
            (struct crash_header){
                .kind = CRASH_WRITE, .inode = inode, .offset = (uint64_t)offset, .data_bytes = bytes},
            "", "", parts[i].iov_base);
        offset += (off_t)bytes;
        left -= bytes;
    }
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    static ssize_t (*next)(int, const struct iovec *, int);
    uint64_t inode = 0;
    if (next == NULL) next = real("writev");
    if (!concerns_open(descriptor, &inode)) return next(descriptor, parts, count);
    enter();
    ssize_t written = next(descriptor, parts, count);
    int error = errno;
    // The position afterwards is right with O_APPEND, too.
    if (written > 0) put_data(inode, lseek(descriptor, 0, SEEK_CUR) - written, parts, count, written);
    errno = error;
    leave();
    return written;
}

ssize_t write(int descriptor, const void *data, size_t bytes)
{
    const struct iovec part = {(void *)data, bytes};
    return writev(descriptor, &part, 1);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    static ssize_t (*next)(int, const struct iovec *, int, off_t);
    uint64_t inode = 0;
    if (next == NULL) next = real("pwritev");
    if (!concerns_open(descriptor, &inode)) return next(descriptor, parts, count, offset);
    enter();
    ssize_t written = next(descriptor, parts, count, offset);
    if (written > 0) put_data(inode, offset, parts, count, written);
    leave();
    return written;
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset)
{
    const struct iovec part = {(void *)data, bytes};
    return pwritev(descriptor, &part, 1, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off_t offset)
    __attribute__((alias("pwrite")));
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off_t offset)
    __attribute__((alias("pwritev")));

int ftruncate(int descriptor, off_t bytes)
{
    int (*next)(int, off_t) = real("ftruncate");
    uint64_t inode = 0;
    if (!concerns_open(descriptor, &inode)) return next(descriptor, bytes);
    enter();
    int result = next(descriptor, bytes);
    if (result == 0)
        put((struct crash_header){.kind = CRASH_TRUNCATE, .inode = inode, .offset = (uint64_t)bytes}, "", "",
            NULL);
    leave();
    return result;
}

int ftruncate64(int descriptor, off_t bytes) __attribute__((alias("ftruncate")));

int truncate(const char *path, off_t bytes)
{
    int (*next)(const char *, off_t) = real("truncate");
    refuse_path(AT_FDCWD, path, "truncate");
    return next(path, bytes);
}

int truncate64(const char *path, off_t bytes) __attribute__((alias("truncate")));

int fallocate(int descriptor, int mode, off_t offset, off_t bytes)
{
    int (*next)(int, int, off_t, off_t) = real("fallocate");
    refuse_open(descriptor, "fallocate");
    return next(descriptor, mode, offset, bytes);
}

int posix_fallocate(int descriptor, off_t offset, off_t bytes)
{
    int (*next)(int, off_t, off_t) = real("posix_fallocate");
    refuse_open(descriptor, "posix_fallocate");
    return next(descriptor, offset, bytes);
}

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t bytes, unsigned flags)
{
    ssize_t (*next)(int, off_t *, int, off_t *, size_t, unsigned) = real("copy_file_range");
    refuse_open(to, "copy_file_range");
    return next(from, from_at, to, to_at, bytes, flags);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t bytes)
{
    ssize_t (*next)(int, int, off_t *, size_t) = real("sendfile");
    refuse_open(to, "sendfile");
    return next(to, from, offset, bytes);
}

ssize_t splice(int from, off_t *from_at, int to, off_t *to_at, size_t bytes, unsigned flags)
{
    ssize_t (*next)(int, off_t *, int, off_t *, size_t, unsigned) = real("splice");
    refuse_open(to, "splice");
    return next(from, from_at, to, to_at, bytes, flags);
}

void *mmap(void *wanted, size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (next == NULL) next = real("mmap");
    if ((protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0 && descriptor >= 0)
        refuse_open(descriptor, "mmap for writing");
    return next(wanted, bytes, protection, flags, descriptor, offset);
}

void *mmap64(void *wanted, size_t bytes, int protection, int flags, int descriptor, off_t offset)
    __attribute__((alias("mmap")));

// ------------------------------------------------------------------ names

/* Records a call that has succeeded on one entry. */
static int removed(int result, enum crash_kind kind, const char *inner)
{
    if (result == 0) put_path(kind, inner);
    leave();
    return result;
}

int unlinkat(int at, const char *path, int flags)
{
    int (*next)(int, const char *, int) = real("unlinkat");
    char full[PATH_MAX];
    const char *inner = NULL;
    if (!concerns(at, path, full, &inner)) return next(at, path, flags);
    enter();
    int result = next(at, path, flags);
    return removed(result, (flags & AT_REMOVEDIR) != 0 ? CRASH_RMDIR : CRASH_UNLINK, inner);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int remove(const char *path)
{
    int result = unlink(path);
    return result != 0 && (errno == EISDIR || errno == EPERM) ? rmdir(path) : result;
}

int mkdirat(int at, const char *path, mode_t mode)
{
    int (*next)(int, const char *, mode_t) = real("mkdirat");
    char full[PATH_MAX];
    const char *inner = NULL;
    if (!concerns(at, path, full, &inner)) return next(at, path, mode);
    enter();
    int result = next(at, path, mode);
    if (result == 0) put_made(CRASH_MKDIR, inner, full);
    leave();
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

int renameat2(int at, const char *path, int other_at, const char *other, unsigned flags)
{
    int (*next)(int, const char *, int, const char *, unsigned) = real("renameat2");
    char full[PATH_MAX];
    char other_full[PATH_MAX];
    const char *inner = NULL;
    const char *other_inner = NULL;
    bool from = concerns(at, path, full, &inner);
    bool to = concerns(other_at, other, other_full, &other_inner);
    if (!from && !to) return next(at, path, other_at, other, flags);
    enter();
    int result = next(at, path, other_at, other, flags);
    bool exchange = (flags & RENAME_EXCHANGE) != 0;
    if (result == 0 && from && to)
        put((struct crash_header){.kind = exchange ? CRASH_EXCHANGE : CRASH_RENAME}, inner, other_inner,
            NULL);
    if (result == 0 && from != to) put_path(CRASH_UNKNOWN, "rename into or out of the folder");
    leave();
    return result;
}

int renameat(int at, const char *path, int other_at, const char *other)
{
    return renameat2(at, path, other_at, other, 0);
}

int rename(const char *path, const char *other)
{
    return renameat2(AT_FDCWD, path, AT_FDCWD, other, 0);
}

int linkat(int at, const char *path, int other_at, const char *other, int flags)
{
    int (*next)(int, const char *, int, const char *, int) = real("linkat");
    refuse_path(other_at, other, "link");
    return next(at, path, other_at, other, flags);
}

int link(const char *path, const char *other)
{
    return linkat(AT_FDCWD, path, AT_FDCWD, other, 0);
}

int symlinkat(const char *target, int at, const char *path)
{
    int (*next)(const char *, int, const char *) = real("symlinkat");
    refuse_path(at, path, "symlink");
    return next(target, at, path);
}

int symlink(const char *target, const char *path)
{
    return symlinkat(target, AT_FDCWD, path);
}

// ------------------------------------------------------------------ bringing to disk

static int syncing(int descriptor, const char *call)
{
    int (*next)(int) = real(call);
    uint64_t inode = 0;
    if (!concerns_open(descriptor, &inode)) return next(descriptor);
    enter();
    int result = next(descriptor);
    if (result == 0) put((struct crash_header){.kind = CRASH_SYNC, .inode = inode}, "", "", NULL);
    leave();
    return result;
}

int fsync(int descriptor)
{
    return syncing(descriptor, "fsync");
}

int fdatasync(int descriptor)
{
    return syncing(descriptor, "fdatasync");
}

static void synced_all(void)
{
    if (getenv("CRASH_LOG") == NULL) return;
    enter();
    put_path(CRASH_SYNC_ALL, "");
    leave();
}

int syncfs(int descriptor)
{
    int (*next)(int) = real("syncfs");
    int result = next(descriptor);
    if (result == 0) synced_all();
    return result;
}

void sync(void)
{
    void (*next)(void) = real("sync");
    next();
    synced_all();
}
