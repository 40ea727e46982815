/* metier compare: methods on domains with seeds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "cli/cli.h"
#include "cli/compare/plan.h"
#include "cli/shared/page_files.h"
#include "cli/shared/ranks.h"
#include "cli/shared/share.h"
#include "cli/shared/table.h"
#include "compare/page.h"
#include "compare/page/few_experts.h"
#include "formats/text/printable.h"
#include "train/settings/settings.h"

#define ARENA_BLOCK_BYTES 65536
#define PATH_BYTES        4096
#define MOST_SHARES       100000

// ------------------------------------------------------------------ the table

/* A column of every method as texts, and what the base has. */
struct column_text {
    char base[MT_COMPARE_TEXT_BYTES];
    char method[MT_COMPARE_MOST_METHODS][MT_COMPARE_TEXT_BYTES];
};

/* Behind a figure, so that figures of one column end in one line whether they are marked or not. */
static void add_mark(char text[MT_COMPARE_TEXT_BYTES], int mark)
{
    size_t length = strlen(text);
    (void)snprintf(text + length, MT_COMPARE_TEXT_BYTES - length, "%s",
                   mark == 1   ? " *"
                   : mark == 2 ? " +"
                               : "  ");
}

static void fill_task(const struct mt_comparison *comparison, size_t model, size_t task,
                      struct column_text *text)
{
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    int mark[MT_COMPARE_MOST_METHODS];
    size_t column = mt_compare_task_column(task);
    const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, column);
    const struct mt_moments of_base = mt_compare_base(comparison, model, column, MT_ALL_DOMAINS);
    mt_compare_summarize(comparison, model, column, MT_ALL_DOMAINS, summary);
    mt_compare_marks(comparison, summary, column, mark);
    (void)mt_compare_mean_text(text->base, row, &of_base);
    add_mark(text->base, 0);
    for (size_t m = 0; m < comparison->settings->methods; m++) {
        (void)mt_compare_mean_text(text->method[m], row, &summary[m].moments);
        add_mark(text->method[m], mark[m]);
    }
}

static void fill_ranks(const struct mt_comparison *comparison, size_t model, struct column_text *text)
{
    double rank[MT_COMPARE_MOST_METHODS];
    mt_compare_ranks(comparison, model, MT_ALL_DOMAINS, rank);
    (void)snprintf(text->base, sizeof text->base, "–");
    for (size_t m = 0; m < comparison->settings->methods; m++)
        (void)snprintf(text->method[m], sizeof text->method[m], isnan(rank[m]) ? "–" : "%.2f", rank[m]);
}

/* Methods and benchmarks of one model: mean ± deviation over seeds; and the mean of a method's places. */
static enum mt_status print_tasks(const struct mt_comparison *comparison, size_t model)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct cli_column columns[MT_COMPARE_MOST_TASKS + 2] = {{"method", false}};
    const char *cells[MT_COMPARE_MOST_TASKS + 2] = {MT_COMPARE_BASE};
    size_t count = comparison->tasks.count + 1; // and the rank
    struct cli_table table;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(comparison->ctx, count, sizeof(struct column_text), &memory);
    if (status != MT_OK) return status;
    struct column_text *text = memory;
    for (size_t t = 0; t < count; t++) {
        bool last = t + 1 == count;
        columns[t + 1] = (struct cli_column){last ? "rank" : comparison->task_row[t].title, true};
        if (last)
            fill_ranks(comparison, model, &text[t]);
        else
            fill_task(comparison, model, t, &text[t]);
        cells[t + 1] = text[t].base;
    }
    cli_table_init(&table, comparison->ctx, columns, (int)count + 1);
    cli_table_row(&table, cells);
    for (size_t m = 0; m < settings->methods; m++) {
        cells[0] = settings->method[m].name;
        for (size_t t = 0; t < count; t++) cells[t + 1] = text[t].method[m];
        cli_table_row(&table, cells);
    }
    status = cli_table_print(&table, stdout);
    mt_release(comparison->ctx, memory, count * sizeof(struct column_text));
    return status;
}

