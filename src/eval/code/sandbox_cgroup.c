/* Cgroups for programs: whether this process may make any, and making, reading and removing one. */
#define _GNU_SOURCE
#include "eval/code/sandbox_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "eval/code/sandbox_watch.h"

#define JUDGE_NAME    "metier-judge"
#define RUN_PREFIX    "metier-run-"
#define RUN_BYTES     64   // of a run's name
#define TEXT_BYTES    4096 // of a control file
#define REMOVE_TRIES  1000 // a millisecond apart: the killed leave at their own pace
#define TRIAL_MEMORY  (64u << 20)
#define TRIAL_TASKS   8
#define FOLDER_RIGHTS 0755

// ------------------------------------------------------------------ control files

/* Writes a control file of a cgroup. 0, or the error number. */
static int put(int folder, const char *name, const char *text)
{
    int descriptor = openat(folder, name, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    // One write is one command.
    int error = write(descriptor, text, strlen(text)) < 0 ? errno : 0;
    (void)close(descriptor);
    return error;
}

static int put_number(int folder, const char *name, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    return put(folder, name, text);
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text + strspn(text, " \n"); *at != '\0'; at += strspn(at, " \n")) {
        size_t size = strcspn(at, " \n");
        if (size == length && memcmp(at, word, size) == 0) return true;
        at += size;
    }
    return false;
}

/* The number after a word at the start of a line; 0 when there is no such line. */
static uint64_t number_of(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, word, length) == 0 && line[length] == ' ') return strtoull(line + length, NULL, 10);
    }
    return 0;
}

// ------------------------------------------------------------------ one program's

static void name_run(char name[RUN_BYTES], uint64_t number)
{
    (void)snprintf(name, RUN_BYTES, RUN_PREFIX "%ld-%" PRIu64, (long)getpid(), number);
}

static int set_limits(const struct mt_sandbox_cgroup *cgroup, uint64_t memory, int64_t tasks)
{
    int error = put_number(cgroup->folder, "memory.max", memory);
    if (error != 0) return error;
    error = put_number(cgroup->folder, "memory.swap.max", 0);
    if (error == ENOENT) error = 0; // a kernel that counts no swap; the looks do
    if (error == 0) error = put_number(cgroup->folder, "memory.oom.group", 1);
    if (error == 0) error = put_number(cgroup->folder, "pids.max", (uint64_t)tasks);
    if (error == 0 && faccessat(cgroup->folder, "cgroup.kill", W_OK, AT_EACCESS) != 0) error = errno;
    return error;
}

