/* Token budgets: the same benchmark with answers of different length at most. */
#include <math.h>
#include <stdio.h>

#include "compare/page/parts.h"

/* True for the first of several columns of one entry. */
static bool begins_budgets(const struct mt_compare_tasks *tasks, size_t task)
{
    bool first = task == 0 || tasks->task[task - 1].entry != tasks->task[task].entry;
    return first && task + 1 < tasks->count && tasks->task[task + 1].entry == tasks->task[task].entry;
}

static void add_entry(const struct mt_compare_view *view, size_t first, struct mt_figure *lines)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_tasks *tasks = &comparison->tasks;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    mt_figure_panel(lines, tasks->task[first].entry->name);
    bool base = mt_compare_has_base(comparison, view->model);
    for (size_t t = first; base && t < tasks->count && tasks->task[t].entry == tasks->task[first].entry;
         t++) {
        double mean =
            comparison->task_row[t].factor *
            mt_compare_base(comparison, view->model, mt_compare_task_column(t), MT_ALL_DOMAINS).mean;
        mt_figure_range(lines, MT_COMPARE_BASE, (double)tasks->task[t].max_tokens, mean, mean, mean);
    }
    for (size_t m = 0; m < view->methods; m++) {
        for (size_t t = first; t < tasks->count && tasks->task[t].entry == tasks->task[first].entry; t++) {
            double factor = comparison->task_row[t].factor;
            mt_compare_summarize(comparison, view->model, mt_compare_task_column(t), MT_ALL_DOMAINS, summary);
            double mean = factor * summary[m].moments.mean;
            double away = factor * summary[m].moments.deviation;
            mt_figure_range(lines, comparison->settings->method[m].name, (double)tasks->task[t].max_tokens,
                            mean, mean - away, mean + away);
        }
    }
}

static void add_table(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_tasks *tasks = &comparison->tasks;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char text[MT_COMPARE_TITLE_BYTES];
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                 .title = mt_view_title(text, view, "Token budgets"),
                                 .meaning = "The score when an answer is cut at that many tokens: points of "
                                            "100, mean ± standard deviation over seeds."});
    mt_figure_column(table, MT_COLUMN_LABEL, "benchmark");
    mt_figure_column(table, MT_COLUMN_NUMBER, "tokens");
    bool base = mt_compare_has_base(comparison, view->model);
    if (base) mt_figure_measure_column(table, MT_COMPARE_BASE, 1, false);
    for (size_t m = 0; m < view->methods; m++)
        mt_figure_measure_column(table, comparison->settings->method[m].name, 1, false);
    for (size_t t = 0; t < tasks->count; t++) {
        bool beside = t > 0 && tasks->task[t - 1].entry == tasks->task[t].entry;
        if (!beside && !begins_budgets(tasks, t)) continue;
        if (!beside) mt_figure_rule(table);
        mt_figure_text(table, tasks->task[t].entry->name);
        mt_figure_number(table, (double)tasks->task[t].max_tokens);
        if (base) mt_view_base_measure(view, table, mt_compare_task_column(t), MT_ALL_DOMAINS);
        mt_compare_summarize(comparison, view->model, mt_compare_task_column(t), MT_ALL_DOMAINS, summary);
        for (size_t m = 0; m < view->methods; m++) {
            double factor = comparison->task_row[t].factor;
            mt_figure_measure(table, factor * summary[m].moments.mean, factor * summary[m].moments.deviation,
                              false);
        }
    }
}

void mt_page_compare_budgets(const struct mt_compare_view *view)
{
    const struct mt_compare_tasks *tasks = &view->comparison->tasks;
    struct mt_figure *lines = NULL;
    char text[MT_COMPARE_TITLE_BYTES];
    for (size_t t = 0; t < tasks->count; t++) {
        if (!begins_budgets(tasks, t)) continue;
        if (lines == NULL) add_table(view);
        if (lines == NULL)
            lines = mt_page_figure(
                view->page,
                &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                         .title = mt_view_title(text, view, "Score by token budget"),
                                         .meaning = "Where curves part: a method that needs "
                                                    "longer answers loses under a small budget.",
                                         .series = "method",
                                         .x = "tokens of an answer at most",
                                         .y = "points",
                                         .band = true,
                                         .panel = "benchmark"});
        add_entry(view, t, lines);
    }
}