/* Fixed figures of one model. */
static enum mt_status print_figures(const struct mt_comparison *comparison, size_t model)
{
    static const enum mt_compare_figure shown[] = {
        MT_COMPARE_ACCURACY, MT_COMPARE_ACCURACY_OTHERS, MT_COMPARE_LOSS,      MT_COMPARE_MAXVIO,
        MT_COMPARE_OVERLAP,  MT_COMPARE_SILHOUETTE,      MT_COMPARE_RV_TOKEN,  MT_COMPARE_ABS_COS,
        MT_COMPARE_SECONDS,  MT_COMPARE_SAME_EXPERTS,    MT_COMPARE_SAME_SLOTS};
    enum { SHOWN = sizeof shown / sizeof shown[0], AGREEMENT = 2 };
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    struct cli_column columns[SHOWN + 1] = {{"method", false}};
    char text[SHOWN][MT_COMPARE_TEXT_BYTES];
    struct cli_table table;
    int count = settings->agreement ? SHOWN : SHOWN - AGREEMENT;
    for (int i = 0; i < count; i++)
        columns[i + 1] = (struct cli_column){mt_compare_figure_row(shown[i])->title, true};
    cli_table_init(&table, comparison->ctx, columns, count + 1);
    if (mt_compare_has_base(comparison, model)) {
        const char *cells[SHOWN + 1] = {MT_COMPARE_BASE};
        for (int i = 0; i < count; i++) {
            struct mt_moments base = mt_compare_base(comparison, model, shown[i], MT_ALL_DOMAINS);
            cells[i + 1] = mt_compare_mean_text(text[i], mt_compare_figure_row(shown[i]), &base);
        }
        cli_table_row(&table, cells);
    }
    for (size_t m = 0; m < settings->methods; m++) {
        const char *cells[SHOWN + 1] = {settings->method[m].name};
        for (int i = 0; i < count; i++) {
            mt_compare_summarize(comparison, model, shown[i], MT_ALL_DOMAINS, summary);
            cells[i + 1] =
                mt_compare_mean_text(text[i], mt_compare_figure_row(shown[i]), &summary[m].moments);
        }
        cli_table_row(&table, cells);
    }
    return cli_table_print(&table, stdout);
}

/* Whole answers of one model on the parts of a mix. */
static enum mt_status print_parts(const struct mt_comparison *comparison, size_t model, size_t mix)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_compare_figure_row *row = mt_compare_figure_row(MT_COMPARE_ACCURACY);
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    struct cli_column columns[MT_COMPARE_MOST_DOMAINS + 1] = {{"exact %", false}};
    char text[MT_COMPARE_MOST_DOMAINS][MT_COMPARE_TEXT_BYTES];
    struct cli_table table;
    size_t count = 0;
    const size_t *parts = mt_compare_parts(settings, mix, &count);
    for (size_t i = 0; i < count; i++)
        columns[i + 1] = (struct cli_column){settings->domain[parts[i]].name, true};
    printf("\n");
    cli_table_init(&table, comparison->ctx, columns, (int)count + 1);
    const struct mt_cell_result *start = &mt_comparison_start(comparison, model, mix)->result;
    if (start->known) {
        const char *cells[MT_COMPARE_MOST_DOMAINS + 1] = {MT_COMPARE_BASE};
        for (size_t i = 0; i < count; i++) {
            struct mt_moments base = mt_moments(&start->by_domain[parts[i]][MT_COMPARE_ACCURACY], 1);
            cells[i + 1] = mt_compare_mean_text(text[i], row, &base);
        }
        cli_table_row(&table, cells);
    }
    for (size_t m = 0; m < settings->methods; m++) {
        const char *cells[MT_COMPARE_MOST_DOMAINS + 1] = {settings->method[m].name};
        for (size_t i = 0; i < count; i++) {
            mt_compare_summarize_part(comparison, model, MT_COMPARE_ACCURACY, mix, parts[i], summary);
            cells[i + 1] = mt_compare_mean_text(text[i], row, &summary[m].moments);
        }
        cli_table_row(&table, cells);
    }
    return cli_table_print(&table, stdout);
}

