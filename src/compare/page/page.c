/* A comparison's page: its head, and the order of its parts. */
#include "compare/page.h"

#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "compare/page/parts.h"
#include "report/output.h"

#define MOST_FAILURES 3 // that are told; more are counted

const char *mt_compare_mean_text(char text[MT_COMPARE_TEXT_BYTES], const struct mt_compare_figure_row *row,
                                 const struct mt_moments *moments)
{
    int length = 0;
    if (isnan(moments->mean)) {
        (void)snprintf(text, MT_COMPARE_TEXT_BYTES, "–");
        return text;
    }
    length = snprintf(text, MT_COMPARE_TEXT_BYTES, "%.*f", row->decimals, row->factor * moments->mean);
    if (!isnan(moments->deviation) && length > 0 && length < MT_COMPARE_TEXT_BYTES)
        (void)snprintf(text + length, MT_COMPARE_TEXT_BYTES - (size_t)length, " ± %.*f", row->decimals,
                       row->factor * moments->deviation);
    return text;
}

/* True when a cell of the model is there: a page of dashes says nothing. */
static bool has_cells(const struct mt_compare_view *view)
{
    for (size_t i = 0; i < view->comparison->cells; i++) {
        const struct mt_cell *cell = &view->comparison->cell[i];
        if (cell->model == view->model && cell->result.known) return true;
    }
    return false;
}

static void add_cards(const struct mt_comparison *comparison, struct mt_page *page, size_t known)
{
    const struct mt_compare_settings *settings = comparison->settings;
    char number[MT_NUMBER_BYTES];
    char text[MT_COMPARE_TEXT_BYTES];
    if (settings->models > 1)
        mt_page_card(page, "models", mt_number_text(number, (double)settings->models), "");
    mt_page_card(page, "methods", mt_number_text(number, (double)settings->methods), "");
    mt_page_card(page, "seeds", mt_number_text(number, (double)settings->seeds), "");
    mt_page_card(page, "domains", mt_number_text(number, (double)settings->trained), "trained on");
    if (comparison->tasks.count > 0)
        mt_page_card(page, "benchmarks", mt_number_text(number, (double)mt_compare_benchmarks(comparison)),
                     "");
    (void)snprintf(text, sizeof text, "of %zu", comparison->cells);
    mt_page_card(page, "cells", mt_number_text(number, (double)known), text);
    mt_page_card(page, "reference", settings->reference, "");
}

/* Benchmarks whose text is not as cells were trained. */
static void add_forms(const struct mt_comparison *comparison, struct mt_page *page)
{
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        const struct mt_cell_task *asked = mt_comparison_form(comparison, t);
        if (asked == NULL || !asked->form_differs) continue;
        mt_page_finding(page, MT_TONE_OPEN, "Asked in another form than trained.", "%.100s is %.500s.",
                        comparison->tasks.task[t].name, asked->form);
    }
}

/* Cells that are not there, and why. */
static void add_failures(const struct mt_comparison *comparison, struct mt_page *page, size_t known)
{
    size_t failed = 0;
    if (known < comparison->cells)
        mt_page_finding(page, MT_TONE_BAD, "Cells are missing.",
                        "Of %s %zu missing; what is shown is of the others.",
                        mt_counted(comparison->cells, "cell", "cells").text, comparison->cells - known);
    for (size_t i = 0; i < mt_comparison_jobs(comparison); i++) {
        const struct mt_cell *cell = mt_comparison_job(comparison, i);
        if (cell->failure == NULL) continue;
        if (failed++ < MOST_FAILURES)
            mt_page_finding(page, MT_TONE_BAD, "A cell failed.", "%.100s: %.600s", cell->name, cell->failure);
    }
    if (failed > MOST_FAILURES)
        mt_page_finding(page, MT_TONE_BAD, "More cells failed.", "%s; the program names each when it ends.",
                        mt_counted(failed - MOST_FAILURES, "more", "more").text);
}

static void add_verdict(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t known = 0;
    for (size_t i = 0; i < comparison->cells; i++) known += comparison->cell[i].result.known ? 1 : 0;
    mt_page_subtitle(page, "metier compare");
    mt_page_verdict(page, "Verdict");
    mt_page_compare_few(comparison, page);
    for (size_t i = 0; i < settings->models; i++) {
        struct mt_compare_view view = mt_compare_view_of(comparison, page, i);
        mt_page_compare_verdict(&view);
        if (!has_cells(&view))
            mt_page_finding(page, MT_TONE_OPEN, "Nothing yet.", "%.100s: no cell is there.",
                            settings->model[i].name);
    }
    if (settings->seeds == 1)
        mt_page_finding(page, MT_TONE_OPEN, "One seed.", "Differences may be chance: more seeds tell.");
    add_forms(comparison, page);
    add_failures(comparison, page, known);
    mt_page_compare_picture(comparison, page);
    add_cards(comparison, page, known);
}

