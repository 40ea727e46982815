/* metier sandbox: whether the sandbox holds here, shown by hostile programs; or one program of the user's. */
#define _XOPEN_SOURCE 700 // mkdtemp
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/files/file.h"
#include "cli/cli.h"
#include "cli/shared/table.h"
#include "eval/code/code_judge.h"
#include "eval/code/sandbox_hostile.h"

#define MEBIBYTE      (1 << 20)
#define PATH_BYTES    1024
#define CANARY_TEXT   "nobody may read or change this\n"
#define MAX_SOURCE    MT_SANDBOX_MAX_PROGRAM
#define CHECK_AT_ONCE 4
#define MEASURED      21 // programs that do nothing

struct settings {
    bool check;
    double seconds;
    int64_t cpu_seconds, memory, processes, output, files; // memory, output, files: MiB
    int64_t at_once;
    const char *interpreter;
    const char *launcher;
    const char *tests; // NULL: the program stands alone
};

// ------------------------------------------------------------------ the hostile suite

/* Hostile programs, then cheats, then one answer that is right. */
struct check_run {
    struct mt_context *ctx;
    const struct mt_hostile_case *cases;
    size_t case_count;
    const struct mt_cheat *cheats;
    size_t cheat_count;
    size_t count; // of all
    struct mt_hostile_setting setting;
    struct mt_sandbox_options options;
    struct mt_sandbox_result *results; // [count]
    char folder[PATH_BYTES];
    char canary[PATH_BYTES + 16];
};

static const struct mt_cheat honest = {"an answer that is right", "def ENTRY(x): return x + x\n"};

/* The cheat with the number `index` of all; NULL: it is a hostile program. */
static const struct mt_cheat *cheat_at(const struct check_run *run, size_t index)
{
    if (index < run->case_count) return NULL;
    index -= run->case_count;
    return index < run->cheat_count ? &run->cheats[index] : &honest;
}

/* One of the two programs that try a cheat. */
static enum mt_status put_trial(const struct check_run *run, const struct mt_cheat *cheat, bool judge,
                                struct mt_byte_list *text)
{
    struct mt_byte_list answer = {.ctx = run->ctx};
    enum mt_status status = mt_cheat_answer(cheat, "twice", &answer);
    const struct mt_code_trial trial = mt_cheat_trial(&answer);
    if (status == MT_OK && judge) status = mt_code_trial_judge(&trial, text);
    if (status == MT_OK && !judge) status = mt_code_trial_program(&trial, text);
    mt_byte_list_free(&answer);
    return status;
}

static enum mt_status give_program(void *self, size_t index, struct mt_byte_list *text,
                                   struct mt_sandbox_options *options)
{
    const struct check_run *run = self;
    const struct mt_cheat *cheat = cheat_at(run, index);
    if (cheat != NULL) return put_trial(run, cheat, false, text);
    mt_hostile_limit(&run->cases[index], options);
    return mt_hostile_program(&run->cases[index], &run->setting, text);
}

static enum mt_status give_judge(void *self, size_t index, struct mt_byte_list *text)
{
    const struct check_run *run = self;
    const struct mt_cheat *cheat = cheat_at(run, index);
    return cheat != NULL ? put_trial(run, cheat, true, text) : MT_OK;
}

static bool ended_well(const struct check_run *run, size_t index)
{
    const struct mt_sandbox_result *result = &run->results[index];
    const struct mt_cheat *cheat = cheat_at(run, index);
    if (cheat == NULL) return mt_hostile_contained(&run->cases[index], result);
    return (result->outcome == MT_SANDBOX_PASSED) == (cheat == &honest);
}

static enum mt_status keep_result(void *self, size_t index, const struct mt_sandbox_result *result)
{
    struct check_run *run = self;
    run->results[index] = *result;
    return MT_OK;
}

/* A folder with a file in it that nothing may touch. */
static enum mt_status place_canary(struct check_run *run)
{
    const char *above = getenv("TMPDIR");
    if (above == NULL || above[0] != '/') above = "/tmp";
    int length = snprintf(run->folder, sizeof run->folder, "%s/metier-sandbox-XXXXXX", above);
    if (length < 0 || (size_t)length >= sizeof run->folder || mkdtemp(run->folder) == NULL)
        return mt_fail(run->ctx, MT_ERR_IO, "cannot make a folder in %s: %s", above, strerror(errno));
    (void)snprintf(run->canary, sizeof run->canary, "%s/canary", run->folder);
    const char *home = getenv("HOME");
    run->setting = (struct mt_hostile_setting){.canary = run->canary, .home = home != NULL ? home : "/root"};
    return mt_file_write_all(run->ctx, run->canary, CANARY_TEXT, strlen(CANARY_TEXT));
}

