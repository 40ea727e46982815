/*
 * Cgroups for programs, on a folder that stands in for the kernel's: what is made and written, in which
 * order; every reason to make none, with everything put back; what the dead left behind; what a program's
 * outcome is. The linker sends mkdirat, unlinkat and write here.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "eval/code/sandbox.h"
#include "support/cmocka_all.h"

int __real_mkdirat(int folder, const char *name, mode_t mode);
int __real_unlinkat(int folder, const char *name, int flags);
ssize_t __real_write(int descriptor, const void *data, size_t bytes);
int __wrap_mkdirat(int folder, const char *name, mode_t mode);
int __wrap_unlinkat(int folder, const char *name, int flags);
ssize_t __wrap_write(int descriptor, const void *data, size_t bytes);

// ------------------------------------------------------------------ the kernel's part

/* One for all: the linker's calls have no place for it. */
static struct fake {
    char root[64];
    char own[80];        // the file that names our cgroup
    const char *missing; // control file that new cgroups lack; NULL: none
    const char *refused; // end of the path that cannot be written to or made; NULL: none
    int busy;            // times that a cgroup cannot be removed
    const char *events;  // memory.events of new cgroups
    char log[4096];
} fake;

static const char *const controls[] = {"cgroup.procs",     "cgroup.kill", "memory.max",   "memory.swap.max",
                                       "memory.oom.group", "pids.max",    "memory.events"};
#define CONTROLS (sizeof controls / sizeof controls[0])

static void note(const char *what, const char *path, const char *text)
{
    size_t used = strlen(fake.log);
    (void)snprintf(fake.log + used, sizeof fake.log - used, "%s%s%s\n", what, path, text);
}

static void path_of(int descriptor, char path[256])
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, 255);
    path[length > 0 ? length : 0] = '\0';
}

static bool is_refused(const char *path)
{
    if (fake.refused == NULL) return false;
    size_t length = strlen(path);
    size_t end = strlen(fake.refused);
    return length >= end && strcmp(path + length - end, fake.refused) == 0;
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

int __wrap_mkdirat(int folder, const char *name, mode_t mode)
{
    char above[256];
    char path[600];
    if (is_refused(name)) {
        errno = EACCES;
        return -1;
    }
    note("make ", name, "");
    if (__real_mkdirat(folder, name, mode) != 0) return -1;
    path_of(folder, above);
    for (size_t i = 0; i < CONTROLS; i++) {
        if (fake.missing != NULL && strcmp(controls[i], fake.missing) == 0) continue;
        (void)snprintf(path, sizeof path, "%s/%s/%s", above, name, controls[i]);
        put_file(path, strcmp(controls[i], "memory.events") == 0 && fake.events != NULL ? fake.events : "");
    }
    return 0;
}

int __wrap_unlinkat(int folder, const char *name, int flags)
{
    if (fake.busy > 0) {
        fake.busy--;
        errno = EBUSY;
        return -1;
    }
    for (size_t i = 0; i < CONTROLS && flags == AT_REMOVEDIR; i++) {
        char path[300];
        (void)snprintf(path, sizeof path, "%s/%s", name, controls[i]);
        (void)__real_unlinkat(folder, path, 0);
    }
    int result = __real_unlinkat(folder, name, flags);
    if (result == 0) note("remove ", name, "");
    return result;
}

ssize_t __wrap_write(int descriptor, const void *data, size_t bytes)
{
    char path[256];
    char text[64];
    path_of(descriptor, path);
    size_t length = strlen(fake.root);
    if (length == 0 || strncmp(path, fake.root, length) != 0) return __real_write(descriptor, data, bytes);
    if (is_refused(path)) {
        errno = EBUSY;
        return -1;
    }
    (void)snprintf(text, sizeof text, " = %.*s", (int)bytes, (const char *)data);
    note("", path + length + 1, text);
    return (ssize_t)bytes;
}

// ------------------------------------------------------------------ the folder

static void put_control(const char *name, const char *text)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", fake.root, name);
    put_file(path, text);
}

static void make_folder(const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", fake.root, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* Removes whatever is in a folder and, at the end, the folder. */
static void remove_tree(const char *path)
{
    DIR *listing = opendir(path);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        char inner[600];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0) remove_tree(inner);
    }
    (void)closedir(listing);
    assert_int_equal(rmdir(path), 0);
}

