/*
 * Memory and files of a sandbox.
 *
 * The sandbox's own /proc lists exactly its processes, orphans included. It is opened, like its /tmp and
 * /dev/shm, through process 1, which the program cannot touch, and stays open: what a program does to its own
 * processes cannot take the view away, and nothing can be mounted over those places inside.
 */
#define _GNU_SOURCE
#include "eval/code/sandbox_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_PROCESSES 4096  // the limit on processes is not above it
#define EXITING       0x4ul // PF_EXITING of the kernel, in the flags of /proc/PID/stat
#define STATUS_BYTES  16384 // of a process's status; a line of up to 1,000 groups comes before what counts
#define CHILDREN_SIZE (64 << 10) // numbers of a thread's children

int mt_sandbox_read_text(int folder, const char *path, char *text, size_t bytes)
{
    text[0] = '\0';
    int descriptor = openat(folder, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return errno;
    size_t used = 0;
    ssize_t size = 1;
    while (size > 0 && used < bytes - 1) {
        size = read(descriptor, text + used, bytes - 1 - used);
        if (size > 0) used += (size_t)size;
    }
    int error = size < 0 ? errno : 0;
    text[error == 0 ? used : 0] = '\0';
    (void)close(descriptor);
    return error;
}

DIR *mt_sandbox_open_listing(int folder, const char *path)
{
    int descriptor = openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return NULL;
    DIR *listing = fdopendir(descriptor);
    if (listing == NULL) (void)close(descriptor);
    return listing;
}

/* "RssAnon:     1234 kB" in bytes; 0 when there is no such line. */
static uint64_t status_bytes(const char *status, const char *key)
{
    const char *line = strstr(status, key);
    return line == NULL ? 0 : strtoull(line + strlen(key), NULL, 10) * 1024;
}

/* What is gone needs no counting; any other reason for not seeing something is one. Ours, EMFILE, stays. */
static void note(struct mt_sandbox_look *look, int error)
{
    if (error != 0 && error != ENOENT && error != ESRCH && look->error != EMFILE) look->error = error;
}

/* What a process or one of its threads shows in its status; false: no figures, its memory is gone or hidden.
 */
static bool shown_memory(int folder, const char *path, struct mt_sandbox_look *look, uint64_t *memory)
{
    char status[STATUS_BYTES];
    note(look, mt_sandbox_read_text(folder, path, status, sizeof status));
    *memory = status_bytes(status, "\nRssAnon:") + status_bytes(status, "\nRssShmem:") +
              status_bytes(status, "\nVmSwap:");
    return strstr(status, "\nRssAnon:") != NULL;
}

/* Dead, or on its way there: such a task may have no memory left to show. */
static bool is_dying(int folder, const char *path, struct mt_sandbox_look *look)
{
    char stat[STATUS_BYTES];
    note(look, mt_sandbox_read_text(folder, path, stat, sizeof stat));
    const char *name_end = strrchr(stat, ')'); // the name may hold brackets itself
    if (name_end == NULL) return true;
    // ") S parent group session terminal group flags"
    const char *at = name_end + 1;
    if (at[0] != ' ' || at[1] == 'Z' || at[1] == 'X') return true;
    at++;
    for (int i = 0; i < 6 && at != NULL; i++) at = strchr(at + 1, ' ');
    return at == NULL || (strtoul(at, NULL, 10) & EXITING) != 0;
}

/*
 * Adds a process. The main thread's figures are the process's, but it may have exited while others go on:
 * then it shows none, and they do.
 */
static void add_process(int folder, long process, struct mt_sandbox_look *look)
{
    char path[96];
    uint64_t memory = 0;
    (void)snprintf(path, sizeof path, "%ld/status", process);
    if (shown_memory(folder, path, look, &memory)) {
        look->memory += memory;
        return;
    }
    (void)snprintf(path, sizeof path, "%ld/task", process);
    DIR *tasks = mt_sandbox_open_listing(folder, path);
    if (tasks == NULL) {
        note(look, errno);
        return;
    }
    bool lives = false;
    bool shown = false;
    for (struct dirent *entry = readdir(tasks); entry != NULL && !shown; entry = readdir(tasks)) {
        long task = strtol(entry->d_name, NULL, 10);
        if (task <= 0) continue;
        (void)snprintf(path, sizeof path, "%ld/task/%ld/status", process, task);
        shown = shown_memory(folder, path, look, &memory);
        (void)snprintf(path, sizeof path, "%ld/task/%ld/stat", process, task);
        lives = lives || (!shown && !is_dying(folder, path, look));
    }
    (void)closedir(tasks);
    if (shown) look->memory += memory;
    if (lives && !shown) note(look, ENODATA);
}

struct mt_sandbox_look mt_sandbox_look_at(int processes)
{
    struct mt_sandbox_look look = {0};
    DIR *listing = mt_sandbox_open_listing(processes, ".");
    if (listing == NULL) {
        look.error = errno;
        return look;
    }
    errno = 0;
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        long process = strtol(entry->d_name, NULL, 10);
        if (process > 1) add_process(processes, process, &look); // 1 is bubblewrap's
        errno = 0;
    }
    note(&look, errno);
    (void)closedir(listing);
    return look;
}