/* Removes the folder; true when the canary is as it was and alone. */
static bool remove_canary(struct check_run *run)
{
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(run->ctx, run->canary, PATH_BYTES, &data, &bytes);
    bool unharmed = status == MT_OK && bytes == strlen(CANARY_TEXT) && memcmp(data, CANARY_TEXT, bytes) == 0;
    mt_release(run->ctx, data, bytes);
    if (run->canary[0] != '\0') (void)unlink(run->canary);
    return rmdir(run->folder) == 0 && unharmed;
}

static enum mt_status print_results(const struct check_run *run, size_t *escaped)
{
    static const struct cli_column columns[] = {{"program", false}, {"outcome", false}, {"seconds", true},
                                                {"MiB", true},      {"", false},        {"", false}};
    struct cli_table table;
    cli_table_init(&table, run->ctx, columns, 6);
    *escaped = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct mt_sandbox_result *result = &run->results[i];
        const struct mt_cheat *cheat = cheat_at(run, i);
        bool contained = ended_well(run, i);
        if (!contained) (*escaped)++;
        // The last line of standard error says most.
        size_t end = strlen(result->tail);
        while (end > 0 && result->tail[end - 1] == '\n') end--;
        size_t start = end;
        while (start > 0 && result->tail[start - 1] != '\n') start--;
        cli_table_add(&table, "%s\t%s\t%.2f\t%.0f\t%s\t%.*s",
                      cheat != NULL ? cheat->name : run->cases[i].name,
                      mt_sandbox_outcome_name(result->outcome), result->seconds,
                      (double)result->peak_memory / MEBIBYTE, contained ? "contained" : "NOT CONTAINED",
                      (int)(end - start < 60 ? end - start : 60), result->tail + start);
    }
    return cli_table_print(&table, stdout);
}

// ------------------------------------------------------------------ what it costs

static enum mt_status take_result(void *self, size_t trial, const struct mt_sandbox_result *result)
{
    (void)trial;
    *(struct mt_sandbox_result *)self = *result;
    return MT_OK;
}

/* The median time of programs that do nothing, one at a time: `judged` by tests in a second sandbox, or
 * alone. */
static enum mt_status measure(struct mt_context *ctx, const struct mt_sandbox_options *options, bool judged,
                              double *median)
{
    static const char answer[] = "def twice(n): return 2 * n\n";
    static const char tests[] = "assert twice(2) == 4\n";
    const struct mt_code_trial trial = {.part = {[MT_TRIAL_ANSWER] = {answer, sizeof answer - 1},
                                                 [MT_TRIAL_GIVEN] = {"", 0},
                                                 [MT_TRIAL_TESTS] = {tests, sizeof tests - 1},
                                                 [MT_TRIAL_CALLS] = {"", 0}}};
    const struct mt_sandbox_judge judge = {.ctx = ctx, .options = *options};
    struct mt_sandbox_result result = {0};
    const struct mt_trial_listener listener = {.self = &result, .heard = take_result};
    double seconds[MEASURED];
    for (int i = 0; i < MEASURED; i++) {
        double began = mt_clock_seconds();
        enum mt_status status = judged ? mt_code_trials_run(&judge, &trial, 1, &listener)
                                       : mt_sandbox_run(ctx, options, answer, sizeof answer - 1, &result);
        seconds[i] = mt_clock_seconds() - began;
        if (status != MT_OK) return status;
        if (result.outcome != MT_SANDBOX_PASSED)
            return mt_fail(ctx, MT_ERR_INTERNAL,
                           "the sandbox does not work: a program that does nothing ended with: %s",
                           mt_sandbox_outcome_name(result.outcome));
    }
    qsort(seconds, MEASURED, sizeof seconds[0], mt_by_number);
    *median = seconds[MEASURED / 2];
    return MT_OK;
}

static enum mt_status print_cost(struct mt_context *ctx, const struct mt_sandbox_options *options)
{
    double alone = 0.0;
    double judged = 0.0;
    enum mt_status status = measure(ctx, options, false, &alone);
    if (status == MT_OK) status = measure(ctx, options, true, &judged);
    if (status != MT_OK) return status;
    printf(
        "a program that does nothing takes %.0f ms, with its tests %.0f ms (medians of %d, one at a time)\n",
        1e3 * alone, 1e3 * judged, MEASURED);
    return MT_OK;
}

/* What keeps the sums of memory and tasks on this machine. */
static void print_keeper(const struct mt_sandbox_cgroups *cgroups)
{
    if (cgroups->used)
        printf("memory and tasks: limited by cgroup %s\n", cgroups->path);
    else
        printf("memory and tasks: counted, because: %s\n", cgroups->reason);
}

