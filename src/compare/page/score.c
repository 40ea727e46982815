/* The score of methods, and other things the parts share. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "compare/page/parts.h"
#include "report/formulas.h"

#define MOST_PAIRS (MT_COMPARE_MOST_SEEDS * MT_COMPARE_MOST_DOMAINS)

struct mt_compare_view mt_compare_view_of(const struct mt_comparison *comparison, struct mt_page *page,
                                          size_t model)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_view view = {
        .comparison = comparison, .page = page, .model = model, .reference = mt_compare_reference(settings)};
    while (view.methods < settings->methods && !settings->method[view.methods].in_grid) view.methods++;
    return view;
}

const char *mt_view_title(char title[MT_COMPARE_TITLE_BYTES], const struct mt_compare_view *view,
                          const char *what)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    (void)snprintf(title, MT_COMPARE_TITLE_BYTES, settings->models > 1 ? "%.90s: %.90s" : "%.90s", what,
                   settings->model[view->model].name);
    return title;
}

/* Whether cells of a domain have a score: those that are asked no benchmark have none. */
static bool is_scored(const struct mt_compare_view *view, size_t domain)
{
    const struct mt_comparison *comparison = view->comparison;
    bool scored = comparison->tasks.count == 0;
    for (size_t t = 0; t < comparison->tasks.count; t++)
        scored =
            scored || mt_compare_asks(&comparison->settings->domain[domain], comparison->tasks.task[t].entry);
    return scored;
}

/* Of one cell, in points: over the benchmarks that it is asked. */
static double score_of(const struct mt_compare_view *view, size_t method, size_t domain, size_t seed)
{
    const struct mt_comparison *comparison = view->comparison;
    double sum = 0.0;
    double weights = 0.0;
    if (comparison->tasks.count == 0)
        return 100.0 * mt_compare_value(comparison, view->model, method, domain, seed, MT_COMPARE_ACCURACY);
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        if (!mt_compare_asks(&comparison->settings->domain[domain], comparison->tasks.task[t].entry))
            continue;
        size_t column = mt_compare_task_column(t);
        double weight = mt_compare_weight(comparison, t);
        sum += weight * mt_compare_column_row(comparison, column)->factor *
               mt_compare_value(comparison, view->model, method, domain, seed, column);
        weights += weight;
    }
    return sum / weights;
}

/* Of all cells of a method that have one, seed by seed and domain by domain. */
static size_t gather(const struct mt_compare_view *view, size_t method, double scores[MOST_PAIRS])
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    size_t count = 0;
    for (size_t s = 0; s < settings->seeds; s++) {
        for (size_t d = 0; d < settings->trained; d++) {
            if (is_scored(view, d)) scores[count++] = score_of(view, method, d, s);
        }
    }
    return count;
}

/* Of each seed the mean over domains, then over seeds. */
static struct mt_moments over_seeds(const double *scores, size_t seeds, size_t domains)
{
    double means[MT_COMPARE_MOST_SEEDS];
    for (size_t s = 0; s < seeds; s++) {
        double sum = 0.0;
        for (size_t d = 0; d < domains; d++) sum += scores[s * domains + d];
        means[s] = sum / (double)domains;
    }
    return mt_moments(means, seeds);
}

void mt_view_scores(const struct mt_compare_view *view, struct mt_score *scores)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    double reference[MOST_PAIRS];
    double values[MOST_PAIRS];
    double p[MT_COMPARE_MOST_METHODS];
    double adjusted[MT_COMPARE_MOST_METHODS];
    size_t pairs = gather(view, view->reference, reference);
    for (size_t m = 0; m < view->methods; m++) {
        (void)gather(view, m, values);
        scores[m].moments = over_seeds(values, settings->seeds, pairs / settings->seeds);
        scores[m].paired = mt_paired(values, reference, pairs);
        p[m] = m == view->reference ? (double)NAN : scores[m].paired.p;
    }
    mt_holm(p, view->methods, adjusted);
    for (size_t m = 0; m < view->methods; m++) scores[m].holm = adjusted[m];
}

struct mt_paired mt_view_score_pair(const struct mt_compare_view *view, size_t method, size_t other)
{
    double values[MOST_PAIRS];
    double reference[MOST_PAIRS];
    size_t pairs = gather(view, method, values);
    (void)gather(view, other, reference);
    return mt_paired(values, reference, pairs);
}

