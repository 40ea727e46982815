/*
 * The life of a sandboxed program: launch, let it begin, read what it writes, hold it to its limits, end
 * everything it started, say how it went.
 */
#define _GNU_SOURCE
#include "eval/code/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "formats/text/printable.h"

#define SETUP_SECONDS      60    // until the sandbox is ready, its interpreter waits, and it is counted
#define DEATH_MILLISECONDS 60000 // until a killed sandbox is gone, and bubblewrap has noticed
#define MAX_FILES          20000 // in /tmp and /dev/shm; an empty file costs no byte there, but kernel memory
#define MOST_PROCESSES     4096
#define SIGNAL_BASE        128 // how shells and bubblewrap report a signal

const char *mt_sandbox_outcome_name(enum mt_sandbox_outcome outcome)
{
    static const char *const names[MT_SANDBOX_OUTCOMES] = {
        [MT_SANDBOX_PASSED] = "passed",
        [MT_SANDBOX_FAILED] = "failed",
        [MT_SANDBOX_TIMED_OUT] = "timed out",
        [MT_SANDBOX_OUT_OF_MEMORY] = "out of memory",
        [MT_SANDBOX_TOO_MUCH_OUTPUT] = "too much output",
        [MT_SANDBOX_TOO_MANY_FILES] = "too many files",
        [MT_SANDBOX_KILLED] = "killed by a signal",
        [MT_SANDBOX_COULD_NOT_START] = "could not start",
    };
    return names[outcome];
}

struct mt_sandbox_options mt_sandbox_defaults(void)
{
    return (struct mt_sandbox_options){
        .seconds = 10,
        .cpu_seconds = 10,
        .memory = 1ull << 30,
        .processes = 32,
        .output = 1ull << 20,
        .files = 64ull << 20,
        .interpreter = "python3",
        .launcher = "bwrap",
    };
}

void mt_sandbox_adopt_orphans(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); // where it fails, init buries them
}

static enum mt_status check(struct mt_context *ctx, const struct mt_sandbox_options *options, size_t bytes)
{
    if (!(options->seconds > 0 && options->seconds <= 86400))
        return mt_fail(ctx, MT_ERR_USAGE, "a program's seconds are %g, expected 0 to 86400",
                       options->seconds);
    if (options->cpu_seconds < 1 || options->cpu_seconds > 86400)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "a program's processor seconds are %" PRId64 ", expected 1 to 86400",
                       options->cpu_seconds);
    if (options->memory < (16u << 20) || options->memory > INT64_MAX)
        return mt_fail(ctx, MT_ERR_USAGE, "a program's memory is %" PRIu64 " bytes, expected 16 MiB or more",
                       options->memory);
    // Process 1 of the sandbox and the program are two.
    if (options->processes < 2 || options->processes > MOST_PROCESSES)
        return mt_fail(ctx, MT_ERR_USAGE, "a program's processes are %" PRId64 ", expected 2 to %d",
                       options->processes, MOST_PROCESSES);
    if (options->output < 1 || options->output > INT64_MAX)
        return mt_fail(ctx, MT_ERR_USAGE, "a program's output is limited to %" PRIu64 " bytes",
                       options->output);
    if (options->files < 4096 || options->files > INT64_MAX)
        return mt_fail(ctx, MT_ERR_USAGE, "a program's files have %" PRIu64 " bytes, expected 4096 or more",
                       options->files);
    if (options->interpreter == NULL || (!options->without_sandbox && options->launcher == NULL))
        return mt_fail(ctx, MT_ERR_USAGE, "the interpreter or bubblewrap has no name");
    if (bytes > MT_SANDBOX_MAX_PROGRAM)
        return mt_fail(ctx, MT_ERR_USAGE, "the program has %zu bytes, at most %d are run", bytes,
                       MT_SANDBOX_MAX_PROGRAM);
    return MT_OK;
}

// ------------------------------------------------------------------ what it writes

static void close_one(int *descriptor)
{
    if (*descriptor >= 0) (void)close(*descriptor);
    *descriptor = -1;
}

static void close_all(struct mt_sandbox *sandbox)
{
    close_one(&sandbox->launcher_handle);
    close_one(&sandbox->first_handle);
    close_one(&sandbox->output[0]);
    close_one(&sandbox->output[1]);
    close_one(&sandbox->status);
    close_one(&sandbox->gate);
    close_one(&sandbox->proof);
    for (int i = 0; i < MT_SANDBOX_VIEWS; i++) close_one(&sandbox->views[i]);
}