static enum mt_status run_check(struct mt_context *ctx, const struct settings *settings,
                                struct mt_sandbox_cgroups *cgroups)
{
    struct check_run run = {.ctx = ctx, .options = mt_hostile_options()};
    run.options.interpreter = settings->interpreter;
    run.options.launcher = settings->launcher;
    run.options.cgroups = cgroups;
    run.cases = mt_hostile_cases(&run.case_count);
    run.cheats = mt_cheats(&run.cheat_count);
    run.count = run.case_count + run.cheat_count + 1;
    const struct mt_sandbox_batch batch = {
        .count = run.count,
        .at_once = settings->at_once > 0 ? (int)settings->at_once : CHECK_AT_ONCE,
        .self = &run,
        .program = give_program,
        .judge = give_judge,
        .done = keep_result,
    };
    void *block = NULL;
    enum mt_status status = mt_allocate_array(ctx, run.count, sizeof *run.results, &block);
    if (status != MT_OK) return status;
    run.results = block;
    double began = mt_clock_seconds();
    status = place_canary(&run);
    if (status == MT_OK) status = mt_sandbox_run_many(ctx, &run.options, &batch);
    bool unharmed = run.folder[0] != '\0' && remove_canary(&run);
    size_t escaped = 0;
    if (status == MT_OK) status = print_results(&run, &escaped);
    if (status == MT_OK) print_keeper(cgroups);
    if (status == MT_OK) {
        printf("%s, %zu not contained, in %.1f s; files outside %s\n",
               mt_counted(run.count, "program", "programs").text, escaped, mt_clock_seconds() - began,
               unharmed ? "unharmed" : "CHANGED");
        if (escaped > 0 || !unharmed)
            status = mt_fail(ctx, MT_ERR_INTERNAL,
                             "the sandbox does not hold on this machine: do not run code "
                             "that a model wrote here");
    }
    if (status == MT_OK) status = print_cost(ctx, &run.options);
    mt_release(ctx, run.results, run.count * sizeof *run.results);
    return status;
}

// ------------------------------------------------------------------ one program

static enum mt_status run_program(struct mt_context *ctx, const struct settings *settings,
                                  struct mt_sandbox_cgroups *cgroups, const char *path, int *exit_status)
{
    struct mt_sandbox_options options = mt_sandbox_defaults();
    options.seconds = settings->seconds;
    options.cpu_seconds = settings->cpu_seconds;
    options.memory = (uint64_t)settings->memory * MEBIBYTE;
    options.processes = settings->processes;
    options.output = (uint64_t)settings->output * MEBIBYTE;
    options.files = (uint64_t)settings->files * MEBIBYTE;
    options.interpreter = settings->interpreter;
    options.launcher = settings->launcher;
    options.cgroups = cgroups;
    void *source = NULL;
    void *tests = NULL;
    size_t bytes = 0;
    size_t test_bytes = 0;
    struct mt_sandbox_result result;
    enum mt_status status = mt_file_read_all(ctx, path, MAX_SOURCE, &source, &bytes);
    if (status == MT_OK && settings->tests != NULL)
        status = mt_file_read_all(ctx, settings->tests, MAX_SOURCE, &tests, &test_bytes);
    if (status == MT_OK && settings->tests != NULL) {
        const struct mt_code_trial trial = {.part = {[MT_TRIAL_ANSWER] = {source, bytes},
                                                     [MT_TRIAL_GIVEN] = {"", 0},
                                                     [MT_TRIAL_TESTS] = {tests, test_bytes},
                                                     [MT_TRIAL_CALLS] = {"", 0}}};
        const struct mt_sandbox_judge judge = {.ctx = ctx, .options = options};
        const struct mt_trial_listener listener = {.self = &result, .heard = take_result};
        status = mt_code_trials_run(&judge, &trial, 1, &listener);
    } else if (status == MT_OK) {
        status = mt_sandbox_run(ctx, &options, source, bytes, &result);
    }
    mt_release(ctx, source, bytes);
    mt_release(ctx, tests, test_bytes);
    if (status != MT_OK) return status;
    (void)fputs(result.tail, stderr);
    printf("%s: %s, exit status %d, %.2f s, %.0f MiB\n", path, mt_sandbox_outcome_name(result.outcome),
           result.exit_status, result.seconds, (double)result.peak_memory / MEBIBYTE);
    *exit_status = result.outcome == MT_SANDBOX_PASSED ? 0 : 1;
    return MT_OK;
}