/* Whole answers of one model with the best experts by the first score alone. */
static enum mt_status print_few(const struct mt_comparison *comparison, size_t model)
{
    enum { MOST = 9 };
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_compare_pruning *pruning = &settings->pruning;
    const struct mt_compare_figure_row *row = mt_compare_figure_row(MT_COMPARE_ACCURACY);
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    struct cli_column columns[MOST + 1] = {{"few experts", false}};
    char title[MOST][32], text[MOST][MT_COMPARE_TEXT_BYTES];
    size_t column[MOST];
    struct cli_table table;
    size_t count = pruning->bys * pruning->keeps < MOST ? pruning->bys * pruning->keeps : MOST;
    for (size_t i = 0; i < count; i++) {
        size_t by = i / pruning->keeps;
        size_t keep = i % pruning->keeps;
        (void)snprintf(title[i], sizeof title[i], "%s %.12s", mt_compare_by_name(pruning->by[by]),
                       pruning->keep[keep]);
        columns[i + 1] = (struct cli_column){title[i], true};
        size_t place = mt_compare_asking_kept(settings, 0, by, keep);
        column[i] = mt_compare_probe_column(comparison, settings->prune.count + settings->at.count + place,
                                            MT_PROBE_ACCURACY);
    }
    cli_table_init(&table, comparison->ctx, columns, (int)count + 1);
    for (size_t m = 0; m <= settings->methods; m++) {
        const char *cells[MOST + 1] = {m == 0 ? MT_COMPARE_BASE : settings->method[m - 1].name};
        if (m == 0 && !mt_compare_has_base(comparison, model)) continue;
        for (size_t i = 0; i < count; i++) {
            struct mt_moments shown = mt_compare_base(comparison, model, column[i], MT_ALL_DOMAINS);
            mt_compare_summarize(comparison, model, column[i], MT_ALL_DOMAINS, summary);
            if (m > 0) shown = summary[m - 1].moments;
            cells[i + 1] = mt_compare_mean_text(text[i], row, &shown);
        }
        cli_table_row(&table, cells);
    }
    return cli_table_print(&table, stdout);
}

/* "HEADLINE TEXT" in lines of at most LINE_BYTES. */
static void print_sentence(enum mt_few_verdict verdict, const char *headline, const char *text)
{
    enum { LINE_BYTES = 110 };
    char all[2 * MT_FEW_TEXT_BYTES];
    size_t used = 0;
    if (verdict == MT_FEW_NOTHING) return;
    (void)snprintf(all, sizeof all, "%s %s", headline, text);
    for (const char *word = all; *word != '\0';) {
        size_t length = strcspn(word, " ");
        bool fits = used + 1 + length <= LINE_BYTES;
        printf("%s%.*s", used == 0 ? "" : fits ? " " : "\n", (int)length, word);
        used = used > 0 && fits ? used + 1 + length : length;
        word += length + strspn(word + length, " ");
    }
    printf("\n");
}

/* What few experts answer comes first: a sentence for each model and one for all, then tables. */
static enum mt_status print_few_first(const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    char headline[MT_FEW_TEXT_BYTES], text[MT_FEW_TEXT_BYTES];
    struct mt_few_experts few;
    enum mt_status status = MT_OK;
    if (settings->pruning.keeps == 0) return MT_OK;
    for (size_t i = 0; i < settings->models; i++)
        print_sentence(mt_few_methods(comparison, i, headline, text), headline, text);
    print_sentence(mt_few_models(comparison, headline, text), headline, text);
    for (size_t i = 0; i < settings->models && status == MT_OK; i++) {
        if (!mt_few_experts(comparison, i, &few)) continue;
        printf("\n");
        if (settings->models > 1) printf("%s\n", settings->model[i].name);
        status = print_few(comparison, i);
    }
    printf("\n");
    return status;
}

