/* Problems asked besides the end of training: with experts taken away, and on the way. */
#include <math.h>
#include <stdio.h>

#include "compare/page/parts.h"

#define INTERVAL "mean ± half of the 95 % interval, by Student's t over seeds; no interval of one seed"

/* What is shown of the probes of one kind. */
struct shown {
    const struct mt_compare_probes *probes;
    size_t first; // of them, among all
    enum mt_probe_part part;
    const char *title, *meaning, *x, *y; // x, y: of the curves; NULL: a table alone
};

/* Steps that are asked after all begin with the model before training. */
static bool adds_start(const struct mt_compare_view *view, const struct shown *shown)
{
    return shown->probes == &view->comparison->settings->at && shown->probes->value[0] > 0 &&
           mt_compare_has_base(view->comparison, view->model);
}

static size_t start_column(const struct shown *shown)
{
    return shown->part == MT_PROBE_LOSS ? MT_COMPARE_LOSS : MT_COMPARE_ACCURACY;
}

static void add_table(const struct mt_compare_view *view, const struct shown *shown)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    bool change = shown->part == MT_PROBE_CHANGE;
    struct mt_figure *table =
        mt_page_figure(view->page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                                            .title = mt_view_title(title, view, shown->title),
                                                            .meaning = shown->meaning,
                                                            .formula = INTERVAL});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    bool start = adds_start(view, shown);
    const struct mt_compare_figure_row *start_row = mt_compare_column_row(comparison, start_column(shown));
    if (start) mt_figure_measure_column(table, "0", start_row->decimals, false);
    for (size_t i = 0; i < shown->probes->count; i++) {
        size_t column = mt_compare_probe_column(comparison, shown->first + i, shown->part);
        (void)snprintf(title, sizeof title, "%lld", (long long)shown->probes->value[i]);
        mt_figure_measure_column(table, title, mt_compare_column_row(comparison, column)->decimals, change);
    }
    size_t first = mt_view_base_row(view, table);
    if (start) mt_view_base_measure(view, table, start_column(shown), MT_ALL_DOMAINS);
    for (size_t i = 0; i < shown->probes->count && first > 0; i++)
        mt_view_base_measure(view, table, mt_compare_probe_column(comparison, shown->first + i, shown->part),
                             MT_ALL_DOMAINS);
    for (size_t m = 0; m < view->methods; m++) {
        mt_figure_text(table, comparison->settings->method[m].name);
        if (start) mt_view_base_measure(view, table, start_column(shown), MT_ALL_DOMAINS);
        for (size_t i = 0; i < shown->probes->count; i++) {
            size_t column = mt_compare_probe_column(comparison, shown->first + i, shown->part);
            double factor = mt_compare_column_row(comparison, column)->factor;
            mt_compare_summarize(comparison, view->model, column, MT_ALL_DOMAINS, summary);
            mt_figure_measure(table, factor * summary[m].moments.mean,
                              factor * mt_half_width(&summary[m].moments), false);
        }
    }
    for (size_t i = 0; i < shown->probes->count; i++)
        mt_figure_rank(table, (int)i + (start ? 2 : 1), shown->part == MT_PROBE_LOSS ? -1 : 1, first);
}

/* Every method's curve begins with the model before training, where that was not asked on the way. */
static void add_starts(const struct mt_compare_view *view, const struct shown *shown, struct mt_figure *lines)
{
    const struct mt_comparison *comparison = view->comparison;
    size_t column = start_column(shown);
    double factor = mt_compare_column_row(comparison, column)->factor;
    double start = factor * mt_compare_base(comparison, view->model, column, MT_ALL_DOMAINS).mean;
    for (size_t m = 0; m < view->methods && !isnan(start); m++)
        mt_figure_range(lines, comparison->settings->method[m].name, 0.0, start, start, start);
}

static void add_curves(const struct mt_compare_view *view, const struct shown *shown)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    char name[MT_COMPARE_TITLE_BYTES];
    (void)snprintf(name, sizeof name, "%s, drawn", shown->title);
    struct mt_figure *lines =
        mt_page_figure(view->page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                                            .title = mt_view_title(title, view, name),
                                                            .meaning = shown->meaning,
                                                            .formula = INTERVAL,
                                                            .series = "method",
                                                            .x = shown->x,
                                                            .y = shown->y,
                                                            .band = true});
    bool steps = shown->probes == &comparison->settings->at;
    if (adds_start(view, shown)) add_starts(view, shown, lines);
    for (size_t i = 0; i < shown->probes->count; i++) {
        size_t column = mt_compare_probe_column(comparison, shown->first + i, shown->part);
        double factor = mt_compare_column_row(comparison, column)->factor;
        mt_compare_summarize(comparison, view->model, column, MT_ALL_DOMAINS, summary);
        double base = factor * mt_compare_base(comparison, view->model, column, MT_ALL_DOMAINS).mean;
        if (!steps && !isnan(base))
            mt_figure_range(lines, MT_COMPARE_BASE, (double)shown->probes->value[i], base, base, base);
        for (size_t m = 0; m < view->methods; m++) {
            double mean = factor * summary[m].moments.mean;
            double half = factor * mt_half_width(&summary[m].moments);
            mt_figure_range(lines, comparison->settings->method[m].name, (double)shown->probes->value[i],
                            mean, mean - half, mean + half);
        }
    }
}

void mt_page_compare_pruned(const struct mt_compare_view *view)
{
    const struct mt_compare_probes *probes = &view->comparison->settings->prune;
    const struct shown answers = {probes,
                                  0,
                                  MT_PROBE_ACCURACY,
                                  "Whole answers with experts taken away",
                                  "Held-out problems answered exactly, in %, when that many experts of every "
                                  "layer are taken away: those that serve the least of the domain's training "
                                  "data. The router chooses among the others as if these were all.",
                                  "experts taken away",
                                  "exact %"};
    const struct shown change = {probes,
                                 0,
                                 MT_PROBE_CHANGE,
                                 "What taking experts away costs",
                                 "The same less the cell's own accuracy with all experts, in points of 100.",
                                 NULL,
                                 NULL};
    add_table(view, &answers);
    add_curves(view, &answers);
    add_table(view, &change);
}

void mt_page_compare_steps(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    const struct shown answers = {
        &settings->at,
        settings->prune.count,
        MT_PROBE_ACCURACY,
        "Whole answers by step",
        "Held-out problems answered exactly, in %, after that many steps of training; "
        "0: before the first.",
        "step",
        "exact %"};
    const struct shown loss = {
        &settings->at,
        settings->prune.count,
        MT_PROBE_LOSS,
        "Held-out loss by step",
        "Mean cross-entropy of the held-out answers after that many steps of training.",
        "step",
        "L_h"};
    add_table(view, &answers);
    add_curves(view, &answers);
    add_table(view, &loss);
    add_curves(view, &loss);
}
