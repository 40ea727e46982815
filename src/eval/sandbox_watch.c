/*
 * Memory and files of a sandbox, seen from outside through /proc. RLIMIT_AS bounds each process, this the
 * sum: everything in the sandbox is below its process 1, orphans included.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "eval/sandbox_parts.h"

#define MAX_PROCESSES 4096 // the limit on processes is not above it

/* Reads the start of a file of /proc as text; "" when it is gone. */
static void read_text(const char *path, char *text, size_t bytes)
{
    text[0] = '\0';
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    ssize_t size = read(descriptor, text, bytes - 1);
    text[size > 0 ? size : 0] = '\0';
    (void)close(descriptor);
}

/* "RssAnon:     1234 kB" in bytes; 0 when there is no such line. */
static uint64_t status_bytes(const char *status, const char *key)
{
    const char *line = strstr(status, key);
    return line == NULL ? 0 : strtoull(line + strlen(key), NULL, 10) * 1024;
}

static uint64_t process_memory(pid_t process)
{
    char path[64];
    char status[4096];
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    read_text(path, status, sizeof status);
    return status_bytes(status, "\nRssAnon:") + status_bytes(status, "\nRssShmem:");
}

struct processes {
    pid_t process[MAX_PROCESSES];
    int64_t count;
    int64_t most;
};

/* A process's children are those of its threads. */
static void add_children(struct processes *found, pid_t process)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)process);
    DIR *threads = opendir(path);
    if (threads == NULL) return;
    for (struct dirent *entry = readdir(threads); entry != NULL; entry = readdir(threads)) {
        char text[4096];
        long thread = strtol(entry->d_name, NULL, 10);
        if (thread <= 0) continue;
        (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)process, thread);
        read_text(path, text, sizeof text);
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

uint64_t mt_sandbox_memory_below(pid_t first, int64_t most)
{
    struct processes found = {.process = {first}, .count = 1};
    found.most = most < MAX_PROCESSES ? most : MAX_PROCESSES;
    uint64_t memory = 0;
    for (int64_t i = 0; i < found.count; i++) {
        memory += process_memory(found.process[i]);
        add_children(&found, found.process[i]);
    }
    return memory;
}

static uint64_t files_at(pid_t process, const char *place)
{
    char path[96];
    struct statvfs system;
    (void)snprintf(path, sizeof path, "/proc/%ld/root%s", (long)process, place);
    if (statvfs(path, &system) != 0) return 0;
    return (uint64_t)(system.f_files - system.f_ffree);
}

uint64_t mt_sandbox_files_below(pid_t first)
{
    struct processes found = {.count = 0, .most = 1};
    add_children(&found, first);
    if (found.count == 0) return 0;
    return files_at(found.process[0], "/tmp") + files_at(found.process[0], "/dev/shm");
}