static int folders_in(const char *path)
{
    int count = 0;
    DIR *listing = opendir(path);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (entry->d_name[0] != '.' && entry->d_type == DT_DIR) count++;
    }
    (void)closedir(listing);
    return count;
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *listing = opendir("/proc/self/fd");
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) count++;
    (void)closedir(listing);
    return count;
}

/* A container's own root, with us alone in it. */
static int fake_open(void **state)
{
    (void)state;
    char self[24];
    memset(&fake, 0, sizeof fake);
    char root[] = "/tmp/test-cgroup-XXXXXX";
    assert_non_null(mkdtemp(root));
    (void)snprintf(fake.root, sizeof fake.root, "%s", root);
    (void)snprintf(fake.own, sizeof fake.own, "%s/own", root);
    (void)snprintf(self, sizeof self, "%ld\n", (long)getpid());
    put_control("own", "2:freezer:/elsewhere\n0::/\n");
    put_control("cgroup.type", "domain\n");
    put_control("cgroup.controllers", "cpu memory pids\n");
    put_control("cgroup.subtree_control", "");
    put_control("cgroup.procs", self);
    return 0;
}

static int fake_close(void **state)
{
    (void)state;
    remove_tree(fake.root);
    fake.root[0] = '\0';
    return 0;
}

/* Compares what happened with lines in which PID is ours; forgets it. */
static void assert_happened(const char *expected)
{
    char wanted[4096];
    size_t used = 0;
    for (const char *at = expected; *at != '\0';) {
        bool process = strncmp(at, "PID", 3) == 0;
        int size = process ? snprintf(wanted + used, sizeof wanted - used, "%ld", (long)getpid())
                           : snprintf(wanted + used, sizeof wanted - used, "%c", *at);
        used += (size_t)size;
        at += process ? 3 : 1;
    }
    wanted[used] = '\0';
    assert_string_equal(fake.log, wanted);
    fake.log[0] = '\0';
}

static const char opened[] = "make metier-judge\n"
                             "metier-judge/cgroup.procs = 0\n"
                             "cgroup.subtree_control = +memory +pids\n"
                             "make metier-run-PID-0\n"
                             "metier-run-PID-0/memory.max = 67108864\n"
                             "metier-run-PID-0/memory.swap.max = 0\n"
                             "metier-run-PID-0/memory.oom.group = 1\n"
                             "metier-run-PID-0/pids.max = 8\n"
                             "metier-run-PID-0/cgroup.kill = 1\n"
                             "remove metier-run-PID-0\n";
static const char closed[] = "cgroup.subtree_control = -memory -pids\n"
                             "cgroup.procs = 0\n"
                             "remove metier-judge\n";

static void open_here(struct mt_sandbox_cgroups *cgroups)
{
    mt_sandbox_cgroups_open(cgroups, fake.root, fake.own);
    assert_string_equal(cgroups->reason, "");
    assert_true(cgroups->used);
}

// ------------------------------------------------------------------ where they can be made

static void test_what_is_written(void **state)
{
    (void)state;
    struct mt_sandbox_cgroups cgroups;
    struct mt_sandbox_cgroup one;
    struct mt_sandbox_cgroup two;
    int descriptors = open_descriptors();
    open_here(&cgroups);
    assert_string_equal(cgroups.path, "/");
    assert_happened(opened);
    assert_int_equal(mt_sandbox_cgroup_make(&cgroups, 100 << 20, 33, &one), 0);
    assert_int_equal(mt_sandbox_cgroup_make(&cgroups, 5, 2, &two), 0);
    assert_happened("make metier-run-PID-1\n"
                    "metier-run-PID-1/memory.max = 104857600\n"
                    "metier-run-PID-1/memory.swap.max = 0\n"
                    "metier-run-PID-1/memory.oom.group = 1\n"
                    "metier-run-PID-1/pids.max = 33\n"
                    "make metier-run-PID-2\n"
                    "metier-run-PID-2/memory.max = 5\n"
                    "metier-run-PID-2/memory.swap.max = 0\n"
                    "metier-run-PID-2/memory.oom.group = 1\n"
                    "metier-run-PID-2/pids.max = 2\n");
    fake.busy = 3; // the killed take their time
    mt_sandbox_cgroup_end(&one);
    mt_sandbox_cgroup_end(&one);
    mt_sandbox_cgroup_end(&two);
    assert_happened("metier-run-PID-1/cgroup.kill = 1\nremove metier-run-PID-1\n"
                    "metier-run-PID-2/cgroup.kill = 1\nremove metier-run-PID-2\n");
    mt_sandbox_cgroups_close(&cgroups);
    mt_sandbox_cgroups_close(&cgroups);
    assert_happened(closed);
    assert_int_equal(folders_in(fake.root), 0);
    assert_int_equal(open_descriptors(), descriptors);
}