double mt_view_base_score(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    double sum = 0.0;
    if (comparison->tasks.count == 0)
        return 100.0 * mt_compare_base(comparison, view->model, MT_COMPARE_ACCURACY, MT_ALL_DOMAINS).mean;
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        size_t column = mt_compare_task_column(t);
        sum += mt_compare_weight(comparison, t) * comparison->task_row[t].factor *
               mt_compare_base(comparison, view->model, column, MT_ALL_DOMAINS).mean;
    }
    return sum / (double)mt_compare_benchmarks(comparison);
}

size_t mt_view_base_row(const struct mt_compare_view *view, struct mt_figure *table)
{
    if (!mt_compare_has_base(view->comparison, view->model)) return 0;
    mt_figure_text(table, MT_COMPARE_BASE);
    return 1;
}

void mt_view_base_measure(const struct mt_compare_view *view, struct mt_figure *table, size_t column,
                          size_t domain)
{
    double factor = mt_compare_column_row(view->comparison, column)->factor;
    mt_figure_measure(table, factor * mt_compare_base(view->comparison, view->model, column, domain).mean,
                      (double)NAN, false);
}

void mt_view_base_difference(const struct mt_compare_view *view, struct mt_figure *table, size_t column,
                             size_t domain)
{
    double factor = mt_compare_column_row(view->comparison, column)->factor;
    mt_figure_measure(
        table,
        factor * mt_compare_base_difference(view->comparison, view->model, view->reference, column, domain),
        (double)NAN, false);
}

const char *mt_view_score_name(char name[MT_COMPARE_TITLE_BYTES], const struct mt_compare_view *view)
{
    const struct mt_compare_tasks *tasks = &view->comparison->tasks;
    size_t benchmarks = mt_compare_benchmarks(view->comparison);
    if (benchmarks > 1)
        (void)snprintf(name, MT_COMPARE_TITLE_BYTES, "the mean over %s",
                       mt_counted(benchmarks, "benchmark", "benchmarks").text);
    else if (tasks->count > 1)
        (void)snprintf(name, MT_COMPARE_TITLE_BYTES, "the mean over %zu token budgets", tasks->count);
    else
        (void)snprintf(name, MT_COMPARE_TITLE_BYTES, "%.100s",
                       tasks->count == 1 ? tasks->task[0].name : "whole answers that are right");
    return name;
}

// Figures of a comparison, and what the report calls them.
static const struct alias {
    const char *name, *formula;
} aliases[] = {
    {"maxvio", "maxvio"},
    {"entropy", "entropy"},
    {"overlap", "overlap_in"},
    {"silhouette", "silhouette_in"},
    {"rv_token", "rv_token"},
    {"rv_expert", "rv_expert"},
    {"effective_experts", "effective_experts"},
    {"experts_90", "experts_90"},
    {"abs_cos", "abs_cos"},
    {"information", "information"},
};

const char *mt_view_formula(const struct mt_compare_figure_row *row)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (strcmp(aliases[i].name, row->name) == 0) return mt_formula_of(aliases[i].formula)->formula;
    }
    return row->formula;
}

void mt_view_formulas(char *text, size_t bytes, const struct mt_compare_view *view, const size_t *columns,
                      size_t count)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct mt_compare_figure_row *row = mt_compare_column_row(view->comparison, columns[i]);
        int added = snprintf(text + length, bytes - length, "%s: %s; ", row->title, mt_view_formula(row));
        if (added > 0 && length + (size_t)added < bytes) length += (size_t)added;
    }
    (void)snprintf(text + length, bytes - length, "%s.", MT_FORMULA_LETTERS);
}

static bool is_of_paper(const char *name)
{
    return strncmp(name, "paper-wo", 8) == 0 || strcmp(name, "paper-only-aux") == 0;
}

bool mt_view_is_ablation(const struct mt_compare_view *view, size_t method)
{
    const char *name = view->comparison->settings->method[method].name;
    return strcmp(name, "paper") == 0 || strcmp(name, "metier") == 0 || is_of_paper(name);
}

bool mt_view_has_ablations(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    bool paper = false;
    bool without = false;
    for (size_t m = 0; m < view->methods; m++) {
        paper |= strcmp(settings->method[m].name, "paper") == 0;
        without |= is_of_paper(settings->method[m].name);
    }
    return paper && without;
}
