/* metier review: a page on which a person judges answers, and the way back. */
#include <stdio.h>

#include "base/amount.h"
#include "base/files/folder.h"
#include "cli/agreement.h"
#include "cli/shared/share.h"
#include "cli/verbs.h"
#include "eval/judges/review.h"

#define ARENA_BYTES 65536

struct arguments {
    const char *tasks, *out, *merge;
    int64_t sample, seed;
    bool agreement;
};

static enum mt_status write_page(struct mt_context *ctx, const struct arguments *arguments,
                                 const char *folder, struct mt_arena *arena)
{
    struct mt_judged_run run;
    const char *share = NULL;
    size_t count = 0;
    enum mt_status status = cli_find_share(arena, "review", &share);
    if (status == MT_OK && share == NULL) status = cli_share_missing(ctx, "the review page");
    if (status != MT_OK) return status;
    const struct mt_review_options options = {
        .share = share, .sample = arguments->sample, .seed = (uint64_t)arguments->seed};
    status = mt_judged_run_read(ctx, folder, arguments->tasks, &run);
    if (status == MT_OK) status = mt_folder_make_above(ctx, arguments->out);
    if (status == MT_OK) status = mt_review_page_write(ctx, &run, &options, arguments->out, &count);
    mt_judged_run_free(&run);
    if (status == MT_OK)
        printf("%s in %s; open it in a browser, then: metier review %s --merge FILE\n",
               mt_counted(count, "answer", "answers").text, arguments->out, folder);
    return status;
}

static enum mt_status run(struct mt_context *ctx, const struct arguments *arguments,
                          const struct cli_arguments *given, struct mt_arena *arena)
{
    if (given->positional_count == 0) return mt_fail(ctx, MT_ERR_USAGE, "the folder of a run is missing");
    if (given->positional_count > 1)
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", given->positional[1]);
    int ways = (arguments->out != NULL) + (arguments->merge != NULL) + (arguments->agreement ? 1 : 0);
    if (ways != 1)
        return mt_fail(ctx, MT_ERR_USAGE, "one of --out PAGE.html, --merge FILE and --agreement is expected");
    if (arguments->sample < 0 || arguments->seed < 0)
        return mt_fail(ctx, MT_ERR_USAGE, "--sample and --seed may not be negative");
    const struct cli_void rules[] = {
        {arguments->out == NULL, "--tasks --sample --seed", "without --out"},
        {arguments->sample == 0, "--seed", "without --sample: all answers are shown"},
    };
    enum mt_status status = cli_refuse_void(ctx, given, rules, sizeof rules / sizeof rules[0]);
    if (status != MT_OK) return status;
    const char *folder = given->positional[0];
    if (arguments->agreement) return cli_agreement(ctx, folder);
    if (arguments->merge != NULL) return cli_merge_review(ctx, folder, arguments->merge);
    return write_page(ctx, arguments, folder, arena);
}

int cli_review(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
{
    struct arguments arguments = {0};
    const struct cli_option options[] = {
        {"--out", CLI_TEXT, &arguments.out, "PAGE.html", "write the page"},
        {"--tasks", CLI_TEXT, &arguments.tasks, "A,B", "only these tasks of the run"},
        {"--sample", CLI_INTEGER, &arguments.sample, "N", "so many answers, drawn from all"},
        {"--seed", CLI_INTEGER, &arguments.seed, "S", "of the drawing (0)"},
        {"--merge", CLI_TEXT, &arguments.merge, "FILE", "take over the marks a page saved"},
        {"--agreement", CLI_FLAG, &arguments.agreement, NULL,
         "how far rule, language model and person agree"},
    };
    struct cli_arguments given;
    struct mt_arena arena;
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status =
        cli_parse(ctx, verb, options, (int)(sizeof options / sizeof options[0]), argc, argv, &given);
    if (status == MT_OK && given.help_shown) return 0;
    if (status == MT_OK) status = run(ctx, &arguments, &given, &arena);
    mt_arena_free(&arena);
    return status == MT_OK ? 0 : cli_fail(ctx, verb, status);
}
