/* The report's part on benchmark tasks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "report/report_figures.h"

#define DEVIATIONS 1.96 // standard errors on each side of a 95 % interval
#define MOST_TASKS 256

static const struct mt_run_result *find(const struct mt_run *run, const struct mt_run_result *wanted)
{
    for (const struct mt_run_result *one = run->results; one != NULL; one = one->next) {
        if (strcmp(one->task, wanted->task) == 0 && strcmp(one->metric, wanted->metric) == 0) return one;
    }
    return NULL;
}

/* True when a run before this one has the figure: its row is there. */
static bool seen(const struct mt_run *runs, size_t before, const struct mt_run_result *wanted)
{
    for (size_t r = 0; r < before; r++) {
        if (find(&runs[r], wanted) != NULL) return true;
    }
    return false;
}

static void add_row(struct mt_figure *table, const struct mt_run *runs, size_t count,
                    const struct mt_run_result *wanted)
{
    const struct mt_run_result *base = find(&runs[0], wanted);
    mt_figure_text(table, wanted->task);
    mt_figure_text(table, wanted->metric);
    mt_figure_number(table, wanted->samples);
    for (size_t r = 0; r < count; r++) {
        const struct mt_run_result *one = find(&runs[r], wanted);
        mt_figure_measure(table, one != NULL ? one->value : (double)NAN,
                          one != NULL ? one->error : (double)NAN, false);
        if (count == 1) {
            mt_figure_number(table, one != NULL ? one->low : (double)NAN);
            mt_figure_number(table, one != NULL ? one->high : (double)NAN);
        }
        if (r == 0) continue;
        double difference = one != NULL && base != NULL ? one->value - base->value : (double)NAN;
        double error = one != NULL && base != NULL ? hypot(one->error, base->error) : (double)NAN;
        mt_figure_measure(table, difference, error, fabs(difference) > DEVIATIONS * error);
    }
}

/* The runs side by side, each with its difference to the first. */
static void add_table(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    char name[MT_REPORT_NAME_BYTES];
    struct mt_figure *table = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = "Results",
            .meaning = count > 1 ? "Figures of each task ± their standard error, and the difference (Δ) to "
                                   "the first run."
                                 : "Figures of each task ± their standard error, and their 95 % interval.",
            .formula = count > 1 ? "Δ: $m - m_1$ ± $\\sqrt{e^2 + e_1^2}$; beyond chance: more than 1.96 "
                                   "times that."
                                 : "Intervals: Wilson's for shares of right answers, bootstrap percentiles "
                                   "for the rest."});
    mt_figure_column(table, MT_COLUMN_LABEL, "task");
    mt_figure_column(table, MT_COLUMN_LABEL, "metric");
    mt_figure_column(table, MT_COLUMN_NUMBER, "samples");
    for (size_t r = 0; r < count; r++) {
        mt_figure_measure_column(table, count > 1 ? runs[r].name : "value", 3, false);
        (void)snprintf(name, sizeof name, "Δ %.140s", runs[r].name);
        if (r > 0) mt_figure_measure_column(table, name, 3, true);
    }
    if (count == 1) mt_figure_column(table, MT_COLUMN_NUMBER, "low");
    if (count == 1) mt_figure_column(table, MT_COLUMN_NUMBER, "high");
    for (size_t r = 0; r < count; r++) {
        for (const struct mt_run_result *one = runs[r].results; one != NULL; one = one->next) {
            if (!seen(runs, r, one)) add_row(table, runs, count, one);
        }
    }
}

/* In what form the tasks were put, and why: a row for each form of a run. */
static void add_forms(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *table = NULL;
    for (size_t r = 0; r < count; r++) {
        const struct mt_run_result *before = NULL;
        for (const struct mt_run_result *one = runs[r].results; one != NULL; one = one->next) {
            if (one->form == NULL || one->why == NULL) continue;
            bool same =
                before != NULL && strcmp(before->form, one->form) == 0 && strcmp(before->why, one->why) == 0;
            if (same) continue;
            if (table == NULL) {
                table = mt_page_figure(page, &(struct mt_figure_head){
                                                 .kind = MT_FIGURE_TABLE,
                                                 .title = "Forms",
                                                 .meaning = "In what form the texts of tasks were put, from "
                                                            "the task on that is named, and why."});
                mt_figure_column(table, MT_COLUMN_LABEL, "run");
                mt_figure_column(table, MT_COLUMN_LABEL, "from task");
                mt_figure_column(table, MT_COLUMN_LABEL, "form");
                mt_figure_column(table, MT_COLUMN_LABEL, "because");
            }
            mt_figure_text(table, runs[r].name);
            mt_figure_text(table, one->task);
            mt_figure_text(table, one->form);
            mt_figure_text(table, one->warning != NULL ? one->warning : one->why);
            before = one;
        }
    }
}

/* What became of answers and rows that the figures do not show. */
static void add_troubles(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *table = NULL;
    for (size_t r = 0; r < count; r++) {
        const char *before = "";
        for (const struct mt_run_result *one = runs[r].results; one != NULL;
             before = one->task, one = one->next) {
            if (one->trouble == NULL || strcmp(before, one->task) == 0) continue;
            if (table == NULL) {
                table = mt_page_figure(page,
                                       &(struct mt_figure_head){
                                           .kind = MT_FIGURE_TABLE,
                                           .title = "Lost answers and rows",
                                           .meaning = "Answers that ended early count as they are, mostly as "
                                                      "wrong; rows that could not be asked do not count."});
                mt_figure_column(table, MT_COLUMN_LABEL, "run");
                mt_figure_column(table, MT_COLUMN_LABEL, "task");
                mt_figure_column(table, MT_COLUMN_LABEL, "lost");
            }
            mt_figure_text(table, runs[r].name);
            mt_figure_text(table, one->task);
            mt_figure_text(table, one->trouble);
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

/* What the routers did while a task was evaluated. */
static bool routing_means(struct mt_page *page, const struct mt_run *run, const char *what,
                          struct mt_json_node *means)
{
    struct mt_json_node figures;
    const struct mt_run_routing *one = run->routing;
    while (one != NULL && strcmp(one->task, what) != 0) one = one->next;
    if (one == NULL) return false;
    struct mt_json_node root = mt_json_root(&one->json);
    return mt_page_check(page, mt_json_expect_object(&root)) &&
           mt_page_check(page, mt_json_get_object(&root, "figures", &figures)) &&
           mt_page_check(page, mt_json_get_object(&figures, "mean", means));
}

static void add_routing(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    const char *tasks[MOST_TASKS];
    size_t known = 0;
    for (size_t r = 0; r < count; r++) {
        for (const struct mt_run_routing *one = runs[r].routing; one != NULL; one = one->next) {
            size_t at = 0;
            while (at < known && strcmp(tasks[at], one->task) != 0) at++;
            if (at == known && known < MOST_TASKS) tasks[known++] = one->task;
        }
    }
    if (known == 0) return;
    mt_report_means_table(page, runs, count,
                          &(struct mt_report_means){.title = "Routing by task",
                                                    .what = "task",
                                                    .meaning = "What the routers did while the task was "
                                                               "evaluated: balance, and how decided they "
                                                               "are.",
                                                    .whats = tasks,
                                                    .count = known,
                                                    .means_of = routing_means});
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
    add_forms(page, runs, count);
    add_troubles(page, runs, count);
    add_routing(page, runs, count);
}
