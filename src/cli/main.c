/* metier: picks the verb. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/shared/process.h"
#include "cli/shared/ranks.h"
#include "cli/shared/share.h"
#include "metier/device.h"
#include "metier/version.h"
#include "ops/choose.h"

#define ARENA_BLOCK_BYTES 4096

/* The verbs, in the order --help lists them. The file of NAME defines cli_verb_NAME. */
#define VERBS(verb)                                                                                          \
    verb(adapter) verb(analyze) verb(chat) verb(compare) verb(devices) verb(eval) verb(forward)              \
        verb(generate) verb(help) verb(init) verb(inspect) verb(judge) verb(merge) verb(objective)           \
            verb(plan) verb(prune) verb(recipe) verb(report) verb(review) verb(sandbox) verb(synth)          \
                verb(tokenize) verb(train)

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
    cli_streams_open();
    cli_shorten_waiting(argv);
    int status = run(argc, argv);
    return cli_streams_close(status);
}