static void keep_tail(struct mt_sandbox *sandbox, const char *data, size_t bytes)
{
    size_t room = MT_SANDBOX_TAIL_BYTES - 1;
    if (bytes > room) {
        data += bytes - room;
        bytes = room;
    }
    size_t kept = sandbox->tail_size < room - bytes ? sandbox->tail_size : room - bytes;
    memmove(sandbox->result.tail, sandbox->result.tail + sandbox->tail_size - kept, kept);
    memcpy(sandbox->result.tail + kept, data, bytes);
    sandbox->tail_size = kept + bytes;
    sandbox->result.tail[sandbox->tail_size] = '\0';
}

/* Reads all there is, but not far beyond the limit; at the end of file the descriptor is closed. */
static void read_output(struct mt_sandbox *sandbox, int stream)
{
    char data[16384];
    while (sandbox->output[stream] >= 0 && sandbox->output_size <= sandbox->options.output) {
        ssize_t size = read(sandbox->output[stream], data, sizeof data);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) {
            close_one(&sandbox->output[stream]);
            return;
        }
        sandbox->output_size += (uint64_t)size;
        if (stream == 1) keep_tail(sandbox, data, (size_t)size);
    }
}

/* Appends what there is to a text of `room` bytes and closes the descriptor at its end or when it is full. */
static void read_text(int *descriptor, char *text, size_t room, size_t *used)
{
    while (*descriptor >= 0) {
        ssize_t size = *used < room ? read(*descriptor, text + *used, room - *used) : 0;
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) {
            close_one(descriptor);
            return;
        }
        *used += (size_t)size;
    }
}

static void read_all(struct mt_sandbox *sandbox)
{
    read_output(sandbox, 0);
    read_output(sandbox, 1);
    read_text(&sandbox->status, sandbox->status_text, sizeof sandbox->status_text - 1, &sandbox->status_size);
    read_text(&sandbox->proof, sandbox->proof_given, sizeof sandbox->proof_given, &sandbox->proof_size);
}

/* A number bubblewrap reports in its JSON lines, once the line is whole; -1: not yet. */
static long reported(const struct mt_sandbox *sandbox, const char *key)
{
    const char *at = strstr(sandbox->status_text, key);
    if (at == NULL || strchr(at, '\n') == NULL) return -1;
    return strtol(at + strlen(key), NULL, 10);
}

// ------------------------------------------------------------------ ending

/* Waits for the end of a process; false: it does not end in time. */
static bool wait_for_end(int handle, int milliseconds)
{
    struct pollfd wait = {.fd = handle, .events = POLLIN};
    int ready = poll(&wait, 1, milliseconds);
    while (ready < 0 && errno == EINTR) ready = poll(&wait, 1, milliseconds);
    return ready > 0;
}

/* Names process 1 of the sandbox, as soon as bubblewrap has told its number. */
static void name_first(struct mt_sandbox *sandbox)
{
    long first = reported(sandbox, "\"child-pid\":");
    if (first <= 0 || sandbox->first_handle >= 0) return;
    sandbox->first = (pid_t)first;
    sandbox->first_handle = (int)syscall(SYS_pidfd_open, sandbox->first, 0);
}

/*
 * One that is ended while it is being set up: bubblewrap tells the number of its child, or ends. Killed in
 * between, it would leave a child behind that waits for it forever; on a busy machine the moment may last
 * seconds.
 */
static void await_first(struct mt_sandbox *sandbox)
{
    double deadline = mt_clock_seconds() + SETUP_SECONDS;
    while (sandbox->first == 0 && sandbox->status >= 0 && sandbox->launcher_handle >= 0) {
        int left = (int)((deadline - mt_clock_seconds()) * 1000);
        struct pollfd waits[2] = {{.fd = sandbox->status, .events = POLLIN},
                                  {.fd = sandbox->launcher_handle, .events = POLLIN}};
        if (left <= 0 || poll(waits, 2, left) == 0) return;
        bool ended = waits[1].revents != 0; // before reading: what it wrote is then there to be read
        read_all(sandbox);
        name_first(sandbox);
        if (ended) return;
    }
}

