/*
 * The sandbox: hostile programs are contained and everything of theirs is gone afterwards; limits, proofs,
 * refusals; many at a time; every allocation failing. Skipped, with the reason, where there can be no
 * sandbox.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/hostile_programs.h"
#include "support/sandbox_bench.h"
#include "support/workplace.h"

#define CANARY_TEXT "a canary\n"
#define MANY        24

static struct mt_sandbox_result run(const struct mt_sandbox_options *options, const char *program)
{
    struct mt_context ctx;
    struct mt_sandbox_result result;
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_sandbox_run(&ctx, options, program, strlen(program), &result);
    if (status != MT_OK) print_error("%s\n", ctx.message);
    assert_int_equal(status, MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
    return result;
}

static void nap(void)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    (void)nanosleep(&moment, NULL);
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

/* The process namespace of a process, as text; "" when it is gone. */
static void namespace_of(const char *process, char text[64])
{
    char path[300];
    (void)snprintf(path, sizeof path, "/proc/%s/ns/pid", process);
    ssize_t length = readlink(path, text, 63);
    text[length > 0 ? length : 0] = '\0';
}

/* Processes of a namespace. */
static int members(const char *space)
{
    int count = 0;
    DIR *listing = opendir("/proc");
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        char text[64];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
        namespace_of(entry->d_name, text);
        if (strcmp(text, space) == 0) count++;
    }
    (void)closedir(listing);
    return count;
}

// ------------------------------------------------------------------ the hostile suite

struct suite {
    const struct mt_hostile_case *cases[2]; // what an installed metier tries, and more
    size_t count[2];
    struct mt_hostile_setting setting;
    struct mt_sandbox_options options;
    int contained;
    int escaped;
};

static const struct mt_hostile_case *case_at(const struct suite *suite, size_t index)
{
    return index < suite->count[0] ? &suite->cases[0][index] : &suite->cases[1][index - suite->count[0]];
}

static enum mt_status suite_program(void *self, size_t index, struct mt_byte_list *text,
                                    struct mt_sandbox_options *options)
{
    const struct suite *suite = self;
    mt_hostile_limit(case_at(suite, index), options);
    return mt_hostile_program(case_at(suite, index), &suite->setting, text);
}

static enum mt_status suite_done(void *self, size_t index, const struct mt_sandbox_result *result)
{
    struct suite *suite = self;
    bool contained = mt_hostile_contained(case_at(suite, index), result);
    if (contained) suite->contained++;
    if (!contained) {
        suite->escaped++;
        print_error("%s: %s, exit status %d, after %.2f s\n%s\n", case_at(suite, index)->name,
                    mt_sandbox_outcome_name(result->outcome), result->exit_status, result->seconds,
                    result->tail);
    }
    return MT_OK;
}

/* A door of ours on the loopback device; the programs do not know its number but are free to try. */
static int open_door(void)
{
    int door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); // deliberately not close-on-exec
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(door >= 0);
    assert_int_equal(bind(door, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(door, 4), 0);
    return door;
}