static void test_without_any(void **state)
{
    (void)state;
    struct mt_sandbox_cgroups none = {0};
    struct mt_sandbox_cgroup cgroup = {0};
    mt_sandbox_cgroup_end(&cgroup);
    assert_int_equal(mt_sandbox_cgroup_make(NULL, 1, 1, &cgroup), 0);
    assert_int_equal(mt_sandbox_cgroup_make(&none, 1, 1, &cgroup), 0);
    assert_false(mt_sandbox_cgroup_ran_out(&cgroup));
    mt_sandbox_cgroup_end(&cgroup);
    mt_sandbox_cgroups_close(&none);
    assert_happened("");
}

/* A kernel that counts no swap. */
static void test_without_swap(void **state)
{
    (void)state;
    struct mt_sandbox_cgroups cgroups;
    fake.missing = "memory.swap.max";
    open_here(&cgroups);
    mt_sandbox_cgroups_close(&cgroups);
    assert_int_equal(folders_in(fake.root), 0);
}

/* Below the root it must be marked, or lie where our rights begin. */
static void test_delegation(void **state)
{
    (void)state;
    struct mt_sandbox_cgroups cgroups;
    char below[80];
    char self[24];
    (void)snprintf(below, sizeof below, "%s/job", fake.root);
    (void)snprintf(self, sizeof self, "%ld\n", (long)getpid());
    make_folder("job");
    put_control("own", "0::/job\n");
    put_control("job/cgroup.type", "domain\n");
    put_control("job/cgroup.controllers", "memory pids\n");
    put_control("job/cgroup.subtree_control", "");
    put_control("job/cgroup.procs", self);
    mt_sandbox_cgroups_open(&cgroups, fake.root, fake.own);
    assert_false(cgroups.used);
    assert_non_null(strstr(cgroups.reason, "/job is not delegated"));
    assert_happened("");
    if (setxattr(below, "user.delegate", "0", 1, 0) == 0) { // else a file system without marks
        mt_sandbox_cgroups_open(&cgroups, fake.root, fake.own);
        assert_false(cgroups.used);
        assert_int_equal(setxattr(below, "user.delegate", "1", 1, 0), 0);
        open_here(&cgroups);
        assert_string_equal(cgroups.path, "/job");
        mt_sandbox_cgroups_close(&cgroups);
        assert_int_equal(removexattr(below, "user.delegate"), 0);
    }
    // A user's systemd, by the unit it wrote.
    assert_int_equal(setenv("XDG_RUNTIME_DIR", fake.root, 1), 0);
    make_folder("systemd");
    make_folder("systemd/transient");
    put_control("systemd/transient/job", "[Scope]\nDelegate=no\nDescription=metier Delegate=yes \n");
    mt_sandbox_cgroups_open(&cgroups, fake.root, fake.own);
    assert_false(cgroups.used);
    put_control("systemd/transient/job", "# transient\n[Scope]\nDelegate=yes\n");
    open_here(&cgroups);
    mt_sandbox_cgroups_close(&cgroups);
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    if (geteuid() != 0) {
        assert_int_equal(chmod(fake.root, 0555), 0);
        open_here(&cgroups);
        mt_sandbox_cgroups_close(&cgroups);
        assert_int_equal(chmod(fake.root, 0755), 0);
    }
    assert_int_equal(folders_in(below), 0);
}

// ------------------------------------------------------------------ where they cannot

/* None are made, for this reason, and nothing has changed. */
static void assert_none(const char *words)
{
    struct mt_sandbox_cgroups cgroups;
    int descriptors = open_descriptors();
    int folders = folders_in(fake.root);
    mt_sandbox_cgroups_open(&cgroups, fake.root, fake.own);
    assert_false(cgroups.used);
    if (strstr(cgroups.reason, words) == NULL) print_error("'%s' lacks '%s'\n", cgroups.reason, words);
    assert_non_null(strstr(cgroups.reason, words));
    assert_int_equal(folders_in(fake.root), folders);
    assert_int_equal(open_descriptors(), descriptors);
}

