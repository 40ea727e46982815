/* metier judge: a language model behind an endpoint says whether answers are right. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "cli/agreement.h"
#include "cli/shared/share.h"
#include "cli/verbs.h"
#include "eval/judges/judge_llm.h"

#define ARENA_BYTES 65536
#define MOST_PROMPT ((size_t)1 << 20)
#define KEY_NAME    "OPENAI_API_KEY"

struct arguments {
    const char *endpoint, *model, *tasks, *key_env, *prompt;
    int64_t parallel, retries, max_tokens;
    double timeout, backoff;
    bool insecure_http, quiet;
};

/* The prompt's text, in the arena. */
static enum mt_status read_prompt(struct mt_context *ctx, const struct arguments *arguments,
                                  struct mt_arena *arena, char **text)
{
    const char *folder = "";
    const char *name = arguments->prompt;
    char *path = NULL;
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = MT_OK;
    if (name == NULL) {
        name = "prompt.txt";
        status = cli_find_share(arena, "judge", &folder);
        if (status == MT_OK && folder == NULL) status = cli_share_missing(ctx, "the judge's prompt");
    }
    if (status == MT_OK) status = mt_path_join(ctx, folder, name, &path);
    if (status == MT_OK) status = mt_file_read_all(ctx, path, MOST_PROMPT, &data, &bytes);
    if (status == MT_OK) status = mt_arena_copy_text(arena, data, bytes, text);
    if (status == MT_OK) status = mt_judge_prompt_check(ctx, path, *text);
    mt_release(ctx, data, bytes);
    mt_path_release(ctx, path);
    return status;
}

static enum mt_status check_arguments(struct mt_context *ctx, const struct arguments *arguments,
                                      const struct cli_arguments *given)
{
    if (given->positional_count == 0) return mt_fail(ctx, MT_ERR_USAGE, "the folder of a run is missing");
    if (given->positional_count > 1)
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", given->positional[1]);
    if (arguments->endpoint == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--endpoint URL is missing");
    if (arguments->model == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--model NAME is missing");
    if (arguments->parallel < 1 || arguments->parallel > MT_HTTP_MOST_PARALLEL)
        return mt_fail(ctx, MT_ERR_USAGE, "--parallel is %" PRId64 ", expected 1 to %d", arguments->parallel,
                       MT_HTTP_MOST_PARALLEL);
    if (arguments->retries < 0 || arguments->retries > 100)
        return mt_fail(ctx, MT_ERR_USAGE, "--retries is %" PRId64 ", expected 0 to 100", arguments->retries);
    if (arguments->max_tokens < 0) return mt_fail(ctx, MT_ERR_USAGE, "--max-tokens may not be negative");
    if (arguments->key_env != NULL && getenv(arguments->key_env) == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "$%s is not set", arguments->key_env);
    return MT_OK;
}

static enum mt_status judge(struct mt_context *ctx, const struct arguments *arguments, const char *folder,
                            struct mt_arena *arena, bool *complete)
{
    char *template = NULL;
    struct mt_judged_run run;
    struct mt_llm_judge_report report;
    enum mt_status status = read_prompt(ctx, arguments, arena, &template);
    if (status != MT_OK) return status;
    const struct mt_llm_judge_options options = {
        .model = arguments->model,
        .template = template,
        .max_tokens = arguments->max_tokens,
        .http = {.endpoint = arguments->endpoint,
                 .key = getenv(arguments->key_env != NULL ? arguments->key_env : KEY_NAME),
                 .insecure_http = arguments->insecure_http,
                 .parallel = (int)arguments->parallel,
                 .timeout = arguments->timeout,
                 .retries = (int)arguments->retries,
                 .backoff = arguments->backoff},
        .terminal = arguments->quiet ? NULL : stderr,
    };
    status = mt_judged_run_read(ctx, folder, arguments->tasks, &run);
    if (status == MT_OK) {
        status = mt_llm_judge(ctx, &options, &run, &report);
        if (status != MT_OK && report.judged > 0)
            status = mt_fail_within(ctx, status, "%s kept, the same command goes on",
                                    mt_counted(report.judged, "verdict is", "verdicts are").text);
    }
    mt_judged_run_free(&run);
    if (status != MT_OK) return status;
    if (report.failed > 0)
        (void)fprintf(stderr, "metier judge: %s no verdict, the first: %s\n",
                      mt_counted(report.failed, "answer got", "answers got").text, report.why);
    *complete = report.failed == 0;
    printf("%s judged by %s, %zu had a verdict before\n\n",
           mt_counted(report.judged, "answer", "answers").text, arguments->model, report.kept);
    return cli_agreement(ctx, folder);
}

int cli_judge(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
{
    struct arguments arguments = {
        .parallel = 4, .retries = 5, .max_tokens = 1024, .timeout = 60, .backoff = 1};
    const struct cli_option options[] = {
        {"--endpoint", CLI_TEXT, &arguments.endpoint, "URL", "https://HOST/v1, or the whole path"},
        {"--model", CLI_TEXT, &arguments.model, "NAME", "the judge, as the endpoint calls it"},
        {"--tasks", CLI_TEXT, &arguments.tasks, "A,B", "only these tasks of the run"},
        {"--key-env", CLI_TEXT, &arguments.key_env, "VARIABLE",
         "of the environment that holds the key; default " KEY_NAME ", if set"},
        {"--parallel", CLI_INTEGER, &arguments.parallel, "N", "requests at the same time (4)"},
        {"--timeout", CLI_REAL, &arguments.timeout, "SECONDS", "for one request (60)"},
        {"--retries", CLI_INTEGER, &arguments.retries, "N", "of a request, when the endpoint is busy (5)"},
        {"--backoff", CLI_REAL, &arguments.backoff, "SECONDS", "before the first retry, doubling (1)"},
        {"--max-tokens", CLI_INTEGER, &arguments.max_tokens, "N",
         "of a reply; 0: the endpoint's limit (1024)"},
        {"--prompt", CLI_TEXT, &arguments.prompt, "FILE", "another prompt than share/judge/prompt.txt"},
        {"--insecure-http", CLI_FLAG, &arguments.insecure_http, NULL, "allow plain http to other machines"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress on the terminal"},
    };
    struct cli_arguments given;
    struct mt_arena arena;
    bool complete = true;
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status =
        cli_parse(ctx, verb, options, (int)(sizeof options / sizeof options[0]), argc, argv, &given);
    if (status == MT_OK && given.help_shown) return 0;
    if (status == MT_OK) status = check_arguments(ctx, &arguments, &given);
    if (status == MT_OK) status = judge(ctx, &arguments, given.positional[0], &arena, &complete);
    mt_arena_free(&arena);
    if (status != MT_OK) return cli_fail(ctx, verb, status);
    return complete ? 0 : 1;
}