/* With its process 1 a process namespace dies whole; this waits for that. False: it does not die. */
static bool end_sandbox(struct mt_sandbox *sandbox)
{
    await_first(sandbox);
    if (sandbox->first_handle < 0) return true;
    (void)syscall(SYS_pidfd_send_signal, sandbox->first_handle, SIGKILL, NULL, 0);
    bool gone = wait_for_end(sandbox->first_handle, DEATH_MILLISECONDS);
    // Bubblewrap, if it is still there, buries its child and leaves; to be killed now would leave that to
    // init.
    if (gone) (void)wait_for_end(sandbox->launcher_handle, DEATH_MILLISECONDS);
    // If it left first: where orphans come to us, bury it; elsewhere init does.
    siginfo_t info;
    (void)waitid((idtype_t)P_PIDFD, (id_t)sandbox->first_handle, &info, WEXITED | WNOHANG);
    return gone;
}

/* Kills whatever is left, and reaps. *wait_status is the launcher's; 0 when somebody else reaped it. */
static bool end_all(struct mt_sandbox *sandbox, int *wait_status)
{
    *wait_status = 0;
    if (sandbox->launcher <= 0) return true;
    bool gone = end_sandbox(sandbox);
    // Its own session and group; without a sandbox that is all we can name.
    if (sandbox->options.without_sandbox) (void)kill(-sandbox->launcher, SIGKILL);
    (void)kill(sandbox->launcher, SIGKILL);
    pid_t reaped = waitpid(sandbox->launcher, wait_status, 0);
    while (reaped < 0 && errno == EINTR) reaped = waitpid(sandbox->launcher, wait_status, 0);
    if (reaped < 0) *wait_status = 0;
    sandbox->launcher = 0;
    return gone;
}

void mt_sandbox_stop(struct mt_sandbox *sandbox)
{
    if (!sandbox->running) return;
    int wait_status = 0;
    (void)end_all(sandbox, &wait_status);
    mt_sandbox_cgroup_end(&sandbox->cgroup);
    close_all(sandbox);
    sandbox->running = false;
}

// ------------------------------------------------------------------ how it went

/* Why bubblewrap could not do it is the first line of what it says; what helps depends on it. */
static enum mt_status cannot_start(struct mt_sandbox *sandbox)
{
    const char *reason = sandbox->result.tail[0] != '\0' ? sandbox->result.tail
                         : sandbox->proof_size > 0       ? "its memory and files cannot be counted"
                                                         : "it said nothing";
    const char *cure =
        "let plain users make user namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
        "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces above 0; in a "
        "container, one whose seccomp and AppArmor profiles allow them; in a chroot there are none";
    if (strstr(reason, "not found") != NULL) cure = "install it (Debian: bubblewrap, python3)";
    if (strstr(reason, "being root") != NULL)
        cure = "run as a plain user, or as a root that may become user 65534 (CAP_SETUID, CAP_SETGID)";
    if (strstr(reason, "execvp") != NULL)
        cure = "install python3, or name an interpreter under /usr: the sandbox has nothing else";
    if (strstr(reason, "cgroup") != NULL) cure = "a cgroup that nobody else changes meanwhile";
    if (strstr(reason, "nknown option") != NULL) cure = "bubblewrap 0.8 or newer is needed";
    sandbox->result.outcome = MT_SANDBOX_COULD_NOT_START;
    return mt_fail(
        sandbox->ctx, MT_ERR_UNSUPPORTED, "the sandbox for programs cannot start (%s): %.*s; what helps: %s",
        sandbox->options.without_sandbox ? sandbox->options.interpreter : sandbox->options.launcher,
        (int)strcspn(reason, "\n"), reason, cure);
}

/* The last line of standard error is where Python names the exception. */
static bool ends_with_exception(const struct mt_sandbox *sandbox, const char *name)
{
    const char *tail = sandbox->result.tail;
    size_t end = sandbox->tail_size;
    while (end > 0 && tail[end - 1] == '\n') end--;
    size_t start = end;
    while (start > 0 && tail[start - 1] != '\n') start--;
    return end - start >= strlen(name) && strncmp(tail + start, name, strlen(name)) == 0;
}

static bool is_proved(const struct mt_sandbox *sandbox)
{
    return sandbox->proof_size == 1 + MT_SANDBOX_PROOF_BYTES &&
           memcmp(sandbox->proof_given + 1, sandbox->proof_wanted, MT_SANDBOX_PROOF_BYTES) == 0;
}