/* A control file of ours is another for a while; NULL: it is not there. */
static void assert_none_with(const char *name, const char *text, const char *words)
{
    char path[300];
    char before[256] = "";
    (void)snprintf(path, sizeof path, "%s/%s", fake.root, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)!fread(before, 1, sizeof before - 1, file);
    (void)fclose(file);
    if (text == NULL) assert_int_equal(unlink(path), 0);
    if (text != NULL) put_control(name, text);
    assert_none(words);
    assert_happened("");
    put_control(name, before);
}

static void test_reasons(void **state)
{
    (void)state;
    char long_path[MT_CGROUP_PATH_BYTES + 64] = "0::/";
    memset(long_path + 4, 'x', sizeof long_path - 5);
    assert_none_with("own", NULL, "in no cgroup of version 2");
    assert_none_with("own", "4:memory:/a\n1:name=systemd:/0::/\n", "in no cgroup of version 2");
    assert_none_with("own", "0::/../other\n", "outside of what is mounted");
    assert_none_with("own", "0::/gone (deleted)\n", "/gone (deleted) is not there");
    assert_none_with("own", long_path, "too long");
    assert_none_with("cgroup.controllers", NULL, "is not of cgroup version 2");
    assert_none_with("cgroup.controllers", "cpu pids\n", "no controller 'memory'");
    assert_none_with("cgroup.controllers", "memory2 memory\n", "no controller 'pids'");
    assert_none_with("cgroup.type", NULL, "of the whole machine");
    assert_none_with("cgroup.type", "domain threaded\n", "of the type domain threaded");
    assert_none_with("cgroup.subtree_control", NULL, "cannot be written to");
    assert_none_with("cgroup.procs", "1\n", "other processes");
    assert_none_with("cgroup.procs", "", "other processes");
    make_folder("others");
    assert_none("has another in it, others");
    assert_happened("");
}

/* Another process beside us. */
static void test_not_alone(void **state)
{
    (void)state;
    char two[48];
    (void)snprintf(two, sizeof two, "%ld\n%ld\n", (long)getpid(), (long)getppid());
    assert_none_with("cgroup.procs", two, "other processes");
}

static void test_not_writable(void **state)
{
    (void)state;
    if (geteuid() == 0) skip(); // may write everywhere
    char path[300];
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", fake.root);
    assert_int_equal(chmod(path, 0444), 0);
    assert_none("cannot be written to: Permission denied");
    assert_happened("");
}

/* What was begun is put back. */
static void test_refusals_of_the_kernel(void **state)
{
    (void)state;
    fake.refused = "metier-judge";
    assert_none("cannot make a cgroup in /: Permission denied");
    assert_happened("");
    fake.refused = "metier-judge/cgroup.procs";
    assert_none("cannot move within /: Device or resource busy");
    assert_happened("make metier-judge\ncgroup.subtree_control = -memory -pids\n"
                    "cgroup.procs = 0\nremove metier-judge\n");
    fake.refused = "cgroup.subtree_control";
    assert_none("cannot pass on the controllers of /");
    assert_happened(
        "make metier-judge\nmetier-judge/cgroup.procs = 0\ncgroup.procs = 0\nremove metier-judge\n");
    static const char *const needed[] = {"memory.max", "memory.oom.group", "pids.max", "cgroup.kill"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        fake.refused = NULL;
        fake.missing = needed[i];
        assert_none("cannot limit a cgroup in /: No such file");
        fake.missing = NULL;
        fake.refused = strcmp(needed[i], "cgroup.kill") == 0 ? "memory.swap.max" : needed[i];
        assert_none("cannot limit a cgroup in /: Device or resource busy");
        assert_non_null(strstr(fake.log, closed));
    }
}

// ------------------------------------------------------------------ left behind