static void test_hostile_suite(void **state)
{
    const struct workplace *place = *state;
    char canary[300];
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(workplace_write(place, "canary", CANARY_TEXT, strlen(CANARY_TEXT)), 0);
    (void)workplace_path(place, "canary", canary, sizeof canary);
    assert_int_equal(chmod(place->directory, 0777), 0); // the sandbox must protect it, not its permissions
    assert_int_equal(chmod(canary, 0666), 0);
    assert_int_equal(setenv("METIER_SECRET", "a secret", 1), 0);
    int door = open_door();
    int descriptors = open_descriptors();
    struct suite suite = {.options = mt_hostile_options(),
                          .setting = {.canary = canary, .home = place->directory}};
    suite.cases[0] = mt_hostile_cases(&suite.count[0]);
    suite.cases[1] = hostile_programs(&suite.count[1]);
    size_t count = suite.count[0] + suite.count[1];
    const struct mt_sandbox_batch batch = {
        .count = count, .at_once = 8, .self = &suite, .program = suite_program, .done = suite_done};
    enum mt_status status = mt_sandbox_run_many(&ctx, &suite.options, &batch);
    if (status != MT_OK) print_error("%s\n", ctx.message);
    assert_int_equal(status, MT_OK);
    assert_int_equal(suite.escaped, 0);
    assert_int_equal(suite.contained, count);

    assert_int_equal(ctx.live_bytes, 0);
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(workplace_entries(place), 1);
    char text[64] = "";
    FILE *file = fopen(canary, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    assert_string_equal(text, CANARY_TEXT);
    assert_int_equal(accept(door, NULL, NULL), -1);
    (void)close(door);
    // No child of ours is left, not even a dead one.
    assert_true(sandbox_no_child_is_left());
    assert_int_equal(errno, ECHILD);
}

// ------------------------------------------------------------------ nothing left

static const char many_processes[] = "import os, time\n"
                                     "for i in range(3): os.fork()\n"
                                     "os.setsid() if os.getpid() > 3 else None\n"
                                     "time.sleep(1000)\n";

/* Steps until the sandbox has so many processes, or its time is over. */
static void grow(struct mt_sandbox *sandbox, int processes, char space[64])
{
    int count = 0;
    while (sandbox->running && count < processes) {
        assert_int_equal(mt_sandbox_step(sandbox), MT_OK);
        if (sandbox->first == 0) continue;
        char process[32];
        (void)snprintf(process, sizeof process, "%ld", (long)sandbox->first);
        namespace_of(process, space);
        count = space[0] == '\0' ? 0 : members(space);
        nap();
    }
    assert_true(sandbox->running);
    assert_true(count >= processes);
}

static void test_time_limit_leaves_nothing(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_sandbox sandbox;
    char space[64] = "";
    mt_context_init(&ctx, NULL);
    struct mt_sandbox_options options = sandbox_patient_options();
    assert_int_equal(mt_sandbox_start(&ctx, &options, many_processes, strlen(many_processes), &sandbox),
                     MT_OK);
    grow(&sandbox, 9, space);
    sandbox.options.seconds = 1e-9;
    assert_int_equal(mt_sandbox_step(&sandbox), MT_OK);
    assert_false(sandbox.running);
    assert_int_equal(sandbox.result.outcome, MT_SANDBOX_TIMED_OUT);
    assert_int_equal(members(space), 0);
}

static void test_stop_leaves_nothing(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_sandbox sandbox = {0};
    char space[64] = "";
    mt_context_init(&ctx, NULL);
    mt_sandbox_stop(&sandbox);
    int descriptors = open_descriptors();
    struct mt_sandbox_options options = sandbox_patient_options();
    assert_int_equal(mt_sandbox_start(&ctx, &options, many_processes, strlen(many_processes), &sandbox),
                     MT_OK);
    grow(&sandbox, 9, space);
    mt_sandbox_stop(&sandbox);
    mt_sandbox_stop(&sandbox);
    assert_false(sandbox.running);
    assert_int_equal(members(space), 0);
    assert_int_equal(open_descriptors(), descriptors);
}

/* A program that ends by itself, too; its process 1 is an orphan then. */
static void test_normal_end_leaves_nothing(void **state)
{
    (void)state;
    static const char program[] = "import os, time\n"
                                  "for i in range(4):\n"
                                  "    if os.fork() == 0: time.sleep(1000)\n"
                                  "os.read(8, 1)\n";
    struct mt_context ctx;
    struct mt_sandbox sandbox;
    char space[64] = "";
    mt_context_init(&ctx, NULL);
    int talk = sandbox_start_talking(&ctx, sandbox_patient_options(), program, &sandbox);
    grow(&sandbox, 6, space);
    assert_int_equal(write(talk, "x", 1), 1);
    (void)close(talk);
    while (sandbox.running) assert_int_equal(mt_sandbox_step(&sandbox), MT_OK);
    assert_int_equal(sandbox.result.outcome, MT_SANDBOX_PASSED);
    assert_int_equal(members(space), 0); // the dead count, too
}

/* A metier that dies takes its programs along. */
static void test_death_of_the_parent(void **state)
{
    (void)state;
    int channel[2];
    char space[64] = "";
    assert_int_equal(pipe(channel), 0);
    pid_t middle = fork();
    assert_true(middle >= 0);
    if (middle == 0) {
        struct mt_context ctx;
        struct mt_sandbox sandbox;
        mt_context_init(&ctx, NULL);
        struct mt_sandbox_options options = sandbox_patient_options();
        if (mt_sandbox_start(&ctx, &options, many_processes, strlen(many_processes), &sandbox) != MT_OK)
            _exit(1);
        grow(&sandbox, 9, space);
        bool told = write(channel[1], space, sizeof space) == (ssize_t)sizeof space;
        _exit(told ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(middle, &status, 0), middle);
    assert_int_equal(status, 0);
    assert_int_equal(read(channel[0], space, sizeof space), sizeof space);
    (void)close(channel[0]);
    (void)close(channel[1]);
    for (int i = 0; i < 100 * SANDBOX_PATIENCE && members(space) > 0; i++) {
        (void)waitpid(-1, NULL, WNOHANG); // orphans of the one that died are ours now
        nap();
    }
    assert_true(sandbox_no_child_is_left());
    assert_int_equal(members(space), 0);
}

// ------------------------------------------------------------------ results and limits

static void test_results(void **state)
{
    (void)state;
    struct mt_sandbox_options options = sandbox_patient_options();
    struct mt_sandbox_result result = run(&options, "");
    assert_int_equal(result.outcome, MT_SANDBOX_PASSED);
    assert_int_equal(result.exit_status, 0);
    assert_true(result.seconds > 0 && result.peak_memory > 0); // looked at, however short it was
    assert_string_equal(result.tail, "");
    result = run(&options, "raise SystemExit(5)");
    assert_int_equal(result.outcome, MT_SANDBOX_FAILED);
    assert_int_equal(result.exit_status, 5);
    result = run(&options, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)");
    assert_int_equal(result.outcome, MT_SANDBOX_KILLED);
    assert_int_equal(result.exit_status, 128 + SIGSEGV);
    // The last bytes are kept, not the first.
    result =
        run(&options, "import sys\nfor i in range(5000): print(i, file=sys.stderr)\nraise ValueError('end')");
    assert_int_equal(result.outcome, MT_SANDBOX_FAILED);
    assert_int_equal(strlen(result.tail), MT_SANDBOX_TAIL_BYTES - 1);
    assert_non_null(strstr(result.tail, "4999\n"));
    assert_null(strstr(result.tail, "\n1000\n"));
    assert_non_null(strstr(result.tail, "ValueError: end\n"));
    // A text that is open at the end does not swallow the last line and pass.
    result = run(&options, "x = '''\n");
    assert_int_equal(result.outcome, MT_SANDBOX_FAILED);
    result = run(&options, "x = 1 \\");
    assert_int_equal(result.outcome, MT_SANDBOX_FAILED);
    // Sets of texts have the same order every time.
    result =
        run(&options,
            "assert hash('metier') == hash('metier') and __import__('sys').flags.hash_randomization == 0");
    assert_int_equal(result.outcome, MT_SANDBOX_PASSED);
}

/* Runs a program that waits for a byte, which comes when so much of its memory was seen. */
static struct mt_sandbox_result run_until_seen(struct mt_sandbox_options options, const char *program,
                                               uint64_t memory)
{
    struct mt_context ctx;
    struct mt_sandbox sandbox;
    mt_context_init(&ctx, NULL);
    int talk = sandbox_start_talking(&ctx, options, program, &sandbox);
    assert_true(talk >= 0);
    while (sandbox.running && sandbox.result.peak_memory <= memory)
        assert_int_equal(sandbox_wait_and_step(&sandbox), MT_OK);
    assert_int_equal(send(talk, "x", 1, MSG_NOSIGNAL), 1);
    while (sandbox.running) assert_int_equal(sandbox_wait_and_step(&sandbox), MT_OK);
    (void)close(talk);
    return sandbox.result;
}

static void test_limits_are_those_given(void **state)
{
    (void)state;
    struct mt_sandbox_options options = sandbox_patient_options();
    options.output = 1000;
    struct mt_sandbox_result result = run(&options, "print('x' * 999)");
    assert_int_equal(result.outcome, MT_SANDBOX_PASSED);
    result = run(&options, "print('x' * 1000)"); // and the end of the line
    assert_int_equal(result.outcome, MT_SANDBOX_TOO_MUCH_OUTPUT);
    options = sandbox_patient_options();
    options.memory = 256 << 20;
    result = run_until_seen(options, "import os\nx = bytearray(100 << 20)\nos.read(8, 1)", 100 << 20);
    assert_int_equal(result.outcome, MT_SANDBOX_PASSED);
    assert_true(result.peak_memory > (100 << 20) && result.peak_memory < (130 << 20));
    result = run(&options, "x = bytearray(260 << 20)");
    assert_int_equal(result.outcome, MT_SANDBOX_OUT_OF_MEMORY);
    options = sandbox_patient_options();
    options.processes = 4; // one is process 1 of the sandbox, one the program
    result = run(&options, "import os, time\nfor i in range(2):\n    if os.fork() == 0: time.sleep(100)");
    assert_int_equal(result.outcome, MT_SANDBOX_PASSED);
    result = run(&options, "import os, time\nfor i in range(3):\n    if os.fork() == 0: time.sleep(100)");
    assert_int_equal(result.outcome, MT_SANDBOX_FAILED);
    options = sandbox_patient_options();
    options.files = 1 << 20;
    result = run(&options, "open('/tmp/x', 'wb').write(bytes(900 << 10))");
    assert_int_equal(result.outcome, MT_SANDBOX_PASSED);
    result = run(&options, "open('/tmp/x', 'wb').write(bytes(1100 << 10))");
    assert_int_equal(result.outcome, MT_SANDBOX_FAILED);
    options = sandbox_patient_options();
    options.seconds = 0.3;
    result = run(&options, "import time\ntime.sleep(100)");
    assert_int_equal(result.outcome, MT_SANDBOX_TIMED_OUT);
    assert_int_equal(result.exit_status, -1);
    assert_true(result.seconds >= 0.3);
}

static void refuse(struct mt_sandbox_options options, enum mt_status expected, const char *words)
{
    struct mt_context ctx;
    struct mt_sandbox_result result;
    mt_context_init(&ctx, NULL);
    int descriptors = open_descriptors();
    assert_int_equal(mt_sandbox_run(&ctx, &options, "", 0, &result), expected);
    assert_int_equal(result.outcome, MT_SANDBOX_COULD_NOT_START);
    if (strstr(ctx.message, words) == NULL) print_error("'%s' lacks '%s'\n", ctx.message, words);
    assert_non_null(strstr(ctx.message, words));
    assert_int_equal(open_descriptors(), descriptors);
    assert_true(sandbox_no_child_is_left());
}

static void test_refusals(void **state)
{
    (void)state;
    const struct mt_sandbox_options good = mt_sandbox_defaults();
    struct mt_sandbox_options bad = good;
    bad.seconds = 0;
    refuse(bad, MT_ERR_USAGE, "seconds");
    bad = good;
    bad.cpu_seconds = 0;
    refuse(bad, MT_ERR_USAGE, "processor seconds");
    bad = good;
    bad.memory = 0;
    refuse(bad, MT_ERR_USAGE, "memory");
    bad = good;
    bad.processes = 1;
    refuse(bad, MT_ERR_USAGE, "processes");
    bad = good;
    bad.output = 0;
    refuse(bad, MT_ERR_USAGE, "output");
    bad = good;
    bad.files = 0;
    refuse(bad, MT_ERR_USAGE, "files");
    bad = good;
    bad.interpreter = NULL;
    refuse(bad, MT_ERR_USAGE, "no name");
    bad = good;
    bad.launcher = "/nonexistent/bwrap";
    refuse(bad, MT_ERR_UNSUPPORTED, "install it");
    bad = good;
    bad.launcher = "/bin/false";
    refuse(bad, MT_ERR_UNSUPPORTED, "it said nothing");
    bad = good;
    bad.interpreter = "python-of-nobody";
    refuse(bad, MT_ERR_UNSUPPORTED, "an interpreter under /usr");
}

/* A stand-in for bubblewrap, as a script; `path` is where it lies. */
static void write_launcher(const struct workplace *place, const char *script, char path[300])
{
    assert_int_equal(workplace_write(place, "launcher", script, strlen(script)), 0);
    (void)workplace_path(place, "launcher", path, 300);
    assert_int_equal(chmod(place->directory, 0755), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

/* Whatever a program was, bubblewrap reports a failure of its own; `first` is what happens before that. */
static enum mt_status run_reporting(const struct workplace *place, const char *first, struct mt_context *ctx,
                                    struct mt_sandbox_result *result)
{
    char script[512];
    char path[300];
    struct mt_sandbox_options options = sandbox_patient_options();
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\n%s\nprintf '\\033]0;title\\007run this as root\\n' >&2\n"
                   "printf '{ \"exit-code\": -2 }\\n' >&5\nexit 254\n",
                   first);
    write_launcher(place, script, path);
    options.launcher = path;
    mt_context_init(ctx, NULL);
    return mt_sandbox_run(ctx, &options, "", 0, result);
}

/* On a busy machine bubblewrap has its child for seconds before it tells the number. */
static void test_stop_before_the_child_is_known(void **state)
{
    static const char slow[] = "#!/bin/sh\nsleep 1000 &\nchild=$!\necho forked >&2\nsleep 1\n"
                               "echo \"{ \\\"child-pid\\\": $child }\" >&5\nwait\n";
    struct mt_context ctx;
    struct mt_sandbox sandbox;
    char path[300];
    struct mt_sandbox_options options = sandbox_patient_options();
    write_launcher(*state, slow, path);
    options.launcher = path;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_sandbox_start(&ctx, &options, "", 0, &sandbox), MT_OK);
    struct pollfd forked = {.fd = sandbox.output[1], .events = POLLIN};
    assert_int_equal(poll(&forked, 1, SANDBOX_PATIENCE * 1000), 1);
    mt_sandbox_stop(&sandbox);
    assert_true(sandbox_no_child_is_left());
}

/* Whatever process 1 was made to report: once the program has begun, that is how the program ended. */
static void test_reports_after_the_start(void **state)
{
    struct mt_context ctx;
    struct mt_sandbox_result result;
    static const char runs[] = "bwrap \"$@\" 5>&1 >/dev/null | grep --line-buffered child-pid >&5";
    assert_int_equal(run_reporting(*state, runs, &ctx, &result), MT_OK);
    assert_int_equal(result.outcome, MT_SANDBOX_FAILED);
    assert_string_equal(result.tail, "?]0;title?run this as root\n");
    // A mark alone is not the beginning: that is when a program has been counted and let go.
    static const char *const before[] = {":", "printf + >&7"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_reporting(*state, before[i], &ctx, &result), MT_ERR_UNSUPPORTED);
        assert_int_equal(result.outcome, MT_SANDBOX_COULD_NOT_START);
        assert_non_null(strstr(ctx.message, "?]0;title?run this as root"));
    }
}

static void test_without_sandbox_only_by_name(void **state)
{
    (void)state;
    struct mt_sandbox_options options = sandbox_patient_options();
    options.launcher = "/nonexistent/bwrap";
    options.without_sandbox = true;
    assert_int_equal(run(&options, "assert True").outcome, MT_SANDBOX_PASSED);
    assert_int_equal(run(&options, "assert False").outcome, MT_SANDBOX_FAILED);
    assert_int_equal(run(&options, "import os\nos._exit(0)").outcome, MT_SANDBOX_FAILED);
    assert_int_equal(run(&options, "x = bytearray(1 << 31)").outcome, MT_SANDBOX_OUT_OF_MEMORY);
    options.seconds = 0.3;
    assert_int_equal(run(&options, "import os\nos.fork()\nwhile True: pass").outcome, MT_SANDBOX_TIMED_OUT);
    while (waitpid(-1, NULL, 0) > 0) continue; // nobody buries its child without a sandbox but we
    options.interpreter = "/nonexistent/python3";
    refuse(options, MT_ERR_UNSUPPORTED, "install it");
}

// ------------------------------------------------------------------ many

struct many {
    size_t count;
    size_t stop_at;       // this result is a failure of the caller's
    const char *launcher; // NULL: bubblewrap
    size_t ended;
    bool seen[MANY];
};

static enum mt_status many_program(void *self, size_t index, struct mt_byte_list *text,
                                   struct mt_sandbox_options *options)
{
    (void)self;
    (void)options;
    char program[64];
    (void)snprintf(program, sizeof program, "raise SystemExit(%zu)", index);
    return mt_byte_list_append_text(text, program);
}

static enum mt_status many_done(void *self, size_t index, const struct mt_sandbox_result *result)
{
    struct many *many = self;
    assert_true(index < MANY && !many->seen[index]);
    assert_int_equal(result->exit_status, index);
    many->seen[index] = true;
    many->ended++;
    return index == many->stop_at ? MT_ERR_INTERNAL : MT_OK;
}

static enum mt_status run_some(struct mt_context *ctx, const void *self)
{
    struct many many = *(const struct many *)self;
    struct mt_sandbox_options options = sandbox_patient_options();
    if (many.launcher != NULL) options.launcher = many.launcher;
    const struct mt_sandbox_batch batch = {
        .count = many.count, .at_once = 8, .self = &many, .program = many_program, .done = many_done};
    enum mt_status status = mt_sandbox_run_many(ctx, &options, &batch);
    if (status == MT_OK) assert_int_equal(many.ended, many.count);
    return status;
}

static void test_many_at_a_time(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    int descriptors = open_descriptors();
    struct many many = {.count = MANY, .stop_at = MANY};
    assert_int_equal(run_some(&ctx, &many), MT_OK);
    many.count = 0;
    assert_int_equal(run_some(&ctx, &many), MT_OK);
    // A caller that gives up ends those that are on their way.
    many = (struct many){.count = MANY, .stop_at = 2};
    assert_int_equal(run_some(&ctx, &many), MT_ERR_INTERNAL);
    assert_int_equal(ctx.live_bytes, 0);
    assert_int_equal(open_descriptors(), descriptors);
    assert_true(sandbox_no_child_is_left());
}

/* With too few descriptors for so many at a time, fewer run at a time. */
static void test_few_descriptors(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct rlimit before;
    mt_context_init(&ctx, NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {.rlim_cur = 120, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const struct many many = {.count = MANY, .stop_at = MANY};
    enum mt_status status = run_some(&ctx, &many);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (status != MT_OK) fail_msg("%s", ctx.message);
}

/* A sandbox that fails for a moment is tried again, one that goes on failing is not for long. */
static void test_failing_starts_are_repeated(void **state)
{
    const struct workplace *place = *state;
    char path[300];
    char script[600];
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\nfor i in 1 2 3; do\n"
                   "    (set -C; : >%s/$i) 2>/dev/null && { echo 'short of something' >&2; exit 1; }\ndone\n"
                   "exec bwrap \"$@\"\n",
                   place->directory);
    write_launcher(place, script, path);
    assert_int_equal(chmod(place->directory, 0777), 0); // the launcher is nobody
    struct many many = {.count = 3, .stop_at = MANY, .launcher = path};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    enum mt_status status = run_some(&ctx, &many);
    if (status != MT_OK) print_error("%s\n", ctx.message);
    assert_int_equal(status, MT_OK);
    assert_int_equal(workplace_entries(place), 1 + 3); // the launcher, and what its failures left

    write_launcher(place, "#!/bin/sh\necho 'never again' >&2\nexit 1\n", path);
    assert_int_equal(run_some(&ctx, &many), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "never again"));
    assert_int_equal(ctx.live_bytes, 0);
    assert_true(sandbox_no_child_is_left());
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    const struct many many = {.count = 2, .stop_at = MANY};
    assert_every_allocation_may_fail(run_some, &many, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hostile_suite, workplace_open, workplace_close),
        cmocka_unit_test(test_time_limit_leaves_nothing),
        cmocka_unit_test(test_stop_leaves_nothing),
        cmocka_unit_test_setup_teardown(test_stop_before_the_child_is_known, workplace_open, workplace_close),
        cmocka_unit_test(test_normal_end_leaves_nothing),
        cmocka_unit_test(test_death_of_the_parent),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_limits_are_those_given),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test_setup_teardown(test_reports_after_the_start, workplace_open, workplace_close),
        cmocka_unit_test(test_without_sandbox_only_by_name),
        cmocka_unit_test(test_many_at_a_time),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test_setup_teardown(test_failing_starts_are_repeated, workplace_open, workplace_close),
        cmocka_unit_test(test_every_allocation_failing),
    };
    struct mt_context ctx;
    struct mt_sandbox_result result;
    mt_context_init(&ctx, NULL);
    mt_sandbox_adopt_orphans();
    const struct mt_sandbox_options options = sandbox_patient_options();
    if (mt_sandbox_run(&ctx, &options, "", 0, &result) == MT_ERR_UNSUPPORTED) {
        (void)printf("skipped: %s\n", ctx.message);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