static enum mt_status print_tables(const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    enum mt_status status = print_few_first(comparison);
    for (size_t i = 0; i < settings->models && status == MT_OK; i++) {
        if (settings->models > 1) printf("%s%s\n", i == 0 ? "" : "\n", settings->model[i].name);
        if (comparison->tasks.count > 0) {
            status = print_tasks(comparison, i);
            if (status == MT_OK) printf("\n");
        }
        if (status == MT_OK) status = print_figures(comparison, i);
        for (size_t d = 0; d < settings->trained && status == MT_OK; d++)
            status = settings->domain[d].mix ? print_parts(comparison, i, d) : MT_OK;
    }
    return status;
}

/* The most domains that a cell is measured on and not trained on. */
static size_t count_others(const struct mt_compare_settings *settings)
{
    size_t most = 0;
    for (size_t d = 0; d < settings->trained; d++) {
        size_t others = 0;
        for (size_t k = 0; k < settings->domains; k++)
            others += settings->domain[k].mix || mt_compare_is_part(settings, d, k) ? 0 : 1;
        if (others > most) most = others;
    }
    return most;
}

static void print_domain(const struct mt_compare_settings *settings, size_t domain)
{
    size_t count = 0;
    const size_t *parts = mt_compare_parts(settings, domain, &count);
    printf(" %s", settings->domain[domain].name);
    if (!settings->domain[domain].mix) return;
    for (size_t i = 0; i < count; i++) printf("%s%s", i == 0 ? " (" : ", ", settings->domain[parts[i]].name);
    printf(")");
}

/* What the numbers are of, and what they cannot say. `ran`: cells were, if there were any to run. */
static void print_notes(const struct mt_comparison *comparison, bool ran)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t others = count_others(settings);
    printf("\ntrained on");
    for (size_t d = 0; d < settings->trained; d++) print_domain(settings, d);
    printf(", measured on held-out problems");
    if (others > 0)
        printf("; others: of the other %s",
               others == 1 ? "domain" : mt_counted(others, "domain", "domains").text);
    printf("; ");
    if (settings->seeds > 1)
        printf("mean ± standard deviation over %zu seeds\n", settings->seeds);
    else
        printf("one seed: differences may be chance\n");
    if (comparison->tasks.count > 0)
        printf("benchmarks: each task's own metric; * best, + second; rank: mean of the places over them\n"
               "exact: whole answers to built-in or held-out problems, token by token\n");
    if (settings->pruning.keeps > 0)
        printf("few experts: exact %% when only the best of every layer stay by %s, on data of the domain "
               "that is "
               "asked (own), of all (mix), of another (other)\n",
               mt_expert_score_kind(settings->pruning.score[0])->name);
    size_t jobs = mt_comparison_jobs(comparison);
    if (ran && comparison->kept > 0)
        printf("of %s and %s, %zu trained and measured now, %zu before\n",
               mt_counted(comparison->cells, "cell", "cells").text,
               mt_counted(jobs - comparison->cells, "base", "bases").text,
               jobs - comparison->kept - comparison->failed - comparison->absent, comparison->kept);
    if (comparison->absent > 0)
        printf("%s for other shares to do, not there yet\n",
               mt_counted(comparison->absent, "cell is", "cells are").text);
}

static enum mt_status print_comparison(const struct mt_comparison *comparison, bool ran)
{
    enum mt_status status = print_tables(comparison);
    if (status == MT_OK) print_notes(comparison, ran);
    for (size_t i = 0; i < mt_comparison_jobs(comparison); i++) {
        const struct mt_cell *cell = mt_comparison_job(comparison, i);
        if (cell->failure != NULL) printf("failed: %s: %s\n", cell->name, cell->failure);
    }
    return status;
}

