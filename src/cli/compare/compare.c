/* metier compare: methods on domains with seeds. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/compare/compare.h"
#include "cli/shared/share.h"
#include "cli/shared/table.h"

#define ARENA_BLOCK_BYTES 65536

struct arguments {
    bool quiet, keys, tables;
    struct compare_outputs outputs;
    const char *config;
    const char *const *words; // borrowed from argv
    size_t word_count;
};

static enum mt_status print_keys(void)
{
    struct mt_compare_key key;
    for (int i = 0; mt_compare_key_listed(i, &key); i++)
        cli_print_key(20, key.name, key.meaning, key.values, key.standard);
    return MT_OK;
}

static int report_interruption(const struct arguments *arguments, int signal)
{
    (void)fprintf(stderr, "metier compare: stopped; the same command goes on: metier compare %s",
                  arguments->config);
    for (size_t i = 0; i < arguments->word_count; i++) (void)fprintf(stderr, " %s", arguments->words[i]);
    (void)fprintf(stderr, "\n");
    return 128 + signal;
}

static enum mt_status run(struct mt_context *ctx, const struct arguments *arguments, struct mt_arena *arena,
                          int *exit_status)
{
    struct mt_compare_settings settings;
    struct mt_comparison comparison = {0};
    struct mt_log log;
    bool interrupted = false;
    int signal = 0;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    struct mt_comparison_options options = {
        .log = &log, .terminal = arguments->quiet ? NULL : stderr, .signals = true};
    enum mt_status status = mt_compare_settings_read(ctx, arguments->config, arguments->words,
                                                     arguments->word_count, arena, &settings);
    if (status == MT_OK) status = cli_find_templates(arena, "plain", &options.templates);
    if (status == MT_OK) status = mt_comparison_open(ctx, &settings, &options, &comparison);
    if (status == MT_OK && !arguments->tables)
        status = mt_comparison_run(&comparison, &options, &interrupted, &signal);
    if (status == MT_OK && interrupted) *exit_status = report_interruption(arguments, signal);
    if (status == MT_OK && !interrupted) status = compare_print(&comparison);
    if (status == MT_OK && !interrupted) status = compare_write(&comparison, &arguments->outputs);
    if (status == MT_OK && !interrupted && comparison.failed > 0) *exit_status = 1;
    mt_comparison_close(&comparison);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct arguments arguments = {0};
    const struct cli_option options[] = {
        {"--keys", CLI_FLAG, &arguments.keys, NULL, "list every key of the file, its values and default"},
        {"--tables", CLI_FLAG, &arguments.tables, NULL, "train nothing: show the cells that are there"},
        {"--markdown", CLI_TEXT, &arguments.outputs.markdown, "FILE", "the report as Markdown, too"},
        {"--png", CLI_TEXT, &arguments.outputs.png, "DIR", "its pictures, which the Markdown links"},
        {"--chart-js", CLI_TEXT, &arguments.outputs.chart_js, "FILE",
         "Chart.js 3, when it is not where Debian puts it"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress on the terminal"},
        {0},
    };
    struct mt_arena arena;
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    const struct cli_void rules[] = {
        {arguments.keys, "--tables --markdown --png --chart-js --quiet", "with --keys"},
        {arguments.tables, "--quiet", "with --tables: nothing is trained"},
    };
    status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    if (status != MT_OK) return status;
    if (arguments.keys) return print_keys();
    if (call->positional_count == 0)
        return mt_fail(call->ctx, MT_ERR_USAGE,
                       "a configuration file is missing; --keys lists what it may say");
    arguments.config = call->positional[0];
    arguments.words = call->positional + 1;
    arguments.word_count = (size_t)call->positional_count - 1;
    mt_arena_init(&arena, call->ctx, ARENA_BLOCK_BYTES);
    status = run(call->ctx, &arguments, &arena, &call->exit_status);
    mt_arena_free(&arena);
    return status;
}

const struct cli_verb cli_verb_compare = {
    .name = "compare",
    .summary = "methods on domains with seeds: trained, measured, held against each other",
    .arguments = "CONFIG.yaml [KEY=VALUE ...]",
    .counts_arguments = true,
    .details =
        "Every method is trained on every domain with every seed, a cell each, and measured on held-out\n"
        "problems of that domain and of the others. Out come tables, OUT/compare.json and\n"
        "OUT/report.html: accuracy with significance, balance, geometry, curves, a picture of tokens,\n"
        "sensitivity, seconds per step. Cells that are done are not repeated: the same command goes on\n"
        "after a stop of any kind, unless model or data hold something else than when a cell was made.\n"
        "A cell that fails is named and the others go on; the exit status is then 1.\n"
        "--keys lists the keys of the file; docs/compare.md explains them.",
    .examples = "  metier compare share/configs/compare-demo.yaml\n"
                "  metier compare share/configs/compare-paper.yaml --markdown tables.md\n"
                "  metier compare share/configs/compare-demo.yaml out=again seeds=[1,2,3] training.steps=50",
    .run = run_verb,
};