// ------------------------------------------------------------------ without a sandbox

struct processes {
    pid_t process[MAX_PROCESSES];
    int64_t count;
    int64_t most;
};

/* A process's children are those of its threads. */
static void add_children(int folder, struct processes *found, pid_t process, struct mt_sandbox_look *look)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%ld/task", (long)process);
    DIR *threads = mt_sandbox_open_listing(folder, path);
    if (threads == NULL) {
        note(look, errno);
        return;
    }
    for (struct dirent *entry = readdir(threads); entry != NULL; entry = readdir(threads)) {
        char text[CHILDREN_SIZE];
        long thread = strtol(entry->d_name, NULL, 10);
        if (thread <= 0) continue;
        (void)snprintf(path, sizeof path, "%ld/task/%ld/children", (long)process, thread);
        note(look, mt_sandbox_read_text(folder, path, text, sizeof text));
        char *at = text;
        while (found->count < found->most) {
            char *end = NULL;
            long child = strtol(at, &end, 10);
            if (end == at || child <= 0) break;
            found->process[found->count++] = (pid_t)child;
            at = end;
        }
    }
    (void)closedir(threads);
}

struct mt_sandbox_look mt_sandbox_look_below(pid_t first, int64_t most)
{
    struct mt_sandbox_look look = {0};
    struct processes found = {.process = {first}, .count = 1};
    found.most = most < MAX_PROCESSES ? most : MAX_PROCESSES;
    int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        look.error = errno;
        return look;
    }
    for (int64_t i = 0; i < found.count; i++) {
        add_process(folder, found.process[i], &look);
        add_children(folder, &found, found.process[i], &look);
    }
    (void)close(folder);
    return look;
}

// ------------------------------------------------------------------ places

/* This thread's effective user; libc's function would change all threads. */
static void become(long user)
{
    (void)syscall(SYS_setresuid, -1L, user, -1L);
}

int mt_sandbox_open_views(pid_t first, int views[MT_SANDBOX_VIEWS])
{
    static const char *const places[MT_SANDBOX_VIEWS] = {"proc", "tmp", "dev/shm"};
    // Who owns the sandbox's user namespace may look; root without CAP_SYS_PTRACE (a container's) may not.
    bool root = geteuid() == 0;
    int error = 0;
    if (root) become(MT_SANDBOX_NOBODY);
    for (int i = 0; i < MT_SANDBOX_VIEWS && error == 0; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%ld/root/%s", (long)first, places[i]);
        views[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (views[i] < 0) error = errno;
    }
    if (root) become(0);
    return error;
}

uint64_t mt_sandbox_files_in(const int views[MT_SANDBOX_VIEWS])
{
    uint64_t files = 0;
    for (int i = MT_SANDBOX_VIEW_TMP; i < MT_SANDBOX_VIEWS; i++) {
        struct statvfs system;
        if (fstatvfs(views[i], &system) != 0) return UINT64_MAX;
        files += (uint64_t)(system.f_files - system.f_ffree);
    }
    return files;
}
