/* metier judge: a language model behind an endpoint says whether answers are right. */
#include <stdio.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "cli/agreement.h"
#include "cli/cli.h"
#include "cli/shared/endpoint.h"
#include "cli/shared/share.h"
#include "eval/judges/judge_llm.h"

#define ARENA_BYTES 65536
#define MOST_PROMPT ((size_t)1 << 20)

struct arguments {
    struct cli_endpoint endpoint;
    const char *model, *tasks, *prompt;
    int64_t parallel, max_tokens;
    bool quiet, no_temperature;
};

/* The prompt's text, in the arena. */
static enum mt_status read_prompt(struct mt_context *ctx, const struct arguments *arguments,
                                  struct mt_arena *arena, const char **text)
{
    const char *folder = "";
    const char *name = arguments->prompt;
    char *path = NULL;
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = MT_OK;
    if (name == NULL) {
        name = "prompt.txt";
        status = cli_find_share(arena, "judge", "the judge's prompt", &folder);
    }
    if (status == MT_OK) status = mt_path_join(ctx, folder, name, &path);
    if (status == MT_OK) status = mt_file_read_all(ctx, path, MOST_PROMPT, &data, &bytes);
    if (status == MT_OK) status = mt_arena_copy_text(arena, data, bytes, text);
    if (status == MT_OK) status = mt_judge_prompt_check(ctx, path, *text);
    mt_release(ctx, data, bytes);
    mt_path_release(ctx, path);
    return status;
}

static enum mt_status check(struct mt_context *ctx, const struct arguments *arguments,
                            struct mt_http_options *http)
{
    if (arguments->endpoint.url == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--endpoint URL is missing");
    if (arguments->model == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--model NAME is missing");
    const struct cli_limit limit = {"--parallel", arguments->parallel, 1, MT_HTTP_MOST_PARALLEL};
    enum mt_status status = cli_check_limits(ctx, &limit, 1);
    return status == MT_OK ? cli_endpoint_http(ctx, &arguments->endpoint, arguments->parallel, http) : status;
}

static enum mt_status judge(struct mt_context *ctx, const struct arguments *arguments,
                            const struct mt_http_options *http, const char *folder, struct mt_arena *arena,
                            int *exit_status)
{
    const char *template = NULL;
    struct mt_judged_run run;
    struct mt_llm_judge_report report;
    struct mt_log log;
    enum mt_status status = read_prompt(ctx, arguments, arena, &template);
    if (status != MT_OK) return status;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    const struct mt_llm_judge_options options = {
        .model = arguments->model,
        .template = template,
        .max_tokens = arguments->max_tokens,
        .no_temperature = arguments->no_temperature,
        .http = *http,
        .terminal = arguments->quiet ? NULL : stderr,
        .log = &log,
    };
    status = mt_judged_run_read(ctx, folder, arguments->tasks, &run);
    if (status == MT_OK) {
        status = mt_llm_judge(ctx, &options, &run, &report);
        if (status != MT_OK && report.judged > 0)
            status = mt_fail_within(ctx, status, "%s kept; the same command continues",
                                    mt_counted(report.judged, "verdict is", "verdicts are").text);
    }
    mt_judged_run_free(&run);
    if (status != MT_OK) return status;
    if (report.failed > 0)
        (void)fprintf(stderr, "metier judge: %s no verdict, the first: %s\n",
                      mt_counted(report.failed, "answer got", "answers got").text, report.why);
    *exit_status = report.failed == 0 ? 0 : 1;
    printf("%s judged by %s, %zu had a verdict before\n\n",
           mt_counted(report.judged, "answer", "answers").text, arguments->model, report.kept);
    return cli_agreement(ctx, folder);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct arguments arguments = {
        .endpoint = {.retries = 5, .timeout = 60, .backoff = 1}, .parallel = 4, .max_tokens = 1024};
    const struct cli_option options[] = {
        {"--endpoint", CLI_TEXT, &arguments.endpoint.url, "URL", "https://HOST/v1, or the whole path"},
        {"--model", CLI_TEXT, &arguments.model, "NAME", "the judge, as the endpoint calls it"},
        {"--tasks", CLI_TEXT, &arguments.tasks, "A,B", "only these tasks of the run"},
        {"--key-env", CLI_TEXT, &arguments.endpoint.key_env, "VARIABLE",
         "environment variable with the key; default " CLI_KEY_NAME ", if set"},
        {"--parallel", CLI_INTEGER, &arguments.parallel, "N", "requests at the same time (4)"},
        {"--timeout", CLI_REAL, &arguments.endpoint.timeout, "SECONDS", "timeout of one request (60)"},
        {"--retries", CLI_INTEGER, &arguments.endpoint.retries, "N",
         "retries of a request if the endpoint is busy (5)"},
        {"--backoff", CLI_REAL, &arguments.endpoint.backoff, "SECONDS",
         "wait before the first retry, doubled each time (1)"},
        {"--max-tokens", CLI_INTEGER, &arguments.max_tokens, "N",
         "maximum tokens of a reply; 0: the endpoint's limit (1024)"},
        {"--no-temperature", CLI_FLAG, &arguments.no_temperature, NULL,
         "do not send temperature 0, which some models refuse"},
        {"--prompt", CLI_TEXT, &arguments.prompt, "FILE", "another prompt than share/judge/prompt.txt"},
        {"--insecure-http", CLI_FLAG, &arguments.endpoint.insecure_http, NULL,
         "allow plain http to other machines"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress on the terminal"},
        {0},
    };
    struct mt_arena arena;
    struct mt_http_options http;
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    mt_arena_init(&arena, call->ctx, ARENA_BYTES);
    status = check(call->ctx, &arguments, &http);
    if (status == MT_OK)
        status = judge(call->ctx, &arguments, &http, call->positional[0], &arena, &call->exit_status);
    mt_arena_free(&arena);
    return status;
}

const struct cli_verb cli_verb_judge = {
    .name = "judge",
    .summary = "let a language model judge the answers of a run, through an OpenAI-compatible server",
    .arguments = "RUN_DIR --endpoint URL --model NAME",
    .wanted = "the folder of a run",
    .details =
        "RUN_DIR is a folder that metier eval wrote. metier sends every answer with its question and\n"
        "reference, and appends the verdicts (correct, incorrect, unsure) to RUN_DIR/judge_TASK.jsonl. It\n"
        "prints how well they agree with the rules, and with a person (metier review), and stores this in\n"
        "results.json. Answers that have a verdict are not sent again, so after a stop the same command "
        "goes\n"
        "on. With another model, endpoint or prompt all answers are judged again. A reply without a verdict\n"
        "is requested again, three times in all, and then counted as unreadable.\n"
        "The key comes from the environment and is sent only to the endpoint. The exit status is 1 if an\n"
        "answer got no verdict.",
    .examples =
        "  metier judge runs/eval --endpoint https://api.openai.com/v1 --model gpt-4.1\n"
        "  metier judge runs/eval --endpoint http://localhost:8000/v1 --model judge --parallel 16\n"
        "  metier judge runs/eval --endpoint https://host/v1 --model m --key-env MY_KEY --tasks gsm8k",
    .run = run_verb,
};