/* What was trained and asked. */
static void add_setup(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    mt_page_section(page, "What was compared");
    for (size_t i = 0; i < settings->models; i++)
        mt_page_text(page, "Model %.100s: %.300s.", settings->model[i].name, settings->model[i].path);
    mt_page_text(
        page, "Every method is trained on every domain with every seed%s, and measured on held-out problems.",
        settings->models > 1 ? ", from every model" : "");
    if (comparison->tasks.count == 0) return;
    struct mt_figure *table = mt_page_figure(
        page,
        &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                 .title = "Benchmarks asked",
                                 .meaning = "What each column of the tables asks, and how it is judged."});
    mt_figure_column(table, MT_COLUMN_LABEL, "benchmark");
    mt_figure_column(table, MT_COLUMN_LABEL, "task");
    mt_figure_column(table, MT_COLUMN_LABEL, "metric");
    mt_figure_column(table, MT_COLUMN_LABEL, "form of its text");
    mt_figure_column(table, MT_COLUMN_NUMBER, "questions");
    mt_figure_column(table, MT_COLUMN_NUMBER, "tokens at most");
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        const struct mt_compare_task *task = &comparison->tasks.task[t];
        mt_figure_text(table, task->name);
        mt_figure_text(table, task->entry->task);
        const struct mt_cell_task *asked = mt_comparison_form(comparison, t);
        mt_figure_text(table, task->metric);
        mt_figure_text(table, asked != NULL ? asked->form : "not known");
        mt_figure_number(table, (double)task->questions);
        mt_figure_number(table, task->max_tokens > 0 ? (double)task->max_tokens : (double)NAN);
    }
}

typedef void add_part(const struct mt_compare_view *view);

// The parts in their order; those of one section follow each other.
static const struct part {
    const char *section; // NULL: as before
    add_part *add;
    enum {
        ALWAYS,
        WITH_TASKS,
        WITH_ABLATIONS,
        WITH_GRID,
        WITH_PRUNED,
        WITH_FEWER,
        WITH_STEPS,
        WITH_MIX
    } when;
} parts[] = {
    {"Benchmarks", mt_page_compare_benchmarks, WITH_TASKS},
    {NULL, mt_page_compare_budgets, WITH_TASKS},
    {"Held-out problems", mt_page_compare_answers, ALWAYS},
    {NULL, mt_page_compare_radar, ALWAYS},
    {"Domain by domain", mt_page_compare_parts, WITH_MIX},
    {"Ablation", mt_page_compare_ablation, WITH_ABLATIONS},
    {NULL, mt_page_compare_claims, WITH_ABLATIONS},
    {"Routing", mt_page_compare_geometry, ALWAYS},
    {NULL, mt_page_compare_bars, ALWAYS},
    {"Training", mt_page_compare_curves, ALWAYS},
    {"Experts", mt_page_compare_tokens, ALWAYS},
    {NULL, mt_page_compare_shares, ALWAYS},
    {"Experts taken away", mt_page_compare_pruned, WITH_PRUNED},
    {"Few experts", mt_page_compare_fewer, WITH_FEWER},
    {"Data efficiency", mt_page_compare_steps, WITH_STEPS},
    {"Sensitivity", mt_page_compare_sensitivity, WITH_GRID},
    {"Cost", mt_page_compare_cost, ALWAYS},
};

static bool is_shown(const struct mt_compare_view *view, const struct part *part)
{
    if (!has_cells(view)) return false;
    switch (part->when) {
    case WITH_TASKS: return view->comparison->tasks.count > 0;
    case WITH_ABLATIONS: return mt_view_has_ablations(view);
    case WITH_PRUNED: return view->comparison->settings->prune.count > 0;
    case WITH_FEWER: return mt_compare_askings(view->comparison->settings) > 0;
    case WITH_STEPS: return view->comparison->settings->at.count > 0;
    case WITH_MIX: return mt_compare_has_mix(view->comparison->settings);
    case WITH_GRID: return view->comparison->settings->grid.method != NULL;
    default: return true;
    }
}

enum mt_status mt_comparison_page(const struct mt_comparison *comparison, struct mt_page *page)
{
    add_verdict(comparison, page);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        bool opened = false;
        for (size_t model = 0; model < comparison->settings->models; model++) {
            struct mt_compare_view view = mt_compare_view_of(comparison, page, model);
            if (!is_shown(&view, &parts[i])) continue;
            if (parts[i].section != NULL && !opened) mt_page_section(page, parts[i].section);
            opened = true;
            parts[i].add(&view);
        }
    }
    add_setup(comparison, page);
    return mt_page_status(page);
}