static enum mt_sandbox_outcome judge(const struct mt_sandbox *sandbox)
{
    int exit_status = sandbox->result.exit_status;
    if (sandbox->output_size > sandbox->options.output) return MT_SANDBOX_TOO_MUCH_OUTPUT;
    if (exit_status == SIGNAL_BASE + SIGXCPU) return MT_SANDBOX_TIMED_OUT;
    if (exit_status > SIGNAL_BASE && exit_status <= SIGNAL_BASE + SIGRTMAX) return MT_SANDBOX_KILLED;
    if (exit_status != 0 && ends_with_exception(sandbox, "MemoryError")) return MT_SANDBOX_OUT_OF_MEMORY;
    bool passed = exit_status == 0 && sandbox->counted && is_proved(sandbox);
    return passed ? MT_SANDBOX_PASSED : MT_SANDBOX_FAILED;
}

static const char unfinished[] = "(the program left before its last line)\n";

/* Ends the program, if it has not ended by itself, for the reason `forced`; MT_SANDBOX_OUTCOMES: none. */
static enum mt_status finish(struct mt_sandbox *sandbox, enum mt_sandbox_outcome forced)
{
    int wait_status = 0;
    bool gone = end_all(sandbox, &wait_status);
    bool ran_out = mt_sandbox_cgroup_ran_out(&sandbox->cgroup);
    mt_sandbox_cgroup_end(&sandbox->cgroup);
    sandbox->result.seconds = sandbox->started ? mt_clock_seconds() - sandbox->began : 0;
    read_all(sandbox);
    close_all(sandbox);
    sandbox->running = false;
    mt_make_printable(sandbox->result.tail, sandbox->tail_size, true);
    if (!gone) {
        return mt_fail(sandbox->ctx, MT_ERR_IO, "a sandbox (process %ld) still runs %d s after it was killed",
                       (long)sandbox->first, DEATH_MILLISECONDS / 1000);
    }
    struct mt_sandbox_result *result = &sandbox->result;
    result->outcome = forced;
    result->exit_status = -1;
    if (forced == MT_SANDBOX_COULD_NOT_START) return cannot_start(sandbox);
    if (forced != MT_SANDBOX_OUTCOMES) return MT_OK;
    int status_shown =
        WIFSIGNALED(wait_status) ? SIGNAL_BASE + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    long reported_status = reported(sandbox, "\"exit-code\":");
    // What happens once the program was let go is its doing, whatever bubblewrap makes of it. Before,
    // bubblewrap reports a status only once the interpreter runs; who kills bubblewrap kills the program.
    bool judged = sandbox->options.without_sandbox ? status_shown != 127
                                                   : reported_status >= 0 || WIFSIGNALED(wait_status);
    if (!sandbox->started && !judged) return cannot_start(sandbox);
    result->exit_status = reported_status >= 0 ? (int)reported_status : status_shown;
    result->outcome = ran_out ? MT_SANDBOX_OUT_OF_MEMORY : judge(sandbox);
    if (result->outcome == MT_SANDBOX_FAILED && result->exit_status == 0)
        keep_tail(sandbox, unfinished, sizeof unfinished - 1);
    return MT_OK;
}

// ------------------------------------------------------------------ running

enum mt_status mt_sandbox_start(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                const char *program, size_t bytes, struct mt_sandbox *sandbox)
{
    memset(sandbox, 0, sizeof *sandbox);
    sandbox->ctx = ctx;
    sandbox->result.exit_status = -1;
    sandbox->result.outcome = MT_SANDBOX_COULD_NOT_START;
    enum mt_status status = check(ctx, options, bytes);
    if (status != MT_OK) return status;
    sandbox->options = *options;
    sandbox->launcher_handle = sandbox->first_handle = sandbox->status = sandbox->gate = sandbox->proof = -1;
    sandbox->output[0] = sandbox->output[1] = -1;
    for (int i = 0; i < MT_SANDBOX_VIEWS; i++) sandbox->views[i] = -1;
    sandbox->running = true;
    sandbox->began = mt_clock_seconds();
    status = mt_sandbox_launch(sandbox, program, bytes);
    if (status != MT_OK) mt_sandbox_stop(sandbox);
    return status;
}