// ------------------------------------------------------------------ files

/* OUT/NAME. */
static enum mt_status path_in(const struct mt_comparison *comparison, const char *name, char path[PATH_BYTES])
{
    const char *out = comparison->settings->out;
    int length = snprintf(path, PATH_BYTES, "%s/%s", out, name);
    if (length >= 0 && length < PATH_BYTES) return MT_OK;
    return mt_fail(comparison->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", out);
}

/* OUT/report.html and what `files` asks for. */
static enum mt_status write_page(const struct mt_comparison *comparison, struct cli_page_files files)
{
    char html[PATH_BYTES];
    struct mt_page page = {0};
    enum mt_status status = path_in(comparison, "report.html", html);
    if (status != MT_OK) return status;
    mt_page_init(&page, comparison->ctx, "Comparison");
    status = mt_comparison_page(comparison, &page);
    files.html = html;
    if (status == MT_OK) status = cli_save_page(&page, &files, "         ");
    mt_page_free(&page);
    return status;
}

struct arguments {
    bool quiet, keys, tables, dry_run;
    const char *share;
    struct cli_page_files files;
    const char *config;
    const char *const *words; // borrowed from argv
    size_t word_count;
};

/* "metier compare: WORDS: metier compare CONFIG KEY=VALUE ... OPTION" */
static void tell_command(const struct arguments *arguments, const char *words, const char *option)
{
    (void)fprintf(stderr, "metier compare: %s: metier compare %s", words, arguments->config);
    for (size_t i = 0; i < arguments->word_count; i++) (void)fprintf(stderr, " %s", arguments->words[i]);
    (void)fprintf(stderr, "%s\n", option);
}

/* What every rank knows. */
struct comparing {
    struct mt_context *ctx;
    const struct arguments *arguments;
    struct mt_arena *arena;
};

/* In what form benchmarks were put, and which of them not as cells were trained. */
static void tell_of_forms(const struct mt_comparison *comparison, const struct mt_log *log)
{
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        const struct mt_cell_task *asked = mt_comparison_form(comparison, t);
        const char *name = comparison->tasks.task[t].name;
        if (asked == NULL) continue;
        printf("form of %s: ", name);
        (void)mt_show_text(stdout, asked->form, strlen(asked->form));
        printf("\n");
        if (asked->form_differs) mt_log_warning(log, "%s is %s", name, asked->form);
    }
    if (comparison->tasks.count > 0) printf("\n");
}

/* compare.json first, then the tables, then the page, which may fail alone; the first rank's. */
static enum mt_status show(const struct mt_comparison *comparison, bool ran,
                           const struct arguments *arguments, const struct mt_log *log)
{
    char json[PATH_BYTES];
    enum mt_status status = path_in(comparison, "compare.json", json);
    if (status == MT_OK) status = mt_comparison_write(comparison, json);
    enum mt_status printed = print_comparison(comparison, ran);
    if (printed == MT_OK) tell_of_forms(comparison, log);
    if (status == MT_OK) status = printed;
    if (status != MT_OK) return status;
    printf("\nwritten: %s\n", json);
    status = write_page(comparison, arguments->files);
    if (status != MT_OK)
        tell_command(arguments, "the results are all written, the page is not; to write it", " --tables");
    return status;
}

/* --share I/N. */
static enum mt_status read_share(struct mt_context *ctx, const char *text, const struct mt_comm *comm,
                                 struct mt_comparison_options *options)
{
    if (text == NULL) return MT_OK;
    char *slash = NULL;
    char *end = NULL;
    unsigned long share = strtoul(text, &slash, 10);
    unsigned long shares = *slash == '/' ? strtoul(slash + 1, &end, 10) : 0;
    // strtoul would take signs and spaces, too.
    bool plain = strspn(text, "0123456789/") == strlen(text) && end != NULL && end > slash + 1 && *end == 0;
    if (!plain || share < 1 || share > shares || shares > MOST_SHARES)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--share is '%s', expected I/N (share I of N, such as 1/4) with N up to %d", text,
                       MOST_SHARES);
    if (mt_comm_size(comm) > 1)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--share %s: ranks already share the cells; leave out --share, or start a single rank",
                       text);
    options->share = share - 1;
    options->shares = shares;
    return MT_OK;
}

