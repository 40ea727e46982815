/* metier report: the page of one run or several. */
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "cli/cli.h"
#include "cli/shared/page_files.h"
#include "cli/shared/share.h"
#include "compare/board/board.h"
#include "report/report.h"
#include "report/routing_page.h"

#define MOST_RUNS 16
#define MOST_PAGE ((size_t)4 << 20)

struct settings {
    struct cli_page_files files;
    const char *title;
    const char *routing; // file of recorded answers; NULL: runs
};

static enum mt_status check(const struct settings *settings, const struct cli_call *call)
{
    if (settings->routing != NULL) {
        const struct cli_void alone[] = {
            {true, "--markdown --latex --csv --png --svg --data --title --chart-js", "with --routing"}};
        if (call->positional_count > 0)
            return mt_fail(call->ctx, MT_ERR_USAGE, "--routing makes a separate page: leave out the runs");
        if (settings->files.html == NULL)
            return mt_fail(call->ctx, MT_ERR_USAGE, "nothing to write: give --out FILE.html");
        return cli_refuse_void(call, alone, 1);
    }
    if (call->positional_count == 0)
        return mt_fail(call->ctx, MT_ERR_USAGE, "the folder of a run is missing");
    if (!cli_page_files_any(&settings->files))
        return mt_fail(call->ctx, MT_ERR_USAGE,
                       "nothing to write: give --out FILE.html, --markdown FILE, --latex FILE, --csv DIR, "
                       "--png DIR, --svg DIR or --data DIR");
    const struct cli_void rules[] = {
        {settings->files.html == NULL, "--chart-js", "without --out"},
        {settings->files.html == NULL && settings->files.markdown == NULL, "--title",
         "without --out or --markdown"},
    };
    return cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
}

/* Runs of the same name in different folders are called by their paths. */
static enum mt_status read_runs(struct mt_context *ctx, const struct cli_call *arguments, struct mt_run *runs)
{
    int count = arguments->positional_count;
    bool same[MOST_RUNS] = {false};
    enum mt_status status = MT_OK;
    for (int i = 0; i < count && status == MT_OK; i++)
        status = mt_run_read(ctx, arguments->positional[i], &runs[i]);
    for (int i = 0; i < count && status == MT_OK; i++) {
        for (int k = 0; k < count; k++) {
            if (i == k || strcmp(runs[i].name, runs[k].name) != 0) continue;
            if (strcmp(runs[i].path, runs[k].path) == 0)
                return mt_fail(ctx, MT_ERR_USAGE, "%s is given twice", runs[i].path);
            same[i] = true;
        }
    }
    for (int i = 0; i < count && status == MT_OK; i++) {
        if (same[i]) runs[i].name = runs[i].path;
    }
    return status;
}

/* Comparisons become a leaderboard, and are not mixed with runs. */
static enum mt_status count_comparisons(const struct cli_call *call, int *comparisons)
{
    *comparisons = 0;
    for (int i = 0; i < call->positional_count; i++)
        *comparisons += mt_board_is_comparison(call->positional[i]) ? 1 : 0;
    int count = call->positional_count;
    int most = *comparisons > 0 ? MT_BOARD_MOST_FILES : MOST_RUNS;
    if (count > most)
        return mt_fail(call->ctx, MT_ERR_USAGE, "%d %s are given, at most %d fit on a page", count,
                       *comparisons > 0 ? "comparisons" : "runs", most);
    for (int i = 0; i<count && * comparisons> 0; i++) {
        if (!mt_board_is_comparison(call->positional[i]))
            return mt_fail(
                call->ctx, MT_ERR_USAGE,
                "%.300s is not a comparison, but others are: give compare.json files or folders of runs",
                call->positional[i]);
    }
    return MT_OK;
}

static enum mt_status run_board(struct mt_context *ctx, const struct settings *settings,
                                const struct cli_call *arguments)
{
    struct mt_page page = {0};
    mt_page_init(&page, ctx, settings->title != NULL ? settings->title : "Leaderboard");
    mt_page_subtitle(&page, "metier report");
    enum mt_status status = mt_board_build(&page, (const char *const *)arguments->positional,
                                           (size_t)arguments->positional_count);
    if (status == MT_OK) status = cli_save_page(&page, &settings->files, "");
    mt_page_free(&page);
    return status;
}

