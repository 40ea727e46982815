/* The report's part on benchmark tasks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "report/report_figures.h"

static const struct mt_run_result *find(const struct mt_run *run, const struct mt_run_result *wanted)
{
    for (const struct mt_run_result *one = run->results; one != NULL; one = one->next) {
        if (strcmp(one->task, wanted->task) == 0 && strcmp(one->metric, wanted->metric) == 0) return one;
    }
    return NULL;
}

static void add_table(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *table = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = "Results",
            .meaning =
                "Figures of each task with their 95 % interval; a difference whose standard error is half "
                "its size or more may be chance.",
            .formula =
                "Intervals: Wilson's for shares of right answers, bootstrap percentiles for the rest. Δ is "
                "the run's figure minus the first run's, its error sqrt(se^2 + se^2)."});
    mt_figure_column(table, MT_COLUMN_LABEL, "task");
    mt_figure_column(table, MT_COLUMN_LABEL, "metric");
    mt_figure_column(table, MT_COLUMN_LABEL, "run");
    mt_figure_column(table, MT_COLUMN_NUMBER, "value");
    mt_figure_column(table, MT_COLUMN_NUMBER, "low");
    mt_figure_column(table, MT_COLUMN_NUMBER, "high");
    mt_figure_column(table, MT_COLUMN_NUMBER, "samples");
    if (count > 1) mt_figure_column(table, MT_COLUMN_NUMBER, "Δ");
    if (count > 1) mt_figure_column(table, MT_COLUMN_NUMBER, "error of Δ");
    for (size_t r = 0; r < count; r++) {
        for (const struct mt_run_result *one = runs[r].results; one != NULL; one = one->next) {
            const struct mt_run_result *base = r > 0 ? find(&runs[0], one) : NULL;
            mt_figure_text(table, one->task);
            mt_figure_text(table, one->metric);
            mt_figure_text(table, runs[r].name);
            mt_figure_number(table, one->value);
            mt_figure_number(table, one->low);
            mt_figure_number(table, one->high);
            mt_figure_number(table, one->samples);
            if (count == 1) continue;
            mt_figure_number(table, base != NULL ? one->value - base->value : (double)NAN);
            mt_figure_number(table, base != NULL ? hypot(one->error, base->error) : (double)NAN);
        }
    }
}

/* Each task's first metric. */
static void add_bars(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                       .title = "Tasks",
                                       .meaning = "Each task's first metric; whiskers are 95 % intervals.",
                                       .formula = "As in the table.",
                                       .series = "run",
                                       .x = "task",
                                       .y = "value",
                                       .band = true});
    for (size_t r = 0; r < count; r++) {
        const char *before = "";
        for (const struct mt_run_result *one = runs[r].results; one != NULL; one = one->next) {
            if (strcmp(before, one->task) != 0)
                mt_figure_bar(figure, runs[r].name, one->task, one->value, one->low, one->high);
            before = one->task;
        }
    }
}

/* What the routers did while tasks were evaluated. */
static void add_routing(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *table = NULL;
    for (size_t r = 0; r < count; r++) {
        for (const struct mt_run_routing *one = runs[r].routing; one != NULL; one = one->next) {
            struct mt_json_node figures;
            struct mt_json_node root = mt_json_root(&one->json);
            if (!mt_page_check(page, mt_json_expect_object(&root))) return;
            if (!mt_page_check(page, mt_json_get_object(&root, "figures", &figures))) return;
            if (table == NULL)
                table = mt_report_means_table(
                    page, "Routing by task", "task",
                    "What the routers did while the task was evaluated: balance, and how "
                    "decided they are.");
            mt_report_means_row(table, one->task, runs[r].name, &figures);
        }
    }
}

void mt_report_evaluation(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    bool evaluated = false;
    for (size_t r = 0; r < count; r++) evaluated |= runs[r].results != NULL;
    mt_page_section(page, "Benchmarks");
    if (!evaluated) {
        mt_page_text(
            page,
            "No results.json: metier eval TASK... --out RUN puts benchmark results into the folder of a "
            "run.");
        return;
    }
    add_bars(page, runs, count);
    add_table(page, runs, count);
    add_routing(page, runs, count);
}
