/*
 * Runs a Python program nobody trusts, and says how it ended.
 *
 * The program runs under bubblewrap: own user, process, network, IPC, host name and mount namespaces; a
 * read-only system, a private /tmp of bounded size, no home, no environment, no capabilities, a system call
 * filter; limits on time, memory, processes, output and files. When it is over, every process it started is
 * dead. docs/sandbox.md has the threat model.
 *
 * "Passed" means that the program reached its last line, was within its limits there, and its interpreter
 * then left with status 0: a program that ends itself early with status 0 has failed.
 *
 * Any number of programs can run side by side in one thread: start them, wait for them together, step each.
 * Nothing is allocated, and no temporary file exists at any time.
 */
#ifndef MT_EVAL_SANDBOX_H
#define MT_EVAL_SANDBOX_H

#include <poll.h>
#include <stddef.h>

#include "eval/code/sandbox_cgroup.h"
#include "eval/code/sandbox_watch.h"
#include "metier/context.h"

#define MT_SANDBOX_TAIL_BYTES    4096       // of standard error that are kept, with the NUL
#define MT_SANDBOX_PROOF_BYTES   32         // what the last line writes; hexadecimal digits
#define MT_SANDBOX_STATUS_BYTES  1024       // of what bubblewrap says about the sandbox
#define MT_SANDBOX_WATCH_SECONDS 0.02       // how often memory and time are looked at
#define MT_SANDBOX_MAX_PROGRAM   (64 << 20) // bytes of a program

/* A limit of 0 is refused: nothing runs unlimited. mt_sandbox_defaults fills all of them. */
struct mt_sandbox_options {
    double seconds;          // from the program's start to its end
    int64_t cpu_seconds;     // of each process
    uint64_t memory;         // bytes: address space of each process, resident memory of all together
    int64_t processes;       // and threads, at the same time
    uint64_t output;         // bytes on standard output and standard error together
    uint64_t files;          // bytes in each of /tmp and /dev/shm, and in one file
    const char *interpreter; // looked for in /usr/bin and /bin, or an absolute path under /usr; borrowed
    const char *launcher;    // bubblewrap; borrowed
    bool without_sandbox;    // no bubblewrap: limits per process, and nothing is contained
    int talk;                // a socket that becomes the program's descriptor 8; borrowed; 0: none
    struct mt_sandbox_cgroups *cgroups; // where programs get theirs; borrowed; NULL: they get none
};

enum mt_sandbox_outcome {
    MT_SANDBOX_PASSED,
    MT_SANDBOX_FAILED, // an exception, another exit status, or an end before the last line
    MT_SANDBOX_TIMED_OUT,
    MT_SANDBOX_OUT_OF_MEMORY,
    MT_SANDBOX_TOO_MUCH_OUTPUT,
    MT_SANDBOX_TOO_MANY_FILES,
    MT_SANDBOX_KILLED,          // by a signal of its own
    MT_SANDBOX_COULD_NOT_START, // the sandbox, not the program, failed
    MT_SANDBOX_OUTCOMES
};

struct mt_sandbox_result {
    enum mt_sandbox_outcome outcome;
    int exit_status;                  // of the interpreter; 128 + signal when one killed it; -1: we ended it
    double seconds;                   // from the program's start to its end
    uint64_t peak_memory;             // bytes resident, of all processes together; 0: ended before a look
    char tail[MT_SANDBOX_TAIL_BYTES]; // the end of standard error, NUL-terminated
};

/* A program on its way. Zeroed, or made by mt_sandbox_start. The fields are not for the caller. */
struct mt_sandbox {
    struct mt_context *ctx;            // borrowed
    struct mt_sandbox_options options; // what the texts in it point to is borrowed
    struct mt_sandbox_result result;
    bool running;
    bool started;        // the program was let go: it is counted, and so is its time
    bool counted;        // at its last line, too
    bool blind;          // the last look could not see everything
    double began;        // clock, when it was launched, then when it was let go
    double watched;      // clock, when its memory was last looked at
    pid_t launcher;      // bubblewrap, or the interpreter without it; our child
    pid_t first;         // process 1 of the sandbox; 0: none
    int launcher_handle; // descriptors from here on; -1: closed
    int first_handle;    // process 1, by a name that cannot be given to another
    int output[2];       // standard output, standard error
    int status;          // what bubblewrap says
    int gate;            // a byte here lets bubblewrap start the interpreter
    int proof; // a socket: what the first line and the last line write; a byte back lets the program begin
    int views[MT_SANDBOX_VIEWS];
    struct mt_sandbox *judged; // is looked at, too, before this one may end; borrowed; NULL: none
    struct mt_sandbox_cgroup cgroup;
    uint64_t output_size; // bytes read so far
    size_t tail_size;
    char proof_wanted[MT_SANDBOX_PROOF_BYTES + 1];
    char proof_given[MT_SANDBOX_PROOF_BYTES + 2]; // the mark of the start, the proof, one byte too many
    size_t proof_size;
    char status_text[MT_SANDBOX_STATUS_BYTES];
    size_t status_size;
};

#define MT_SANDBOX_DESCRIPTORS 5 // a running program has at the most

/* "passed", "timed out", ...; lives forever. */
const char *mt_sandbox_outcome_name(enum mt_sandbox_outcome outcome);

/* 10 seconds, 1 GiB, 32 processes, 1 MiB of output, 64 MiB of files, python3, bwrap. */
struct mt_sandbox_options mt_sandbox_defaults(void);

/*
 * For a program's main, once: orphans below this process come to it and not to init, so that a sandbox's dead
 * process 1, which bubblewrap leaves behind when a program ends by itself, is buried here and at once.
 */
void mt_sandbox_adopt_orphans(void);

/*
 * Runs one program to its end. A sandbox that cannot be set up is MT_ERR_UNSUPPORTED, with the reason and the
 * cure, and the outcome says so; a program that fails is a result, not an error.
 */
enum mt_status mt_sandbox_run(struct mt_context *ctx, const struct mt_sandbox_options *options,
                              const char *program, size_t bytes, struct mt_sandbox_result *result);

/* Starts a program in a caller-owned struct; the text is not needed afterwards. End with step or stop. */
enum mt_status mt_sandbox_start(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                const char *program, size_t bytes, struct mt_sandbox *sandbox);

/* What to wait for; returns how many. Wait no longer than MT_SANDBOX_WATCH_SECONDS. */
int mt_sandbox_descriptors(const struct mt_sandbox *sandbox, struct pollfd waits[MT_SANDBOX_DESCRIPTORS]);

/* Reads what there is, enforces the limits; once sandbox->running is false, sandbox->result is complete. */
enum mt_status mt_sandbox_step(struct mt_sandbox *sandbox);

/* Ends a program that still runs; a zeroed or finished one is allowed. */
void mt_sandbox_stop(struct mt_sandbox *sandbox);

// ------------------------------------------------------------------ between the files of the sandbox

/* Opens what is needed and starts bubblewrap, or the interpreter without it. The caller closes what is open.
 */
enum mt_status mt_sandbox_launch(struct mt_sandbox *sandbox, const char *program, size_t bytes);

/* Limits what process 1 of a sandbox and all after it may start. 0, or the error number. */
int mt_sandbox_limit_processes(pid_t first, int64_t processes);

/* Writes the system call filter, as bubblewrap wants it, into a file. 0, or the error number. */
int mt_sandbox_write_filter(int descriptor);

/* Writes all of it. 0, or the error number. */
int mt_sandbox_write_whole(int descriptor, const void *data, size_t bytes);

#endif
