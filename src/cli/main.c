/* metier: picks the verb. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/shared/process.h"
#include "cli/shared/ranks.h"

#ifndef METIER_VERSION
#define METIER_VERSION "unknown"
#endif

/* The verbs, in the order --help lists them. The file of NAME defines cli_verb_NAME. */
#define VERBS(verb)                                                                                          \
    verb(adapter) verb(analyze) verb(chat) verb(compare) verb(devices) verb(eval) verb(forward)              \
        verb(generate) verb(init) verb(inspect) verb(judge) verb(merge) verb(objective) verb(plan)           \
            verb(recipe) verb(report) verb(review) verb(sandbox) verb(synth) verb(tokenize) verb(train)

#define DECLARATION(name) extern const struct cli_verb cli_verb_##name;
#define ROW(name)         &cli_verb_##name,

VERBS(DECLARATION)
const struct cli_verb *const cli_verbs[] = {VERBS(ROW) NULL};

static void print_usage(FILE *stream)
{
    (void)fprintf(
        stream,
        "metier %s: post-trains Mixture-of-Experts language models so that their experts specialise\n\n"
        "usage: metier VERB [arguments]\n\nverbs:\n",
        METIER_VERSION);
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++)
        (void)fprintf(stream, "  %-12s %s\n", (*verb)->name, (*verb)->summary);
    (void)fprintf(stream, "\nmetier VERB --help explains a verb, with examples.\n");
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
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("metier %s\n", METIER_VERSION);
        return 0;
    }
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) {
        if (strcmp((*verb)->name, argv[1]) == 0) return run_verb(*verb, argc - 2, argv + 2);
    }
    return unknown_verb(argv[1]);
}

int main(int argc, char **argv)
{
    cli_streams_open();
    cli_shorten_waiting(argv);
    int status = run(argc, argv);
    return cli_streams_close(status);
}
