/* metier adapter: what an adapter is, the lines that load it, and the same adapter in another layout. */
#include "cli/adapter/adapter.h"

#include <stdio.h>

#include "cli/verbs.h"

struct settings {
    const char *model;
    const char *layout;
    const char *out;
};

enum mt_status cli_read_layout(struct mt_context *ctx, const char *option, const char *word,
                               enum mt_adapter_layout *layout)
{
    if (mt_adapter_layout_find(word, layout)) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s is '%s', expected auto, per-expert, fused or vllm", option, word);
}

static enum mt_status check(struct mt_context *ctx, const struct settings *settings,
                            const struct cli_arguments *arguments)
{
    if (arguments->positional_count == 0) return mt_fail(ctx, MT_ERR_USAGE, "an adapter's folder is missing");
    if (arguments->positional_count > 1)
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", arguments->positional[1]);
    if (settings->model == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--model DIR is missing");
    if (settings->layout != NULL && settings->out == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--layout is for --out DIR, which is missing");
    return MT_OK;
}

static enum mt_status describe(struct mt_context *ctx, const char *model, const char *directory)
{
    struct mt_adapter adapter;
    enum mt_status status = mt_adapter_open_for(ctx, directory, model, &adapter);
    if (status != MT_OK) return status;
    printf("%s: %s layout, %zu pairs of rank %d, alpha %g\n", directory,
           mt_adapter_layout_name(adapter.layout), adapter.module_count, adapter.rank, adapter.alpha);
    mt_adapter_close(&adapter);
    return MT_OK;
}

static enum mt_status run(struct mt_context *ctx, const struct settings *settings, const char *directory)
{
    struct mt_log log;
    struct mt_adapter_rewrite_options options = {
        .adapter = directory, .model = settings->model, .directory = settings->out, .log = &log};
    const char *layout = settings->layout != NULL ? settings->layout : "auto";
    const char *result = settings->out != NULL ? settings->out : directory;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    enum mt_status status = cli_read_layout(ctx, "--layout", layout, &options.layout);
    if (status == MT_OK && settings->out != NULL) status = mt_adapter_rewrite(ctx, &options);
    if (status == MT_OK) status = describe(ctx, settings->model, result);
    if (status == MT_OK) status = cli_print_adapter_lines(ctx, settings->model, result);
    return status;
}

int cli_adapter(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
{
    struct settings settings = {0};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &settings.model, "DIR", "the model the adapter is for"},
        {"--layout", CLI_TEXT, &settings.layout, "HOW", "with --out: auto, per-expert, fused or vllm (auto)"},
        {"--out", CLI_TEXT, &settings.out, "DIR",
         "write the adapter in that layout; must not exist, or be empty"},
    };
    struct cli_arguments arguments;
    enum mt_status status =
        cli_parse(ctx, verb, options, (int)(sizeof options / sizeof options[0]), argc, argv, &arguments);
    if (status == MT_OK && arguments.help_shown) return 0;
    if (status == MT_OK) status = check(ctx, &settings, &arguments);
    if (status == MT_OK) status = run(ctx, &settings, arguments.positional[0]);
    return status == MT_OK ? 0 : cli_fail(ctx, verb, status);
}
