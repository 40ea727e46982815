/* metier review: a page on which a person judges answers, and the way back. */
#include <stdio.h>

#include "base/amount.h"
#include "base/files/folder.h"
#include "cli/agreement.h"
#include "cli/cli.h"
#include "cli/shared/share.h"
#include "eval/judges/review.h"

#define ARENA_BYTES 4096

struct arguments {
    const char *tasks, *out, *merge;
    int64_t sample, seed;
    bool agreement;
};

static enum mt_status write_page(struct mt_context *ctx, const struct arguments *arguments,
                                 const char *folder)
{
    struct mt_review_options options = {.sample = arguments->sample, .seed = (uint64_t)arguments->seed};
    struct mt_judged_run run = {0};
    struct mt_arena arena;
    size_t count = 0;
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status = cli_find_share(&arena, "review", "the review page", &options.share);
    if (status == MT_OK) status = mt_judged_run_read(ctx, folder, arguments->tasks, &run);
    if (status == MT_OK) status = mt_folder_make_above(ctx, arguments->out);
    if (status == MT_OK) status = mt_review_page_write(ctx, &run, &options, arguments->out, &count);
    mt_judged_run_free(&run);
    mt_arena_free(&arena);
    if (status == MT_OK)
        printf("%s in %s; open it in a browser, then: metier review %s --merge FILE\n",
               mt_counted(count, "answer", "answers").text, arguments->out, folder);
    return status;
}

static enum mt_status check(const struct arguments *arguments, const struct cli_call *call)
{
    int ways = (arguments->out != NULL) + (arguments->merge != NULL) + (arguments->agreement ? 1 : 0);
    if (ways != 1)
        return mt_fail(call->ctx, MT_ERR_USAGE,
                       "one of --out PAGE.html, --merge FILE and --agreement is expected");
    const struct cli_void rules[] = {
        {arguments->out == NULL, "--tasks --sample --seed", "without --out"},
        {arguments->sample == 0, "--seed", "without --sample: all answers are shown"},
    };
    return cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct arguments arguments = {0};
    const struct cli_option options[] = {
        {"--out", CLI_TEXT, &arguments.out, "PAGE.html", "write the page"},
        {"--tasks", CLI_TEXT, &arguments.tasks, "A,B", "only these tasks of the run"},
        {"--sample", CLI_INTEGER, &arguments.sample, "N", "review N answers, drawn at random"},
        {"--seed", CLI_INTEGER, &arguments.seed, "S", "seed of the sample (0)"},
        {"--merge", CLI_TEXT, &arguments.merge, "FILE", "add the marks that a page saved"},
        {"--agreement", CLI_FLAG, &arguments.agreement, NULL,
         "how well rule, language model and person agree"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(&arguments, call);
    if (status != MT_OK) return status;
    const char *folder = call->positional[0];
    if (arguments.agreement) return cli_agreement(call->ctx, folder);
    if (arguments.merge != NULL) return cli_merge_review(call->ctx, folder, arguments.merge);
    return write_page(call->ctx, &arguments, folder);
}

const struct cli_verb cli_verb_review = {
    .name = "review",
    .summary = "make a page on which a person judges the answers of a run, and compare all judges",
    .wanted = "the folder of a run",
    .arguments = "RUN_DIR --out PAGE.html | --merge FILE | --agreement",
    .details =
        "RUN_DIR is a folder that metier eval wrote. The page is one HTML file that needs no network: open "
        "it,\n"
        "mark answers as right, wrong or unsure, and save. --merge copies the saved marks to\n"
        "RUN_DIR/review_TASK.jsonl, as metier eval --merge-review does. Agreement is Cohen's kappa for each\n"
        "pair of rule, language model (metier judge) and person, and Fleiss' kappa for all three.",
    .examples = "  metier review runs/eval --out review.html\n"
                "  metier review runs/eval --tasks gsm8k,math500 --sample 100 --seed 1 --out review.html\n"
                "  metier review runs/eval --merge review.json\n"
                "  metier review runs/eval --agreement",
    .run = run_verb,
};
