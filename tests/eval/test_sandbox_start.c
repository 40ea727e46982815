/*
 * The start of a sandboxed program: it begins only once it is counted, nothing it does takes the counting
 * away, and a look that fails is no look that found nothing. METIER_SANDBOX_ATTACKS=N attacks the start N
 * times and does nothing else (scripts/sandbox-attack). Skipped, with the reason, where there can be no
 * sandbox. Tests src/eval/code/sandbox_watch.c.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/hostile_programs.h"
#include "support/sandbox_bench.h"

#define PLAIN_USER 54321 // nobody else's
#define ATTACKS    6     // unless METIER_SANDBOX_ATTACKS says how many
#define SKIPPED    77    // exit status of a child that has no sandbox
#define MEBIBYTE   (1 << 20)

// ------------------------------------------------------------------ the start mark

/*
 * Runs a check in a child that is no root: what root opens, its programs, which are nobody's, cannot open
 * again. The check says what is wrong and returns the child's exit status; 0: nothing.
 */
static void as_plain_user(int (*check)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && (syscall(SYS_setgroups, 0, NULL) != 0 || setgid(PLAIN_USER) != 0 ||
                               setuid(PLAIN_USER) != 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0))
            _exit(SKIPPED);
        mt_sandbox_adopt_orphans();
        int status = check();
        (void)fflush(NULL);
        _exit(status);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) skip();
    assert_int_equal(status, 0);
}

/* Takes what it can out of its descriptors before anybody looks, says how much that was, then breaks a limit.
 */
static const char taker[] =
    "import os, time\n"
    "taken = 0\n"
    "for name in os.listdir('/proc/self/fd'):\n"
    "    for place in ('/proc/self/fd/', '/dev/fd/'):\n"
    "        try: taken += len(os.read(os.open(place + name, os.O_RDONLY | os.O_NONBLOCK), 64))\n"
    "        except OSError: pass\n"
    "os.set_blocking(7, False)\n"
    "try: taken += len(os.read(7, 64))\n"
    "except OSError: pass\n"
    "os.write(8, b'%d' % taken)\n"
    "for i in range(4):\n"
    "    if os.fork() == 0: hoard = bytearray(96 << 20); time.sleep(1000)\n"
    "time.sleep(1000)\n";

static int check_taker(void)
{
    struct mt_context ctx;
    struct mt_sandbox sandbox;
    char taken[16] = "";
    mt_context_init(&ctx, NULL);
    struct mt_sandbox_options options = sandbox_patient_options();
    options.memory = 192 << 20;
    int talk = sandbox_start_talking(&ctx, options, taker, &sandbox);
    if (talk < 0) return SKIPPED;
    enum mt_status status = MT_OK;
    while (status == MT_OK && sandbox.running && !sandbox.started) status = sandbox_wait_and_step(&sandbox);
    if (status == MT_OK && sandbox.running)
        (void)!read(talk, taken, sizeof taken - 1); // nobody steps meanwhile
    // A counted program ends at once; one that is not would sleep for long, so the looks are counted.
    for (int looks = 0; status == MT_OK && sandbox.running && looks < 1000; looks++)
        status = sandbox_wait_and_step(&sandbox);
    if (sandbox.running) print_error("the program is not counted\n");
    bool held = !sandbox.running && sandbox.result.outcome == MT_SANDBOX_OUT_OF_MEMORY;
    mt_sandbox_stop(&sandbox);
    (void)close(talk);
    if (status == MT_ERR_UNSUPPORTED) return SKIPPED;
    if (strcmp(taken, "0") != 0) print_error("the program took '%s' bytes meant for us\n", taken);
    return held && strcmp(taken, "0") == 0 ? 0 : 1;
}

static void test_start_mark_is_out_of_reach(void **state)
{
    (void)state;
    as_plain_user(check_taker);
}

struct attack {
    const struct mt_hostile_case *cases[2];
    const struct mt_hostile_setting setting;
    size_t ended, won;
    uint64_t most_memory;
};

