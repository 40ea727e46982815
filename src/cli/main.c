/* metier: picks the verb. Standard streams, and how waiting threads spin. */
#define _DEFAULT_SOURCE // setenv
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/shared/ranks.h"
#include "cli/shared/share.h"
#include "metier/device.h"
#include "metier/version.h"
#include "ops/choose.h"

#define ARENA_BLOCK_BYTES 4096
#define SPINS             "1000" // some microseconds

// ------------------------------------------------------------------ the process itself

static void take_if_closed(int descriptor, const char *path, int how)
{
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) return;
    int opened = open(path, how); // the lowest that is free, which is this one: those below it are open
    if (opened >= 0 && opened != descriptor) (void)close(opened);
}

static void nothing(int signal_number)
{
    (void)signal_number;
}

/*
 * Call first. A descriptor among 0 to 2 that the caller closed is taken: the first file the program opens
 * would get its number, and messages would be written into that file. Using one that was closed is an error
 * still.
 *
 * A write to a closed pipe or past the limit of a file's size fails instead of ending the process: a training
 * whose output goes to `head` goes on, and keeps its checkpoints.
 */
static void open_streams(void)
{
    // The other direction of each, so that reading and writing them fail as they would have.
    take_if_closed(STDIN_FILENO, "/dev/null", O_WRONLY);
    take_if_closed(STDOUT_FILENO, "/dev/null", O_RDONLY);
    take_if_closed(STDERR_FILENO, "/dev/null", O_RDONLY);
    // A handler, not SIG_IGN: programs that are started from here get their defaults back.
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigaction(SIGXFSZ, &action, NULL);
}

/* Call last. Returns the exit status: the one given, or 1 where standard output could not be written. */
static int close_streams(int status)
{
    errno = 0;
    int flushed = fflush(stdout);
    if ((flushed == 0 && !ferror(stdout)) || status != 0) return status;
    // Whoever closes a pipe has read enough and needs no sentence.
    if (errno != EPIPE)
        (void)fprintf(stderr, "metier: cannot write standard output%s%s\n", errno != 0 ? ": " : "",
                      errno != 0 ? strerror(errno) : "");
    return 1;
}

// ------------------------------------------------------------------ threads that wait

/*
 * GNU's OpenMP lets a waiting thread spin for milliseconds before it sleeps. A step is hundreds of short
 * parallel loops: where other programs want the processors, a spinning thread holds up the very thread it
 * waits for. The runtime reads its settings before main, so the program starts itself again with a short
 * spin, once, unless the user has settings of their own. Where that fails it goes on as it is.
 *
 * Measured on two processors with a model of 1.3 million parameters, 30 steps: with others running (load 9)
 * 28 s with the runtime's own spin, 4.4 s with this one; alone 3.5 and 1.6 s. A model of 218 million
 * parameters shows no difference.
 */
static void shorten_waiting(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL) return;
    if (setenv("GOMP_SPINCOUNT", SPINS, 1) != 0) return;
    (void)execv("/proc/self/exe", argv);
}

// ------------------------------------------------------------------ verbs

/* The verbs, in the order --help lists them. The file of NAME defines cli_verb_NAME. */
#define VERBS(verb)                                                                                          \
    verb(adapter) verb(analyze) verb(chat) verb(compare) verb(devices) verb(eval) verb(forward)              \
        verb(generate) verb(help) verb(init) verb(inspect) verb(judge) verb(launch) verb(merge)              \
            verb(objective) verb(plan) verb(probe) verb(prune) verb(recipe) verb(report) verb(review)        \
                verb(sandbox) verb(serve) verb(synth) verb(tokenize) verb(train)

#define DECLARATION(name) extern const struct cli_verb cli_verb_##name;
#define ROW(name)         &cli_verb_##name,

VERBS(DECLARATION)
const struct cli_verb *const cli_verbs[] = {VERBS(ROW) NULL};

static void print_version(void)
{
    const char *commit = mt_version_commit();
    printf("metier %s\ncommit: %s\ndevices:", mt_version(), commit[0] != '\0' ? commit : "not known");
    for (int i = 0; mt_device_listed(i) != NULL; i++) printf(" %s", mt_device_listed(i));
    printf("\n");
    struct mt_context ctx;
    char idle[MT_MESSAGE_BYTES];
    mt_context_init(&ctx, NULL);
    if (mt_card_is_idle(&ctx, idle)) printf("gpu: %s\n", idle);
}

/* The folder of what comes along. */
static int print_share(void)
{
    struct mt_context ctx;
    struct mt_arena arena;
    const char *folder = NULL;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = cli_find_share(&arena, "", "models, configs and templates", &folder);
    if (status == MT_OK) printf("%s\n", folder);
    if (status != MT_OK) (void)fprintf(stderr, "metier: %s\n", ctx.message);
    mt_arena_free(&arena);
    return status == MT_OK ? 0 : 1;
}

static int unknown_verb(const char *word)
{
    const char *best = NULL;
    int distance = CLI_NEAR;
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) {
        if (mt_nearer(word, (*verb)->name, &distance)) best = (*verb)->name;
    }
    if (best != NULL) {
        (void)fprintf(stderr, "metier: there is no verb '%s'; did you mean '%s'?\n", word, best);
        return 2;
    }
    (void)fprintf(stderr, "metier: there is no verb '%s'; metier --help lists them\n", word);
    return 2;
}

static int run_verb(const struct cli_verb *verb, int argc, char **argv)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct cli_call call = {.ctx = &ctx, .verb = verb, .argc = argc, .argv = argv};
    bool refused = verb->ranks == CLI_RANKS_REFUSED && mt_comm_job_size() > 1;
    enum mt_status status = refused ? cli_refuse_ranks(&call) : verb->run(&call);
    return status == MT_OK ? call.exit_status : cli_fail(&ctx, verb, status);
}

static int run(int argc, char **argv)
{
    // How text is encoded, for what goes to the terminal; numbers stay as C writes them.
    (void)setlocale(LC_CTYPE, "");
    if (argc < 2) {
        cli_print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0) {
        cli_print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return 0;
    }
    if (strcmp(argv[1], "--share") == 0) return print_share();
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) {
        if (strcmp((*verb)->name, argv[1]) == 0) return run_verb(*verb, argc - 2, argv + 2);
    }
    return unknown_verb(argv[1]);
}

int main(int argc, char **argv)
{
    open_streams();
    shorten_waiting(argv);
    int status = run(argc, argv);
    return close_streams(status);
}
