/* metier compare: methods on domains with seeds. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/compare/compare.h"
#include "cli/train/train.h"
#include "cli/verbs.h"

#define ARENA_BLOCK_BYTES 65536

struct arguments {
    bool quiet, keys, tables;
    struct compare_outputs outputs;
    const char *config;
    const char *const *words; // borrowed from argv
    size_t word_count;
};

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
    if (status == MT_OK) status = train_find_templates(ctx, arena, "plain", &options.templates);
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

int cli_compare(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
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
    };
    struct cli_arguments given;
    struct mt_arena arena;
    int exit_status = 0;
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status =
        cli_parse(ctx, verb, options, (int)(sizeof options / sizeof options[0]), argc, argv, &given);
    if (status == MT_OK && given.help_shown) return 0;
    const struct cli_void rules[] = {
        {arguments.keys, "--tables --markdown --png --chart-js --quiet", "with --keys"},
        {arguments.tables, "--quiet", "with --tables: nothing is trained"},
    };
    if (status == MT_OK) status = cli_refuse_void(ctx, &given, rules, sizeof rules / sizeof rules[0]);
    if (status == MT_OK && arguments.keys) {
        mt_keys_print(stdout, &mt_compare_keys, 20);
    } else if (status == MT_OK && given.positional_count == 0) {
        status = mt_fail(ctx, MT_ERR_USAGE, "a configuration file is missing; --keys lists what it may say");
    } else if (status == MT_OK) {
        arguments.config = given.positional[0];
        arguments.words = given.positional + 1;
        arguments.word_count = (size_t)given.positional_count - 1;
        status = run(ctx, &arguments, &arena, &exit_status);
    }
    mt_arena_free(&arena);
    return status == MT_OK ? exit_status : cli_fail(ctx, verb, status);
}