static enum mt_status attack_program(void *self, size_t index, struct mt_byte_list *text,
                                     struct mt_sandbox_options *options)
{
    const struct attack *attack = self;
    mt_hostile_limit(attack->cases[index % 2], options);
    return mt_hostile_program(attack->cases[index % 2], &attack->setting, text);
}

static enum mt_status attack_done(void *self, size_t index, const struct mt_sandbox_result *result)
{
    struct attack *attack = self;
    attack->ended++;
    if (!mt_hostile_contained(attack->cases[index % 2], result)) attack->won++;
    if (result->peak_memory > attack->most_memory) attack->most_memory = result->peak_memory;
    return MT_OK;
}

static int check_attacks(void)
{
    const char *wanted = getenv("METIER_SANDBOX_ATTACKS");
    struct mt_context ctx;
    struct attack attack = {.setting = {.canary = "/nothing", .home = "/"}};
    size_t count = 0;
    size_t found = 0;
    const struct mt_hostile_case *cases = hostile_programs(&count);
    for (size_t i = 0; i < count && found < 2; i++) {
        if (strncmp(cases[i].name, "the start mark", 14) == 0) attack.cases[found++] = &cases[i];
    }
    if (found < 2) return 1;
    struct mt_sandbox_options options = mt_hostile_options();
    options.seconds = 20; // one that has won need not be waited for longer
    mt_context_init(&ctx, NULL);
    const struct mt_sandbox_batch batch = {.count =
                                               wanted != NULL ? (size_t)strtoul(wanted, NULL, 10) : ATTACKS,
                                           .at_once = 4,
                                           .self = &attack,
                                           .program = attack_program,
                                           .done = attack_done};
    enum mt_status status = mt_sandbox_run_many(&ctx, &options, &batch);
    if (status != MT_OK) print_error("%s\n", ctx.message);
    if (status == MT_ERR_UNSUPPORTED && attack.ended == 0) return SKIPPED;
    print_message(
        "%zu attacks on the start mark, %zu won; the most memory counted is %.0f MiB, %.0f are allowed\n",
        attack.ended, attack.won, (double)attack.most_memory / MEBIBYTE, (double)options.memory / MEBIBYTE);
    return status == MT_OK && attack.won == 0 && attack.ended == batch.count ? 0 : 1;
}

static void test_start_mark_attacked(void **state)
{
    (void)state;
    as_plain_user(check_attacks);
}

/* A program that waits for a word, let go and in view; returns what to talk through. */
static int start_waiting(struct mt_context *ctx, struct mt_sandbox *sandbox)
{
    mt_context_init(ctx, NULL);
    int talk = sandbox_start_talking(ctx, sandbox_patient_options(), "import os\nos.read(8, 1)", sandbox);
    assert_true(talk >= 0);
    while (sandbox->running && (!sandbox->started || sandbox->views[MT_SANDBOX_VIEWS - 1] < 0))
        assert_int_equal(sandbox_wait_and_step(sandbox), MT_OK);
    assert_true(sandbox->running);
    return talk;
}

/* Many looks, unless the first few end it. */
static enum mt_status take_looks(struct mt_sandbox *sandbox)
{
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && sandbox->running && i < 200; i++)
        status = sandbox_wait_and_step(sandbox);
    return status;
}

/* Without a descriptor to look with, a program is not counted: that is told, and nothing goes on uncounted.
 */
static void test_looks_without_descriptors(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_sandbox sandbox;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t room = 0; room < 2; room++) { // 1: for the list of processes, but for none of them
        int talk = start_waiting(&ctx, &sandbox);
        int next = dup(talk);
        (void)close(next);
        const struct rlimit few = {.rlim_cur = (rlim_t)next + room, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        enum mt_status status = take_looks(&sandbox);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        bool went_on = sandbox.running;
        mt_sandbox_stop(&sandbox);
        (void)close(talk);
        assert_false(went_on);
        assert_int_equal(status, MT_ERR_UNSUPPORTED);
        assert_non_null(strstr(ctx.message, "cannot count a program's memory"));
    }
}