static pid_t dead_process(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

static void test_left_behind(void **state)
{
    (void)state;
    struct mt_sandbox_cgroups cgroups;
    char name[128];
    (void)snprintf(name, sizeof name, "metier-run-%ld-7", (long)dead_process());
    make_folder(name);
    make_folder("metier-judge");
    (void)snprintf(name, sizeof name, "metier-run-%ld-0", (long)getpid()); // a number that was another's
    make_folder(name);
    open_here(&cgroups);
    mt_sandbox_cgroups_close(&cgroups);
    assert_int_equal(folders_in(fake.root), 0);
    // One that lives, one with somebody in it, and names that are not ours.
    static const char *const others[] = {"metier-run-1-0", "metier-run-", "metier-run--5-1", "metier-judge2"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        make_folder(others[i]);
        assert_none(others[i]);
        (void)snprintf(name, sizeof name, "%s/%s", fake.root, others[i]);
        assert_int_equal(rmdir(name), 0);
    }
    make_folder("metier-judge");
    fake.busy = 1;
    assert_none("has another in it, metier-judge");
}

// ------------------------------------------------------------------ programs

static const char too_much[] = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n";

static void test_ran_out(void **state)
{
    (void)state;
    static const struct {
        const char *events;
        bool ran_out;
    } cases[] = {
        {too_much, true},
        {"oom 0\noom_kill 0\n", false},
        {"max 100\noom 2\noom_kill 0\n", false}, // refused memory, killed nothing
        {"oom 0\noom_kill 4\n", false},          // a limit around it
        {"", false},
    };
    struct mt_sandbox_cgroups cgroups;
    open_here(&cgroups);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_sandbox_cgroup cgroup;
        fake.events = cases[i].events;
        assert_int_equal(mt_sandbox_cgroup_make(&cgroups, 1, 1, &cgroup), 0);
        assert_int_equal(mt_sandbox_cgroup_ran_out(&cgroup), cases[i].ran_out);
        mt_sandbox_cgroup_end(&cgroup);
    }
    mt_sandbox_cgroups_close(&cgroups);
}

static enum mt_status run(struct mt_context *ctx, struct mt_sandbox_cgroups *cgroups, const char *program,
                          struct mt_sandbox_result *result)
{
    struct mt_sandbox_options options = mt_sandbox_defaults();
    options.without_sandbox = true; // what is tried here needs none
    options.cgroups = cgroups;
    mt_context_init(ctx, NULL);
    fake.log[0] = '\0';
    return mt_sandbox_run(ctx, &options, program, strlen(program), result);
}

/* It enters before it becomes the interpreter, and the kernel's kill for memory is its outcome. */
static void test_programs(void **state)
{
    (void)state;
    static const char whole[] = "make metier-run-PID-1\n"
                                "metier-run-PID-1/memory.max = 1073741824\n"
                                "metier-run-PID-1/memory.swap.max = 0\n"
                                "metier-run-PID-1/memory.oom.group = 1\n"
                                "metier-run-PID-1/pids.max = 32\n"
                                "metier-run-PID-1/cgroup.procs = 0\n"
                                "metier-run-PID-1/cgroup.kill = 1\n"
                                "remove metier-run-PID-1\n";
    static const char dies[] = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)";
    struct mt_context ctx;
    struct mt_sandbox_cgroups cgroups;
    struct mt_sandbox_result result;
    int descriptors = open_descriptors();
    open_here(&cgroups);
    enum mt_status status = run(&ctx, &cgroups, "", &result);
    if (status == MT_ERR_UNSUPPORTED) skip(); // no python3
    assert_int_equal(status, MT_OK);
    assert_int_equal(result.outcome, MT_SANDBOX_PASSED);
    assert_happened(whole);
    assert_int_equal(run(&ctx, &cgroups, dies, &result), MT_OK);
    assert_int_equal(result.outcome, MT_SANDBOX_KILLED);
    fake.events = too_much;
    assert_int_equal(run(&ctx, &cgroups, dies, &result), MT_OK);
    assert_int_equal(result.outcome, MT_SANDBOX_OUT_OF_MEMORY);
    // Nothing runs outside of a cgroup that it should be in.
    char entry[64];
    (void)snprintf(entry, sizeof entry, "metier-run-%ld-4/cgroup.procs", (long)getpid());
    fake.refused = entry;
    assert_int_equal(run(&ctx, &cgroups, "", &result), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "cannot enter its cgroup"));
    fake.refused = "memory.max";
    assert_int_equal(run(&ctx, &cgroups, "", &result), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "cannot start a program"));
    fake.refused = NULL;
    mt_sandbox_cgroups_close(&cgroups);
    assert_int_equal(folders_in(fake.root), 0);
    assert_int_equal(open_descriptors(), descriptors);
}

#define ON_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_open, fake_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_FAKE(test_what_is_written), ON_A_FAKE(test_without_any),
        ON_A_FAKE(test_without_swap),    ON_A_FAKE(test_delegation),
        ON_A_FAKE(test_reasons),         ON_A_FAKE(test_not_alone),
        ON_A_FAKE(test_not_writable),    ON_A_FAKE(test_refusals_of_the_kernel),
        ON_A_FAKE(test_left_behind),     ON_A_FAKE(test_ran_out),
        ON_A_FAKE(test_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
