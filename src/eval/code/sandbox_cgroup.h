/*
 * A cgroup for every program, where this process may make any: the kernel then limits the memory and the
 * tasks of all its processes together, at every moment.
 *
 * Only cgroup version 2, and only a cgroup that is this process's to divide: one that was delegated to it, in
 * which it is alone. Processes cannot stay in a cgroup that is divided, so this one moves into a child of it,
 * and back at the end:
 *
 *     PATH/metier-judge        this process
 *     PATH/metier-run-PID-N    a program each
 *
 * Anywhere else nothing is changed, and the limits are kept by looking (sandbox_watch.c), which goes on in
 * either case.
 */
#ifndef MT_EVAL_SANDBOX_CGROUP_H
#define MT_EVAL_SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define MT_CGROUP_ROOT       "/sys/fs/cgroup"
#define MT_CGROUP_OWN        "/proc/self/cgroup"
#define MT_CGROUP_PATH_BYTES 1024

/* Zeroed: none are made. */
struct mt_sandbox_cgroups {
    bool used;
    int folder;                              // where they are made; a descriptor, when `used`
    uint64_t made;                           // so far
    char path[MT_CGROUP_PATH_BYTES];         // of the folder, from the root; "": not known
    char reason[MT_CGROUP_PATH_BYTES + 128]; // why none are made; "" when `used`
};

/* One program's. */
struct mt_sandbox_cgroup {
    struct mt_sandbox_cgroups *all; // borrowed; NULL: it has none
    uint64_t number;
    int folder; // a descriptor; -1: none
};

/*
 * Prepares the making, or says in `reason` why it is not done. Removes what processes that died have left
 * behind. `root` is where cgroups are mounted, `own` the file that names this process's. End with close.
 */
void mt_sandbox_cgroups_open(struct mt_sandbox_cgroups *cgroups, const char *root, const char *own);

/* Puts everything back as it was; zeroed is allowed. No program may run in one. */
void mt_sandbox_cgroups_close(struct mt_sandbox_cgroups *cgroups);

/*
 * Makes a cgroup of at most `memory` bytes, without swap, and `tasks` tasks; `cgroups` may be NULL or make
 * none. 0, or the error number, and then nothing is left.
 */
int mt_sandbox_cgroup_make(struct mt_sandbox_cgroups *cgroups, uint64_t memory, int64_t tasks,
                           struct mt_sandbox_cgroup *cgroup);

/* A descriptor; the process that writes "0" to it is in the cgroup. -1 with errno. The caller closes. */
int mt_sandbox_cgroup_entry(const struct mt_sandbox_cgroup *cgroup);

/* Whether the kernel killed what is in it because of its own limit on memory, not of one around it. */
bool mt_sandbox_cgroup_ran_out(const struct mt_sandbox_cgroup *cgroup);

/* Kills what is in it and removes it; zeroed is allowed. */
void mt_sandbox_cgroup_end(struct mt_sandbox_cgroup *cgroup);

#endif