/* What one rank does; only the first of them talks. */
static enum mt_status run(void *self, struct mt_comm *comm, int *exit_status)
{
    const struct comparing *comparing = self;
    const struct arguments *arguments = comparing->arguments;
    struct mt_context *ctx = comparing->ctx;
    struct mt_arena *arena = comparing->arena;
    struct mt_compare_settings settings;
    struct mt_comparison comparison = {0};
    struct mt_log log;
    bool interrupted = false;
    int signal = 0;
    bool talks = mt_comm_rank(comm) == 0;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    struct mt_comparison_options options = {.log = &log,
                                            .terminal = arguments->quiet || !talks ? NULL : stderr,
                                            .signals = true,
                                            .comm = comm,
                                            .data = getenv("METIER_DATA")};
    enum mt_status status = mt_compare_settings_read(ctx, arguments->config, NULL, 0, arguments->words,
                                                     arguments->word_count, arena, &settings);
    if (status == MT_OK) status = read_share(ctx, arguments->share, comm, &options);
    if (status == MT_OK) status = cli_find_templates(arena, "plain", &options.templates);
    if (status == MT_OK) status = cli_find_share(arena, "tasks", "tasks", &options.tasks);
    if (status == MT_OK) status = cli_find_share(arena, "recipes", "recipes", &options.recipes);
    if (status == MT_OK) status = mt_comparison_open(ctx, &settings, &options, &comparison);
    if (status == MT_OK && arguments->tables && !mt_comparison_any_known(&comparison))
        status = mt_fail(ctx, MT_ERR_USAGE,
                         "no cell of %s has finished; run the same command without --tables to train them",
                         settings.out);
    status = mt_comm_agree(comm, ctx, status);
    bool runs = !arguments->dry_run && !arguments->tables;
    // The page comes last: what it lacks is better known before hours of training.
    if (status == MT_OK && runs && talks) cli_check_html(arena, arguments->files.chart_js);
    if (status == MT_OK && runs) status = mt_comparison_run(&comparison, &options, &interrupted, &signal);
    if (status == MT_OK && interrupted) *exit_status = 128 + signal;
    if (status == MT_OK && interrupted && talks)
        tell_command(arguments, "stopped; the same command goes on", "");
    bool shows = status == MT_OK && !interrupted && talks;
    if (shows && arguments->dry_run) status = cli_compare_print_plan(&comparison);
    if (shows && !arguments->dry_run) status = show(&comparison, runs, arguments, &log);
    status = mt_comm_agree(comm, ctx, status);
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
        {"--dry-run", CLI_FLAG, &arguments.dry_run, NULL,
         "train nothing, write nothing: cells, benchmarks, memory, disk"},
        {"--share", CLI_TEXT, &arguments.share, "I/N",
         "only the I-th of N shares of the cells; other programs can do the rest at the same time"},
        {"--markdown", CLI_TEXT, &arguments.files.markdown, "FILE",
         "the report as Markdown, too; with --png it links the pictures"},
        {"--latex", CLI_TEXT, &arguments.files.latex, "FILE",
         "its tables for \\input (booktabs); with --png it includes the pictures"},
        {"--csv", CLI_TEXT, &arguments.files.csv, "DIR", "its tables, a CSV file each"},
        {"--png", CLI_TEXT, &arguments.files.png, "DIR", "its pictures"},
        {"--svg", CLI_TEXT, &arguments.files.svg, "DIR", "the same as SVG"},
        {"--chart-js", CLI_TEXT, &arguments.files.chart_js, "FILE",
         "Chart.js 3, if it is not where Debian installs it"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress on the terminal"},
        {0},
    };
    struct mt_arena arena;
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    const struct cli_void rules[] = {
        {arguments.keys, "--tables --dry-run --share --markdown --latex --csv --png --svg --chart-js",
         "with --keys"},
        {arguments.dry_run, "--tables --share --markdown --latex --csv --png --svg --chart-js",
         "with --dry-run: nothing is trained"},
        {arguments.tables, "--share", "with --tables: nothing is trained"},
    };
    status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    if (status == MT_OK && arguments.keys && call->positional_count > 0)
        status =
            mt_fail(call->ctx, MT_ERR_USAGE, "unexpected argument '%s' with --keys", call->positional[0]);
    if (status != MT_OK) return status;
    if (arguments.keys) return cli_print_keys(&mt_compare_keys, 20);
    if (call->positional_count == 0)
        return mt_fail(call->ctx, MT_ERR_USAGE, "a configuration file is missing; --keys lists its keys");
    arguments.config = call->positional[0];
    arguments.words = call->positional + 1;
    arguments.word_count = (size_t)call->positional_count - 1;
    mt_arena_init(&arena, call->ctx, ARENA_BLOCK_BYTES);
    struct comparing comparing = {.ctx = call->ctx, .arguments = &arguments, .arena = &arena};
    status = cli_run_ranks(call, run, &comparing);
    mt_arena_free(&arena);
    return status;
}

