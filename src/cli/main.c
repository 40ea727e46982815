/* metier: picks the verb. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/shared/patience.h"
#include "cli/shared/ranks.h"
#include "cli/shared/streams.h"

#ifndef METIER_VERSION
#define METIER_VERSION "unknown"
#endif

static void print_usage(FILE *stream)
{
    (void)fprintf(
        stream,
        "metier %s: post-trains Mixture-of-Experts language models so that their experts specialise\n\n"
        "usage: metier VERB [arguments]\n\nverbs:\n",
        METIER_VERSION);
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        (void)fprintf(stream, "  %-12s %s\n", verb->name, verb->summary);
    }
    (void)fprintf(stream, "\nmetier VERB --help explains a verb, with examples.\n");
}

static int unknown_verb(const char *word)
{
    const char *best = NULL;
    int distance = CLI_NEAR;
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        if (mt_nearer(word, verb->name, &distance)) best = verb->name;
    }
    if (best != NULL) {
        (void)fprintf(stderr, "metier: there is no verb '%s'; did you mean '%s'?\n", word, best);
        return 2;
    }
    (void)fprintf(stderr, "metier: there is no verb '%s'; metier --help lists them\n", word);
    return 2;
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
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        if (strcmp(verb->name, argv[1]) != 0) continue;
        if (verb->ranks == CLI_RANKS_REFUSED && mt_comm_job_size() > 1) return cli_refuse_ranks(&ctx, verb);
        return verb->run(&ctx, verb, argc - 2, argv + 2);
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