static enum mt_status check_arguments(const struct settings *settings, const struct cli_call *arguments)
{
    struct mt_context *ctx = arguments->ctx;
    if (settings->check && arguments->positional_count > 0)
        return mt_fail(ctx, MT_ERR_USAGE, "--check runs its own programs, not '%s'",
                       arguments->positional[0]);
    if (settings->check && settings->tests != NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--check has tests of its own, not '%s'", settings->tests);
    if (!settings->check && arguments->positional_count == 0)
        return mt_fail(ctx, MT_ERR_USAGE, "give a program, or --check");
    if (arguments->positional_count > 1)
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", arguments->positional[1]);
    const int64_t sizes[] = {settings->memory, settings->output, settings->files};
    for (int i = 0; i < 3; i++) {
        if (sizes[i] < 1 || sizes[i] > MEBIBYTE)
            return mt_fail(ctx, MT_ERR_USAGE, "a size is %" PRId64 " MiB, expected 1 to %d", sizes[i],
                           MEBIBYTE);
    }
    enum mt_status status = cli_check_limits(
        ctx, &(struct cli_limit){"--at-once", settings->at_once, 0, MT_SANDBOX_MOST_AT_ONCE}, 1);
    const struct cli_void rules[] = {{!settings->check, "--at-once", "without --check"}};
    return status == MT_OK ? cli_refuse_void(arguments, rules, 1) : status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct mt_sandbox_options defaults = mt_sandbox_defaults();
    struct settings settings = {.seconds = defaults.seconds,
                                .cpu_seconds = defaults.cpu_seconds,
                                .memory = (int64_t)(defaults.memory / MEBIBYTE),
                                .processes = defaults.processes,
                                .output = (int64_t)(defaults.output / MEBIBYTE),
                                .files = (int64_t)(defaults.files / MEBIBYTE),
                                .interpreter = defaults.interpreter,
                                .launcher = defaults.launcher};
    const struct cli_option options[] = {
        {"--check", CLI_FLAG, &settings.check, NULL,
         "run programs that try to escape or to pass without solving anything, and report whether they did"},
        {"--tests", CLI_TEXT, &settings.tests, "FILE",
         "Python that calls the program's functions from a separate interpreter"},
        {"--seconds", CLI_REAL, &settings.seconds, "S", "limit of wall-clock time (10)"},
        {"--cpu-seconds", CLI_INTEGER, &settings.cpu_seconds, "S",
         "limit of processor time of each process (10)"},
        {"--memory", CLI_INTEGER, &settings.memory, "MIB",
         "memory limit of each process, and of all together (1024)"},
        {"--processes", CLI_INTEGER, &settings.processes, "N",
         "limit of processes and threads at the same time (32)"},
        {"--output", CLI_INTEGER, &settings.output, "MIB", "limit of standard output and error together (1)"},
        {"--files", CLI_INTEGER, &settings.files, "MIB", "limit of files in /tmp, and in /dev/shm (64)"},
        {"--interpreter", CLI_TEXT, &settings.interpreter, "PATH", "python3, or a path under /usr"},
        {"--bwrap", CLI_TEXT, &settings.launcher, "PATH", "bubblewrap (bwrap)"},
        {"--at-once", CLI_INTEGER, &settings.at_once, "N", "programs of --check at a time (4)"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check_arguments(&settings, call);
    if (status != MT_OK) return status;
    struct mt_sandbox_cgroups cgroups = {0};
    mt_sandbox_adopt_orphans();
    mt_sandbox_cgroups_open(&cgroups, MT_CGROUP_ROOT, MT_CGROUP_OWN);
    status = settings.check
                 ? run_check(call->ctx, &settings, &cgroups)
                 : run_program(call->ctx, &settings, &cgroups, call->positional[0], &call->exit_status);
    mt_sandbox_cgroups_close(&cgroups);
    return status;
}

const struct cli_verb cli_verb_sandbox = {
    .name = "sandbox",
    .summary = "run an untrusted Python program in a sandbox; --check: test the sandbox",
    .arguments = "PROGRAM.py | --check",
    .counts_arguments = true,
    .details =
        "The program runs under bubblewrap: no network, a read-only system, a private /tmp, no home, no "
        "view\n"
        "of other processes, few system calls. It passes if it reaches its last line and exits with status "
        "0;\n"
        "the exit status is then 0, else 1. With --tests another interpreter, which the program cannot "
        "reach,\n"
        "calls its functions and compares their results. --check runs a suite of hostile programs (fork and\n"
        "memory bombs, endless output, network, files, ptrace, signals, ...) and of answers that cheat, and\n"
        "lists how each was stopped. The exit status is 1 if one was not stopped. docs/sandbox.md says what\n"
        "this protects against.",
    .examples = "  metier sandbox --check\n"
                "  metier sandbox solution.py --seconds 3 --memory 512\n"
                "  metier sandbox solution.py --tests tests.py",
    .run = run_verb,
};
