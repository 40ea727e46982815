/* metier adapter: what an adapter is, the lines that load it, and the same adapter in another layout. */
#include "cli/adapter/adapter.h"

#include <stdio.h>

#include "cli/cli.h"

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

static enum mt_status check(struct mt_context *ctx, const struct settings *settings)
{
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

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {0};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &settings.model, "DIR", "the model the adapter is for"},
        {"--layout", CLI_TEXT, &settings.layout, "HOW", "with --out: auto, per-expert, fused or vllm (auto)"},
        {"--out", CLI_TEXT, &settings.out, "DIR",
         "write the adapter in that layout; must not exist, or be empty"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(call->ctx, &settings);
    return status == MT_OK ? run(call->ctx, &settings, call->positional[0]) : status;
}

const struct cli_verb cli_verb_adapter = {
    .name = "adapter",
    .summary = "an adapter in another layout, and the lines of Python that load it",
    .arguments = "ADAPTER --model DIR",
    .wanted = "an adapter's folder",
    .details =
        "ADAPTER is the folder of a PEFT adapter, as metier train or PEFT writes it, DIR that of its model.\n"
        "Printed are its layout and the lines of Python that load it; with --out it is written anew, with\n"
        "the same values, in the layout that\n"
        "  auto        PEFT with transformers >= 5.22 loads right for this model\n"
        "  fused       transformers 5 has: one pair for all experts of a layer\n"
        "  per-expert  transformers 4 has: a pair for each map of each expert, names of the checkpoint\n"
        "  vllm        vLLM insists on: per-expert, with zeros for experts that have no pair\n"
        "The folder appears whole or not at all. docs/adapters.md says what is right where.",
    .examples =
        "  metier adapter runs/first/adapter --model models/moe\n"
        "  metier adapter runs/first/adapter --model models/moe --layout vllm --out runs/first/adapter-vllm\n"
        "  metier adapter downloaded --model models/moe --out for-transformers-5",
    .run = run_verb,
};