static const struct cli_keys keys = {.keys = &mt_compare_keys,
                                     .title = "a configuration of metier compare",
                                     .words = true,
                                     .group = "training.",
                                     .within = &mt_train_keys};

const struct cli_verb cli_verb_compare = {
    .name = "compare",
    .summary = "train and evaluate several methods on the same data, and compare them",
    .arguments = "CONFIG.yaml [KEY=VALUE ...]",
    .counts_arguments = true,
    .details =
        "metier trains every method from every model on every domain with every seed. Each combination is a\n"
        "cell. It is measured on held-out problems of its own and the other domains, and evaluated with "
        "every\n"
        "benchmark of `tasks`, as by metier eval. The models are also measured before training. The results\n"
        "are tables, OUT/compare.json and OUT/report.html: benchmarks with significance, balance, geometry,\n"
        "curves, a picture of tokens, sensitivity, seconds per step, memory. If you stop the command, it "
        "goes\n"
        "on when you start it again, and keeps the finished cells unless model or data have changed. If a "
        "cell\n"
        "fails, the others go on. metier tries it once more, and the exit status is 1 if it fails again.\n"
        "  models: [models/moe, {name: other, path: models/other}]\n"
        "  out: build/paper\n"
        "  methods: [aux, loss-free, paper, metier]\n"
        "  seeds: [1, 2, 3]\n"
        "  domains: [{name: math, train: math.jsonl}]\n"
        "  tasks: [{task: gsm8k, max_tokens: [512, 1024]}, {task: mmlu, limit: 500}, humaneval]\n"
        "  evaluation: {data: data, limit: 200}\n"
        "  training: {epochs: 1, lora.rank: 32}\n"
        "--keys lists the keys of the file; docs/compare.md explains them.",
    .examples =
        "  metier compare share/configs/compare-demo.yaml\n"
        "  metier compare share/configs/compare-benchmarks.yaml evaluation.data=data --dry-run\n"
        "  metier compare share/configs/compare-benchmarks.yaml evaluation.data=data\n"
        "  mpirun -n 4 metier compare share/configs/compare-benchmarks.yaml evaluation.data=data\n"
        "  metier compare share/configs/compare-paper.yaml --tables --latex tables.tex --csv csv --svg svg\n"
        "  metier compare share/configs/compare-demo.yaml out=again seeds=[1,2,3] training.steps=50",
    .keys = &keys,
    .ranks = CLI_RANKS_SHARE,
    .run = run_verb,
};