static enum mt_status run(struct mt_context *ctx, const struct settings *settings,
                          const struct cli_call *arguments)
{
    struct mt_run runs[MOST_RUNS] = {{0}};
    struct mt_page page = {0};
    size_t count = (size_t)arguments->positional_count;
    char title[256];
    enum mt_status status = read_runs(ctx, arguments, runs);
    if (status == MT_OK) {
        (void)snprintf(title, sizeof title, count > 1 ? "%zu runs" : "Run", count);
        if (count == 1) (void)snprintf(title, sizeof title, "Run %.200s", runs[0].name);
        mt_page_init(&page, ctx, settings->title != NULL ? settings->title : title);
        mt_page_subtitle(&page, "metier report");
        status = mt_report_build(&page, runs, count);
    }
    if (status == MT_OK) status = cli_save_page(&page, &settings->files, "");
    mt_page_free(&page);
    for (size_t i = 0; i < count; i++) mt_run_free(&runs[i]);
    return status;
}

/* The page of recorded answers. */
static enum mt_status run_routing(struct mt_context *ctx, const struct settings *settings)
{
    struct mt_arena arena;
    struct mt_byte_list html = {.ctx = ctx};
    const char *folder = NULL;
    char path[4096];
    void *page = NULL;
    size_t bytes = 0;
    mt_arena_init(&arena, ctx, sizeof path);
    enum mt_status status = cli_find_share(&arena, "serve", "the page", &folder);
    if (status == MT_OK) {
        (void)snprintf(path, sizeof path, "%s/page.html", folder);
        status = mt_file_read_all(ctx, path, MOST_PAGE, &page, &bytes);
    }
    if (status == MT_OK) status = mt_routing_page(ctx, settings->routing, page, bytes, &html);
    if (status == MT_OK) status = mt_file_write_all(ctx, settings->files.html, html.data, html.count);
    if (status == MT_OK) printf("written: %s\n", settings->files.html);
    mt_release(ctx, page, bytes);
    mt_byte_list_free(&html);
    mt_arena_free(&arena);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {0};
    const struct cli_option options[] = {
        {"--out", CLI_TEXT, &settings.files.html, "FILE", "the page: one HTML file that needs nothing else"},
        {"--markdown", CLI_TEXT, &settings.files.markdown, "FILE",
         "the same as Markdown; with --png it links the pictures"},
        {"--latex", CLI_TEXT, &settings.files.latex, "FILE",
         "its tables for \\input (booktabs); with --png it includes the pictures"},
        {"--csv", CLI_TEXT, &settings.files.csv, "DIR", "its tables, a CSV file each"},
        {"--png", CLI_TEXT, &settings.files.png, "DIR", "a picture of every figure"},
        {"--svg", CLI_TEXT, &settings.files.svg, "DIR", "the same as SVG"},
        {"--data", CLI_TEXT, &settings.files.data, "DIR", "every figure's numbers, as CSV and JSON"},
        {"--title", CLI_TEXT, &settings.title, "TEXT", "of the page"},
        {"--routing", CLI_TEXT, &settings.routing, "FILE",
         "instead of runs: answers of metier serve with their routing, one JSON line each"},
        {"--chart-js", CLI_TEXT, &settings.files.chart_js, "FILE",
         "Chart.js 3, if it is not where Debian installs it"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    int comparisons = 0;
    status = check(&settings, call);
    if (status == MT_OK && settings.routing != NULL) return run_routing(call->ctx, &settings);
    if (status == MT_OK) status = count_comparisons(call, &comparisons);
    if (status != MT_OK) return status;
    return comparisons > 0 ? run_board(call->ctx, &settings, call) : run(call->ctx, &settings, call);
}

const struct cli_verb cli_verb_report = {
    .name = "report",
    .summary =
        "show runs on one page: curves, loads, results, settings; also as Markdown, LaTeX, pictures, CSV",
    .arguments = "RUN...",
    .counts_arguments = true,
    .details =
        "RUN is a folder of metier train (out), eval or analyze (--out); if they wrote to the same folder, "
        "they\n"
        "are one run. Several runs share the figures, with their differences to the first.\n"
        "The page is one HTML file that needs no network. Each figure says what it means and which formula\n"
        "made it, and has its numbers as CSV and JSON. If a run lacks something, a line says how to get it.\n"
        "RUN may also be a compare.json, or a folder with one. One or more of these make a leaderboard:\n"
        "methods by bases by metrics, with 95 % intervals. To add rows, add files.",
    .examples = "  metier report runs/first --out first.html\n"
                "  metier report runs/first runs/wide runs/metier --out compared.html --title 'Three runs'\n"
                "  metier report runs/first --markdown first.md --png pictures --data numbers\n"
                "  metier report runs/first --latex tables.tex --csv tables --svg figures\n"
                "  metier report build/demo/compare.json --out board.html     # a leaderboard: more files, "
                "more rows\n"
                "  metier report --routing answers.jsonl --out experts.html     # the experts of each token\n"
                "  metier report eval-moe runs/base --out base.html",
    .run = run_verb,
};
