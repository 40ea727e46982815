/*
 * Starting bubblewrap: its descriptors, its arguments, the limits, and the exec.
 *
 * Limits are set before the exec and inherited, but for the number of processes: the kernel counts them per
 * user and user namespace, and a limit set outside would count everything the user runs. It is set
 * from outside on process 1 of the sandbox while that waits at the gate.
 *
 * Between vfork and exec only system calls are made: the memory is the parent's. A plain fork would copy the
 * page tables of a process that may hold a whole model.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eval/code/sandbox.h"

#define FIRST_FREE       16 // our own descriptors lie above the fixed ones of the child
#define MAX_ARGUMENTS    128
#define MAX_OPEN         128 // files a process may have open
#define CALL_CLOSE_RANGE 436

/* Fixed descriptors of the launched process, after standard input, output and error. */
enum mt_sandbox_channel {
    MT_CHANNEL_PROGRAM = 3, // its text
    MT_CHANNEL_FILTER,      // system calls
    MT_CHANNEL_STATUS,      // bubblewrap writes
    MT_CHANNEL_GATE,        // bubblewrap waits
    MT_CHANNEL_PROOF,       // the program's first line and its last line write, and wait
    MT_CHANNEL_TALK,        // to another program, where it has one
    MT_CHANNEL_END
};

/* What the child needs, made before it exists. */
struct launch {
    int source[MT_CHANNEL_END]; // descriptor by channel, all of them FIRST_FREE or above; -1: none
    const char *arguments[MAX_ARGUMENTS];
    int argument_count;
    char files[24]; // the limit on files as text
    int cgroup;     // who writes "0" here is in it; -1: none
    bool drop_root;
};