int mt_sandbox_cgroup_make(struct mt_sandbox_cgroups *cgroups, uint64_t memory, int64_t tasks,
                           struct mt_sandbox_cgroup *cgroup)
{
    *cgroup = (struct mt_sandbox_cgroup){.folder = -1};
    if (cgroups == NULL || !cgroups->used) return 0;
    char name[RUN_BYTES];
    cgroup->number = cgroups->made++;
    name_run(name, cgroup->number);
    if (mkdirat(cgroups->folder, name, FOLDER_RIGHTS) != 0) return errno;
    cgroup->all = cgroups;
    cgroup->folder = openat(cgroups->folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = cgroup->folder < 0 ? errno : set_limits(cgroup, memory, tasks);
    if (error != 0) mt_sandbox_cgroup_end(cgroup);
    return error;
}

int mt_sandbox_cgroup_entry(const struct mt_sandbox_cgroup *cgroup)
{
    return openat(cgroup->folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
}

bool mt_sandbox_cgroup_ran_out(const struct mt_sandbox_cgroup *cgroup)
{
    if (cgroup->all == NULL) return false;
    char events[TEXT_BYTES];
    (void)mt_sandbox_read_text(cgroup->folder, "memory.events", events, sizeof events);
    // "oom" counts this cgroup's limit only, "oom_kill" whoever's limit it was.
    return number_of(events, "oom") > 0 && number_of(events, "oom_kill") > 0;
}

void mt_sandbox_cgroup_end(struct mt_sandbox_cgroup *cgroup)
{
    if (cgroup->all == NULL) return;
    char name[RUN_BYTES];
    name_run(name, cgroup->number);
    if (cgroup->folder >= 0) {
        (void)put(cgroup->folder, "cgroup.kill", "1");
        (void)close(cgroup->folder);
    }
    int parent = cgroup->all->folder;
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < REMOVE_TRIES && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno == EBUSY; i++) {
        (void)nanosleep(&pause, NULL);
    }
    *cgroup = (struct mt_sandbox_cgroup){.folder = -1};
}

// ------------------------------------------------------------------ whether any can be made

/* Says why none are made; false, to stand in a return statement. */
__attribute__((format(printf, 2, 3))) static bool refuse(struct mt_sandbox_cgroups *cgroups,
                                                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(cgroups->reason, sizeof cgroups->reason, format, arguments);
    va_end(arguments);
    return false;
}

/* The path of this process's cgroup of version 2, from the line "0::PATH". */
static bool find_path(struct mt_sandbox_cgroups *cgroups, const char *root, const char *own)
{
    char text[TEXT_BYTES];
    (void)mt_sandbox_read_text(AT_FDCWD, own, text, sizeof text);
    const char *line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    if (line == NULL) return refuse(cgroups, "this process is in no cgroup of version 2");
    const char *path = strchr(line, '/');
    size_t length = strcspn(path, "\n");
    if (length >= sizeof cgroups->path) return refuse(cgroups, "the path of its cgroup is too long");
    memcpy(cgroups->path, path, length);
    cgroups->path[length] = '\0';
    if (strstr(cgroups->path, "/..") != NULL)
        return refuse(cgroups, "the cgroup %s is outside of what is mounted here", cgroups->path);
    char controllers[MT_CGROUP_PATH_BYTES];
    (void)snprintf(controllers, sizeof controllers, "%s/cgroup.controllers", root);
    if (access(controllers, F_OK) != 0) return refuse(cgroups, "%s is not of cgroup version 2", root);
    return true;
}

/*
 * Whether systemd says Delegate=yes: by a mark on the cgroup, or, a user's systemd before it made those (252
 * does not), in the unit it wrote for systemd-run.
 */
static bool is_marked(const struct mt_sandbox_cgroups *cgroups)
{
    static const char *const marks[] = {"user.delegate", "trusted.delegate"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        char mark = '0';
        if (fgetxattr(cgroups->folder, marks[i], &mark, 1) == 1) return mark == '1';
    }
    const char *place = getenv("XDG_RUNTIME_DIR");
    if (place == NULL || place[0] != '/') return false;
    char path[2 * MT_CGROUP_PATH_BYTES];
    char unit[TEXT_BYTES];
    int length = snprintf(path, sizeof path, "%s/systemd/transient%s", place, strrchr(cgroups->path, '/'));
    if (length < 0 || (size_t)length >= sizeof path) return false;
    (void)mt_sandbox_read_text(AT_FDCWD, path, unit, sizeof unit);
    return strstr(unit, "\nDelegate=yes\n") != NULL;
}

/*
 * To be able to write is not enough: root can everywhere, and a user in all cgroups of its own systemd, which
 * was seen to end a unit that it had not delegated after the kernel had killed in it for memory. Given is
 * what systemd says it has delegated, what a container sees as its own root, and what can be written to below
 * what cannot.
 */
static bool is_given(struct mt_sandbox_cgroups *cgroups)
{
    static const char *const needed[] = {".", "cgroup.procs", "cgroup.subtree_control"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (faccessat(cgroups->folder, needed[i], W_OK, AT_EACCESS) != 0)
            return refuse(cgroups, "the cgroup %s cannot be written to: %s", cgroups->path, strerror(errno));
    }
    bool given = strcmp(cgroups->path, "/") == 0 || faccessat(cgroups->folder, "..", W_OK, AT_EACCESS) != 0;
    return given || is_marked(cgroups) || refuse(cgroups, "the cgroup %s is not delegated", cgroups->path);
}

static bool is_divisible(struct mt_sandbox_cgroups *cgroups)
{
    static const char *const needed[] = {"memory", "pids"};
    char text[TEXT_BYTES];
    (void)mt_sandbox_read_text(cgroups->folder, "cgroup.type", text, sizeof text);
    if (text[0] == '\0') return refuse(cgroups, "%s is the cgroup of the whole machine", cgroups->path);
    if (strcmp(text, "domain\n") != 0)
        return refuse(cgroups, "the cgroup %s is of the type %.*s", cgroups->path, (int)strcspn(text, "\n"),
                      text);
    (void)mt_sandbox_read_text(cgroups->folder, "cgroup.controllers", text, sizeof text);
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!has_word(text, needed[i]))
            return refuse(cgroups, "the cgroup %s has no controller '%s'", cgroups->path, needed[i]);
    }
    return true;
}