/* A view that shows nothing is a broken limit, whatever took it away. */
static void test_looks_without_views(void **state)
{
    (void)state;
    static const enum mt_sandbox_outcome expected[MT_SANDBOX_VIEWS] = {
        MT_SANDBOX_OUT_OF_MEMORY, MT_SANDBOX_TOO_MANY_FILES, MT_SANDBOX_TOO_MANY_FILES};
    struct mt_context ctx;
    struct mt_sandbox sandbox;
    for (int view = 0; view < MT_SANDBOX_VIEWS; view++) {
        int talk = start_waiting(&ctx, &sandbox);
        (void)close(sandbox.views[view]);
        sandbox.views[view] = -1;
        assert_int_equal(take_looks(&sandbox), MT_OK);
        assert_false(sandbox.running);
        assert_int_equal(sandbox.result.outcome, expected[view]);
        (void)close(talk);
    }
    assert_true(sandbox_no_child_is_left());
}

/* However quick a program is, what it holds at its last line is counted. */
static void test_last_look(void **state)
{
    (void)state;
    static const char program[] =
        "import os, time\n"
        "read, write = os.pipe()\n"
        "for i in range(8):\n"
        "    if os.fork() == 0: hoard = bytearray(8 << 20); os.write(write, b'x'); time.sleep(1000)\n"
        "for i in range(8): os.read(read, 1)\n";
    static const char without_waiting[] = "import os, re\n"
                                          "os.write(7, re.findall(rb\"b'([0-9a-f]{32})'\", "
                                          "open('/program.py', 'rb').read())[-1]); os._exit(0)\n";
    struct mt_context ctx;
    struct mt_sandbox_result result;
    mt_context_init(&ctx, NULL);
    struct mt_sandbox_options options = sandbox_patient_options();
    options.memory = 72 << 20;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mt_sandbox_run(&ctx, &options, program, strlen(program), &result), MT_OK);
        assert_int_equal(result.outcome, MT_SANDBOX_OUT_OF_MEMORY);
    }
    // One that writes the proof and is gone before anybody has looked has not passed.
    struct mt_sandbox sandbox;
    assert_int_equal(mt_sandbox_start(&ctx, &options, without_waiting, strlen(without_waiting), &sandbox),
                     MT_OK);
    while (sandbox.running && !sandbox.started) assert_int_equal(sandbox_wait_and_step(&sandbox), MT_OK);
    struct pollfd ended = {.fd = sandbox.launcher_handle, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, SANDBOX_PATIENCE * 1000), 1);
    while (sandbox.running) assert_int_equal(sandbox_wait_and_step(&sandbox), MT_OK);
    assert_int_equal(sandbox.result.exit_status, 0);
    assert_int_equal(sandbox.result.outcome, MT_SANDBOX_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_mark_attacked),
        cmocka_unit_test(test_start_mark_is_out_of_reach),
        cmocka_unit_test(test_looks_without_descriptors),
        cmocka_unit_test(test_looks_without_views),
        cmocka_unit_test(test_last_look),
    };
    const struct CMUnitTest attack[] = {cmocka_unit_test(test_start_mark_attacked)};
    struct mt_context ctx;
    struct mt_sandbox_result result;
    mt_context_init(&ctx, NULL);
    mt_sandbox_adopt_orphans();
    const struct mt_sandbox_options options = sandbox_patient_options();
    if (mt_sandbox_run(&ctx, &options, "", 0, &result) == MT_ERR_UNSUPPORTED) {
        (void)printf("skipped: %s\n", ctx.message);
        return 77;
    }
    if (getenv("METIER_SANDBOX_ATTACKS") != NULL) return cmocka_run_group_tests(attack, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