int mt_sandbox_write_whole(int descriptor, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(descriptor, at, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

// ------------------------------------------------------------------ descriptors

/* Moves a descriptor above the fixed ones; closes the old one. -1 with errno. */
static int move_up(int descriptor)
{
    if (descriptor < 0) return -1;
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_FREE);
    int error = errno;
    (void)close(descriptor);
    errno = error;
    return moved;
}

/* A pipe to read from, without waiting. */
static int open_pipe(int *ours, int *theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    *ours = move_up(ends[0]);
    *theirs = move_up(ends[1]);
    if (*ours < 0 || *theirs < 0) return errno;
    return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

/*
 * Sockets, for two reasons. Writing to one whose reader has died can be told to raise no signal. And a
 * program cannot open one again: through /proc/self/fd it can open a pipe's other end, and read what was
 * meant for us.
 */
static int open_socket(int *ours, int *theirs)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
    *ours = move_up(ends[0]);
    *theirs = move_up(ends[1]);
    if (*ours < 0 || *theirs < 0) return errno;
    return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

static int draw_proof(char digits[MT_SANDBOX_PROOF_BYTES + 1])
{
    unsigned char random[MT_SANDBOX_PROOF_BYTES / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) return errno;
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(digits + 2 * i, 3, "%02x", random[i]);
    }
    return 0;
}

/* The program and its last line, which waits for the last look, in memory of the kernel's without a name. */
static int open_program(struct mt_sandbox *sandbox, const char *program, size_t bytes, int *descriptor)
{
    char last_line[160];
    int error = draw_proof(sandbox->proof_wanted);
    if (error != 0) return error;
    int length = snprintf(last_line, sizeof last_line,
                          "\n__import__('os').write(%d, b'%s'); __import__('os').read(%d, 1)\n",
                          MT_CHANNEL_PROOF, sandbox->proof_wanted, MT_CHANNEL_PROOF);
    *descriptor = move_up(memfd_create("program", MFD_CLOEXEC));
    if (*descriptor < 0) return errno;
    error = mt_sandbox_write_whole(*descriptor, program, bytes);
    if (error == 0) error = mt_sandbox_write_whole(*descriptor, last_line, (size_t)length);
    if (error != 0) return error;
    return lseek(*descriptor, 0, SEEK_SET) == 0 ? 0 : errno;
}

static int open_filter(int *descriptor)
{
    *descriptor = move_up(memfd_create("filter", MFD_CLOEXEC));
    if (*descriptor < 0) return errno;
    int error = mt_sandbox_write_filter(*descriptor);
    if (error != 0) return error;
    return lseek(*descriptor, 0, SEEK_SET) == 0 ? 0 : errno;
}

static int open_channels(struct mt_sandbox *sandbox, const char *program, size_t bytes, struct launch *launch)
{
    int *source = launch->source;
    source[STDIN_FILENO] = move_up(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (source[STDIN_FILENO] < 0) return errno;
    int error = open_pipe(&sandbox->output[0], &source[STDOUT_FILENO]);
    if (error == 0) error = open_pipe(&sandbox->output[1], &source[STDERR_FILENO]);
    if (error == 0) error = open_socket(&sandbox->proof, &source[MT_CHANNEL_PROOF]);
    if (error == 0) error = open_program(sandbox, program, bytes, &source[MT_CHANNEL_PROGRAM]);
    if (error == 0 && sandbox->options.talk > 0) {
        source[MT_CHANNEL_TALK] = fcntl(sandbox->options.talk, F_DUPFD_CLOEXEC, FIRST_FREE);
        if (source[MT_CHANNEL_TALK] < 0) error = errno;
    }
    if (error != 0 || sandbox->options.without_sandbox) return error;
    error = open_filter(&source[MT_CHANNEL_FILTER]);
    if (error == 0) error = open_pipe(&sandbox->status, &source[MT_CHANNEL_STATUS]);
    if (error == 0) error = open_socket(&sandbox->gate, &source[MT_CHANNEL_GATE]);
    return error;
}

static void close_sources(struct launch *launch)
{
    for (int i = 0; i < MT_CHANNEL_END; i++) {
        if (launch->source[i] >= 0) (void)close(launch->source[i]);
    }
    if (launch->cgroup >= 0) (void)close(launch->cgroup);
}

// ------------------------------------------------------------------ arguments

static void add_arguments(struct launch *launch, const char *const *arguments)
{
    for (int i = 0; arguments[i] != NULL; i++) {
        assert(launch->argument_count < MAX_ARGUMENTS - 1);
        launch->arguments[launch->argument_count++] = arguments[i];
    }
}

// What bubblewrap is asked for. The numbers are those of enum mt_sandbox_channel.
static const char *const isolation[] = {
    // namespaces of its own
    "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
    "--unshare-cgroup-try",

    // nobody, without rights
    "--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--die-with-parent", "--new-session",
    "--cap-drop", "ALL",

    // and what we have open for it
    "--seccomp", "4", "--json-status-fd", "5", "--block-fd", "6", NULL};
static_assert(MT_CHANNEL_PROGRAM == 3 && MT_CHANNEL_FILTER == 4 && MT_CHANNEL_STATUS == 5 &&
                  MT_CHANNEL_GATE == 6,
              "the numbers in the arguments");

// The same hash of a text in every run: a program that depends on the order of a set ends the same way.
static const char *const environment[] = {
    // paths
    "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home", "--setenv", "TMPDIR",
    "/tmp", "--setenv", "LANG", "C.UTF-8",

    // one thread each, one order of sets
    "--setenv", "PYTHONHASHSEED", "0", "--setenv", "OMP_NUM_THREADS", "1", "--setenv", "OPENBLAS_NUM_THREADS",
    "1", NULL};

static const char *const system_places[] = {
    "--ro-bind", "/usr", "/usr", "--ro-bind-try", "/bin", "/bin", "--ro-bind-try", "/lib", "/lib",
    "--ro-bind-try", "/lib32", "/lib32", "--ro-bind-try", "/lib64", "/lib64", "--ro-bind-try",
    "/etc/alternatives", "/etc/alternatives", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
    "--proc", "/proc",
    // Process 1 reports how the program ended: out of its reach.
    "--perms", "0000", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1", "--dev", "/dev",
    // No terminals: the machine has a limited number of them for everybody.
    "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts",
    // Reads the same zeros; mapped, /dev/zero is memory that no
    // process has to show.
    "--dev-bind", "/dev/full", "/dev/zero", NULL};

/* The order matters: places are made before what holds them becomes read-only. */
static void add_sandbox(struct launch *launch, const struct mt_sandbox_options *options)
{
    const char *const launcher[] = {options->launcher, NULL};
    const char *const shared[] = {"--size",       launch->files, "--tmpfs", "/dev/shm",
                                  "--remount-ro", "/dev",        NULL};
    const char *const own[] = {"--size", launch->files, "--tmpfs", "/tmp", "--dir", "/home", NULL};
    static const char *const program[] = {
        "--ro-bind-data", "3", "/program.py", "--remount-ro", "/", "--chdir", "/tmp", "--", NULL};
    add_arguments(launch, launcher);
    add_arguments(launch, isolation);
    add_arguments(launch, environment);
    add_arguments(launch, system_places);
    add_arguments(launch, shared);
    add_arguments(launch, own);
    add_arguments(launch, program);
}

/*
 * The mark says that the interpreter runs and the sandbox is complete. Nothing of the program has been read
 * by then, and nothing is until the answer comes: whoever sends it counts memory and files already. From then
 * on every outcome is the program's. Leaves no name behind.
 */
#define BOOT(path)                                                                                           \
    "__import__('os').write(7, b'+'); __import__('os').read(7, 1) or __import__('os')._exit(1); "            \
    "__import__('sys').argv[:] = ['" path "']; __file__ = '" path "'; "                                      \
    "exec(compile(open('" path "', 'rb').read(), '" path "', 'exec', 0, True))"
static_assert(MT_CHANNEL_PROOF == 7, "the number in the first line");

static void build_arguments(struct launch *launch, const struct mt_sandbox_options *options)
{
    // Without -I, which would ignore PYTHONHASHSEED; the environment is ours already.
    const char *const python[] = {options->interpreter,
                                  "-s",
                                  "-B",
                                  "-c",
                                  options->without_sandbox ? BOOT("/dev/fd/3") : BOOT("/program.py"),
                                  NULL};
    (void)snprintf(launch->files, sizeof launch->files, "%llu", (unsigned long long)options->files);
    if (!options->without_sandbox) add_sandbox(launch, options);
    add_arguments(launch, python);
    launch->arguments[launch->argument_count] = NULL;
}

// ------------------------------------------------------------------ the child

static bool limit(int resource, uint64_t value, uint64_t hard)
{
    const struct rlimit limits = {.rlim_cur = (rlim_t)value, .rlim_max = (rlim_t)hard};
    return setrlimit((__rlimit_resource_t)resource, &limits) == 0;
}

static bool set_limits(const struct mt_sandbox_options *options)
{
    uint64_t cpu = (uint64_t)options->cpu_seconds;
    // A second after SIGXCPU, which a program may ignore, comes SIGKILL.
    // The address space comes last: until the exec it is ours, far beyond the limit under a sanitizer.
    return limit(RLIMIT_CPU, cpu, cpu + 1) && limit(RLIMIT_FSIZE, options->files, options->files) &&
           limit(RLIMIT_NOFILE, MAX_OPEN, MAX_OPEN) && limit(RLIMIT_CORE, 0, 0) &&
           limit(RLIMIT_MEMLOCK, 0, 0) && limit(RLIMIT_MSGQUEUE, 0, 0) &&
           limit(RLIMIT_AS, options->memory, options->memory);
}

/* Root becomes nobody: the kernel exempts root from the limit on processes, and what a program may reach
 * should not be root's. System calls, because libc's functions would also reach for our other threads. */
static bool drop_root(void)
{
    return syscall(SYS_setgroups, 0, NULL) == 0 &&
           syscall(SYS_setresgid, MT_SANDBOX_NOBODY, MT_SANDBOX_NOBODY, MT_SANDBOX_NOBODY) == 0 &&
           syscall(SYS_setresuid, MT_SANDBOX_NOBODY, MT_SANDBOX_NOBODY, MT_SANDBOX_NOBODY) == 0;
}

int mt_sandbox_limit_processes(pid_t first, int64_t processes)
{
    const struct rlimit limits = {.rlim_cur = (rlim_t)processes, .rlim_max = (rlim_t)processes};
    if (geteuid() != 0) return prlimit(first, RLIMIT_NPROC, &limits, NULL) == 0 ? 0 : errno;
    // Root in a container may not touch other users' limits, but may become the user.
    volatile int error = 0; // the child writes it: its memory is ours
    pid_t child = vfork();
    if (child == 0) {
        error = drop_root() && prlimit(first, RLIMIT_NPROC, &limits, NULL) == 0 ? 0 : errno;
        _exit(0);
    }
    if (child < 0) return errno;
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    return error;
}

static bool arrange_descriptors(const struct launch *launch)
{
    for (int i = 0; i < MT_CHANNEL_END; i++) {
        if (launch->source[i] >= 0 && dup2(launch->source[i], i) != i) return false;
        if (launch->source[i] < 0) (void)close(i);
    }
    // Whatever else this process has open stays here.
    return syscall(CALL_CLOSE_RANGE, (unsigned)MT_CHANNEL_END, ~0u, 0u) == 0;
}

/* When memory runs out on the machine, these go first. Not being able to say so is no reason not to run. */
static void die_first(void)
{
    static const char most[] = "1000";
    int descriptor = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    (void)!write(descriptor, most, sizeof most - 1);
    (void)close(descriptor);
}

/* The rest of the child's life before exec; the message goes where the program's errors would. */
__attribute__((noreturn)) static void become(const struct launch *launch,
                                             const struct mt_sandbox_options *options)
{
    static const char *const plain[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "PYTHONHASHSEED=0", NULL};
    // First no handlers, then no mask: a handler of ours must not run here, on our memory.
    for (int number = 1; number <= SIGRTMAX; number++) (void)signal(number, SIG_DFL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    const char *problem = NULL;
    // As who we are, and while the descriptor is there.
    if (launch->cgroup >= 0 && write(launch->cgroup, "0", 1) != 1) problem = "cannot enter its cgroup\n";
    if (!arrange_descriptors(launch)) problem = "cannot arrange the descriptors (Linux 5.9 is needed)\n";
    if (problem == NULL && (setsid() < 0 || chdir("/") != 0)) problem = "cannot start a session\n";
    die_first();
    if (problem == NULL && launch->drop_root && !drop_root()) problem = "cannot give up being root\n";
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // after the change of user, which clears it
    if (problem == NULL && !set_limits(options)) problem = "cannot set the limits\n";
    if (problem == NULL) {
        (void)execvpe(launch->arguments[0], (char *const *)launch->arguments, (char *const *)plain);
        problem = errno == ENOENT ? "not found\n" : "cannot be executed\n";
    }
    (void)!write(STDERR_FILENO, problem, strlen(problem));
    _exit(127);
}

/* Bubblewrap's process outside of the sandbox is in it, too, and has no part in the program's number. */
static int make_cgroup(struct mt_sandbox *sandbox, struct launch *launch)
{
    const struct mt_sandbox_options *options = &sandbox->options;
    int64_t tasks = options->processes + (options->without_sandbox ? 0 : 1);
    int error = mt_sandbox_cgroup_make(options->cgroups, options->memory, tasks, &sandbox->cgroup);
    if (error != 0 || sandbox->cgroup.all == NULL) return error;
    launch->cgroup = mt_sandbox_cgroup_entry(&sandbox->cgroup);
    return launch->cgroup < 0 ? errno : 0;
}

enum mt_status mt_sandbox_launch(struct mt_sandbox *sandbox, const char *program, size_t bytes)
{
    struct launch launch = {.cgroup = -1, .drop_root = geteuid() == 0 && !sandbox->options.without_sandbox};
    for (int i = 0; i < MT_CHANNEL_END; i++) launch.source[i] = -1;
    build_arguments(&launch, &sandbox->options);
    int error = open_channels(sandbox, program, bytes, &launch);
    if (error == 0) error = make_cgroup(sandbox, &launch);
    if (error == 0) {
        sigset_t all;
        sigset_t before;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        pid_t child = vfork();
        if (child == 0) become(&launch, &sandbox->options);
        error = child < 0 ? errno : 0;
        sandbox->launcher = child;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    close_sources(&launch);
    if (error == 0) {
        sandbox->launcher_handle = (int)syscall(SYS_pidfd_open, sandbox->launcher, 0);
        if (sandbox->launcher_handle < 0) error = errno;
    }
    if (error == 0) return MT_OK;
    return mt_fail(sandbox->ctx, MT_ERR_UNSUPPORTED, "cannot start a program: %s", strerror(error));
}