static bool is_alone(struct mt_sandbox_cgroups *cgroups)
{
    char text[TEXT_BYTES];
    char self[24];
    (void)snprintf(self, sizeof self, "%ld\n", (long)getpid());
    (void)mt_sandbox_read_text(cgroups->folder, "cgroup.procs", text, sizeof text);
    return strcmp(text, self) == 0 || refuse(cgroups, "other processes are in the cgroup %s", cgroups->path);
}

/* Of a process that has died, or of ours with its own number before it. */
static bool is_left_over(const char *name)
{
    if (strcmp(name, JUDGE_NAME) == 0) return true;
    if (strncmp(name, RUN_PREFIX, strlen(RUN_PREFIX)) != 0) return false;
    long process = strtol(name + strlen(RUN_PREFIX), NULL, 10);
    return process > 0 && (process == (long)getpid() || (kill((pid_t)process, 0) != 0 && errno == ESRCH));
}

/* Removes what was left behind; an occupied one cannot be removed. False: there are cgroups of others'. */
static bool clear(struct mt_sandbox_cgroups *cgroups)
{
    DIR *listing = mt_sandbox_open_listing(cgroups->folder, ".");
    if (listing == NULL)
        return refuse(cgroups, "the cgroup %s cannot be listed: %s", cgroups->path, strerror(errno));
    bool clear = true;
    for (struct dirent *entry = readdir(listing); entry != NULL && clear; entry = readdir(listing)) {
        struct stat status;
        if (entry->d_name[0] == '.' ||
            fstatat(cgroups->folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISDIR(status.st_mode))
            continue;
        bool removed =
            is_left_over(entry->d_name) && unlinkat(cgroups->folder, entry->d_name, AT_REMOVEDIR) == 0;
        clear =
            removed || refuse(cgroups, "the cgroup %s has another in it, %s", cgroups->path, entry->d_name);
    }
    (void)closedir(listing);
    return clear;
}

/* Moves this process down and divides what it was in; then shows with a trial that it works. */
static bool divide(struct mt_sandbox_cgroups *cgroups)
{
    struct mt_sandbox_cgroup trial = {0};
    const char *step = "make a cgroup in";
    int error = mkdirat(cgroups->folder, JUDGE_NAME, FOLDER_RIGHTS) == 0 ? 0 : errno;
    cgroups->used = error == 0; // from here on there is something to put back
    if (error == 0) {
        step = "move within";
        error = put(cgroups->folder, JUDGE_NAME "/cgroup.procs", "0");
    }
    if (error == 0) {
        step = "pass on the controllers of";
        error = put(cgroups->folder, "cgroup.subtree_control", "+memory +pids");
    }
    if (error == 0) {
        step = "limit a cgroup in";
        error = mt_sandbox_cgroup_make(cgroups, TRIAL_MEMORY, TRIAL_TASKS, &trial);
        mt_sandbox_cgroup_end(&trial);
    }
    return error == 0 || refuse(cgroups, "cannot %s %s: %s", step, cgroups->path, strerror(error));
}

void mt_sandbox_cgroups_open(struct mt_sandbox_cgroups *cgroups, const char *root, const char *own)
{
    *cgroups = (struct mt_sandbox_cgroups){.folder = -1};
    if (!find_path(cgroups, root, own)) return;
    char place[2 * MT_CGROUP_PATH_BYTES];
    (void)snprintf(place, sizeof place, "%s%s", root, cgroups->path);
    cgroups->folder = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroups->folder < 0) {
        (void)refuse(cgroups, "the cgroup %s is not there: %s", cgroups->path, strerror(errno));
        return;
    }
    bool ready =
        is_divisible(cgroups) && is_given(cgroups) && is_alone(cgroups) && clear(cgroups) && divide(cgroups);
    if (ready) return;
    if (cgroups->used) {
        mt_sandbox_cgroups_close(cgroups);
    } else {
        (void)close(cgroups->folder);
    }
}

void mt_sandbox_cgroups_close(struct mt_sandbox_cgroups *cgroups)
{
    if (!cgroups->used) return;
    // In the reverse order: nobody may be in a cgroup that is divided.
    (void)put(cgroups->folder, "cgroup.subtree_control", "-memory -pids");
    (void)put(cgroups->folder, "cgroup.procs", "0");
    (void)unlinkat(cgroups->folder, JUDGE_NAME, AT_REMOVEDIR);
    (void)close(cgroups->folder);
    cgroups->used = false;
}