/* Process 1 of the sandbox waits at the gate: name it, limit it, let it start the interpreter. */
static enum mt_status pass_gate(struct mt_sandbox *sandbox)
{
    if (sandbox->gate < 0) return MT_OK; // done
    name_first(sandbox);
    if (sandbox->first_handle < 0) return MT_OK; // not there yet, or dead already: bubblewrap will say why
    int error = mt_sandbox_limit_processes(sandbox->first, sandbox->options.processes);
    if (error != 0 && error != ESRCH)
        return mt_fail(sandbox->ctx, MT_ERR_UNSUPPORTED, "cannot limit the processes of a sandbox: %s",
                       strerror(error));
    (void)send(sandbox->gate, "", 1, MSG_NOSIGNAL);
    close_one(&sandbox->gate);
    return MT_OK;
}

static bool launcher_ended(const struct mt_sandbox *sandbox)
{
    struct pollfd wait = {.fd = sandbox->launcher_handle, .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

/* Takes a look at memory and files. *broken is the limit that is broken; MT_SANDBOX_OUTCOMES: none. */
static enum mt_status look(struct mt_sandbox *sandbox, enum mt_sandbox_outcome *broken)
{
    const struct mt_sandbox_options *options = &sandbox->options;
    bool contained = !options->without_sandbox;
    struct mt_sandbox_look seen = contained ? mt_sandbox_look_at(sandbox->views[MT_SANDBOX_VIEW_PROCESSES])
                                            : mt_sandbox_look_below(sandbox->launcher, options->processes);
    if (seen.error == EMFILE) // ours, and no program's doing
        return mt_fail(sandbox->ctx, MT_ERR_UNSUPPORTED, "cannot count a program's memory: %s",
                       strerror(seen.error));
    if (seen.memory > sandbox->result.peak_memory) sandbox->result.peak_memory = seen.memory;
    // Once may be a process between two states; twice is memory that nobody can count.
    bool hidden = seen.error != 0 && sandbox->blind;
    sandbox->blind = seen.error != 0;
    if (seen.memory > options->memory || hidden)
        *broken = MT_SANDBOX_OUT_OF_MEMORY;
    else if (contained && mt_sandbox_files_in(sandbox->views) > MAX_FILES)
        *broken = MT_SANDBOX_TOO_MANY_FILES;
    return MT_OK;
}

/* Opens the views, once. Not *visible: process 1 is on its way out, and bubblewrap will say why. */
static enum mt_status open_views(struct mt_sandbox *sandbox, bool *visible)
{
    *visible = sandbox->options.without_sandbox || sandbox->views[MT_SANDBOX_VIEWS - 1] >= 0;
    if (*visible || sandbox->first_handle < 0) return MT_OK;
    int error = mt_sandbox_open_views(sandbox->first, sandbox->views);
    // Its number may be another's once it has died: what was opened is its own if it lives now.
    *visible = error == 0 && !wait_for_end(sandbox->first_handle, 0);
    if (*visible) return MT_OK;
    for (int i = 0; i < MT_SANDBOX_VIEWS; i++) close_one(&sandbox->views[i]);
    if (error == 0 || wait_for_end(sandbox->first_handle, 0)) return MT_OK;
    return mt_fail(sandbox->ctx, MT_ERR_UNSUPPORTED, "cannot look into a sandbox from outside: %s",
                   strerror(error));
}

/*
 * The interpreter waits at its first line, so the sandbox is complete and nothing of the program has run. It
 * is let go when it can be counted and has been: a program that nobody counts never begins.
 */
static enum mt_status let_begin(struct mt_sandbox *sandbox, enum mt_sandbox_outcome *broken)
{
    if (sandbox->started || sandbox->proof_size == 0 || sandbox->proof < 0) return MT_OK;
    bool visible = false;
    enum mt_status status = open_views(sandbox, &visible);
    if (status != MT_OK || !visible) return status;
    status = look(sandbox, broken);
    if (sandbox->blind) *broken = MT_SANDBOX_OUTCOMES; // the next step looks again
    if (status != MT_OK || sandbox->blind || *broken != MT_SANDBOX_OUTCOMES) return status;
    if (send(sandbox->proof, "", 1, MSG_NOSIGNAL) != 1) return MT_OK; // it has died
    sandbox->started = true;
    sandbox->began = sandbox->watched = mt_clock_seconds();
    return MT_OK;
}

/* Which limit is broken; MT_SANDBOX_OUTCOMES: none. */
static enum mt_status check_limits(struct mt_sandbox *sandbox, enum mt_sandbox_outcome *broken)
{
    double now = mt_clock_seconds();
    double took = now - sandbox->began;
    if (!sandbox->started) {
        if (took > SETUP_SECONDS) *broken = MT_SANDBOX_COULD_NOT_START;
        return MT_OK;
    }
    if (sandbox->output_size > sandbox->options.output)
        *broken = MT_SANDBOX_TOO_MUCH_OUTPUT;
    else if (took > sandbox->options.seconds)
        *broken = MT_SANDBOX_TIMED_OUT;
    if (*broken != MT_SANDBOX_OUTCOMES || now - sandbox->watched < MT_SANDBOX_WATCH_SECONDS) return MT_OK;
    sandbox->watched = now;
    return look(sandbox, broken);
}

/* Looks at a program that another has judged, and ends it if a limit is broken. */
static enum mt_status look_at_judged(struct mt_sandbox *sandbox)
{
    if (sandbox == NULL || !sandbox->running || !sandbox->started) return MT_OK;
    enum mt_sandbox_outcome broken = MT_SANDBOX_OUTCOMES;
    enum mt_status status = look(sandbox, &broken);
    return status == MT_OK && broken != MT_SANDBOX_OUTCOMES ? finish(sandbox, broken) : status;
}

/* The last look at it, or at the one it judges, failed. */
static bool is_blind(const struct mt_sandbox *sandbox)
{
    const struct mt_sandbox *judged = sandbox->judged;
    return sandbox->blind || (judged != NULL && judged->running && judged->blind);
}

/*
 * The last line waits for a last look: however short a program was, what it holds at its end has been counted
 * when it is said to have passed.
 */
static enum mt_status let_end(struct mt_sandbox *sandbox, enum mt_sandbox_outcome *broken)
{
    // Where a look failed, the next regular one decides.
    if (!sandbox->started || sandbox->counted || !is_proved(sandbox) || is_blind(sandbox)) return MT_OK;
    enum mt_status status = look(sandbox, broken);
    if (status == MT_OK) status = look_at_judged(sandbox->judged);
    if (status != MT_OK || is_blind(sandbox) || *broken != MT_SANDBOX_OUTCOMES) return status;
    sandbox->counted = true;
    (void)shutdown(sandbox->proof, SHUT_WR);
    return MT_OK;
}

enum mt_status mt_sandbox_step(struct mt_sandbox *sandbox)
{
    if (!sandbox->running) return MT_OK;
    bool ended = launcher_ended(sandbox); // before reading: what it wrote is then there to be read
    read_all(sandbox);
    enum mt_status status = MT_OK;
    enum mt_sandbox_outcome broken = MT_SANDBOX_OUTCOMES;
    if (!ended) status = pass_gate(sandbox);
    if (!ended && status == MT_OK) status = let_begin(sandbox, &broken);
    if (!ended && status == MT_OK && broken == MT_SANDBOX_OUTCOMES) status = check_limits(sandbox, &broken);
    if (!ended && status == MT_OK && broken == MT_SANDBOX_OUTCOMES) status = let_end(sandbox, &broken);
    if (status != MT_OK) {
        mt_sandbox_stop(sandbox);
        return status;
    }
    if (!ended && broken == MT_SANDBOX_OUTCOMES) return MT_OK;
    return finish(sandbox, broken);
}

int mt_sandbox_descriptors(const struct mt_sandbox *sandbox, struct pollfd waits[MT_SANDBOX_DESCRIPTORS])
{
    const int descriptors[MT_SANDBOX_DESCRIPTORS] = {sandbox->launcher_handle, sandbox->output[0],
                                                     sandbox->output[1], sandbox->status, sandbox->proof};
    int count = 0;
    for (int i = 0; sandbox->running && i < MT_SANDBOX_DESCRIPTORS; i++) {
        if (descriptors[i] >= 0) waits[count++] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
    }
    return count;
}

enum mt_status mt_sandbox_run(struct mt_context *ctx, const struct mt_sandbox_options *options,
                              const char *program, size_t bytes, struct mt_sandbox_result *result)
{
    struct mt_sandbox sandbox;
    enum mt_status status = mt_sandbox_start(ctx, options, program, bytes, &sandbox);
    while (status == MT_OK && sandbox.running) {
        struct pollfd waits[MT_SANDBOX_DESCRIPTORS];
        int count = mt_sandbox_descriptors(&sandbox, waits);
        (void)poll(waits, (nfds_t)count, (int)(MT_SANDBOX_WATCH_SECONDS * 1000));
        status = mt_sandbox_step(&sandbox);
    }
    *result = sandbox.result;
    return status;
}
