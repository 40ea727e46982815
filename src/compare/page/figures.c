/* The page's figures: curves of training, balance and geometry as small multiples, the radar. */
#include <math.h>
#include <stdio.h>

#include "compare/page/parts.h"

// ------------------------------------------------------------------ curves

static void add_rmse(const struct mt_compare_view *view, double *room, size_t most)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    double *a = room;
    double *b = room + most;
    char title[MT_COMPARE_TITLE_BYTES];
    struct mt_figure *grid = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_GRID,
            .title = mt_view_title(title, view, "RMSE between the curves of MaxVio"),
            .meaning = "How far two methods' balance lies apart while training; the paper has at most 0.03 "
                       "between its own method and those with $L_{\\text{aux}}$.",
            .formula = "$\\sqrt{\\frac{1}{n} \\sum_i (a_i - b_i)^2}$ over $n$ steps; $a$, $b$: MaxVio of a "
                       "step, mean over layers, seeds and domains",
            .x = "method",
            .y = "method",
            .value = "RMSE",
            .scale = "RMSE",
            .from_zero = true});
    for (size_t m = 0; m < view->methods; m++) {
        size_t a_steps =
            mt_compare_curve(comparison, MT_CURVE_MAXVIO, view->model, m, MT_ALL_DOMAINS, a, most);
        for (size_t k = 0; k < view->methods; k++) {
            size_t b_steps =
                mt_compare_curve(comparison, MT_CURVE_MAXVIO, view->model, k, MT_ALL_DOMAINS, b, most);
            mt_figure_cell(grid, settings->method[m].name, settings->method[k].name,
                           mt_compare_rmse(a, a_steps, b, b_steps));
        }
    }
}

/* A panel: a curve of every method on one domain. */
static void add_curve(const struct mt_compare_view *view, enum mt_compare_curve kind, size_t domain,
                      struct mt_figure *lines, double *curve, size_t most)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    char panel[MT_COMPARE_TITLE_BYTES];
    (void)snprintf(panel, sizeof panel, "%s%s%.100s", kind == MT_CURVE_LOSS ? "training loss" : "MaxVio",
                   settings->trained > 1 ? ", " : "",
                   settings->trained > 1 ? settings->domain[domain].name : "");
    mt_figure_panel(lines, panel);
    for (size_t m = 0; m < view->methods; m++) {
        size_t steps = mt_compare_curve(view->comparison, kind, view->model, m, domain, curve, most);
        for (size_t i = 0; i < steps; i++)
            mt_figure_point(lines, settings->method[m].name, (double)(i + 1), curve[i]);
    }
}

void mt_page_compare_curves(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    size_t most = mt_compare_most_steps(comparison);
    char title[MT_COMPARE_TITLE_BYTES];
    void *memory = NULL;
    if (mt_page_status(view->page) != MT_OK) return;
    enum mt_status status = mt_allocate_array(comparison->ctx, 2 * most + 1, sizeof(double), &memory);
    if (!mt_page_check(view->page, status)) return;
    struct mt_figure *lines = mt_page_figure(
        view->page, &(struct mt_figure_head){
                        .kind = MT_FIGURE_LINES,
                        .title = mt_view_title(title, view, "Balance and loss while training"),
                        .meaning = "Curves that lie on each other: the methods balance, or learn, "
                                   "alike. The first step's value is that of the model before training, on "
                                   "the first batch.",
                        .formula = "$\\text{MaxVio} = \\frac{\\max_j c_j - \\bar{c}}{\\bar{c}}$ of a "
                                   "step's loads, mean over layers and seeds; $L_h$ of a step, mean "
                                   "over seeds",
                        .series = "method",
                        .x = "step",
                        .y = "value",
                        .panel = "figure"});
    for (size_t d = 0; d < comparison->settings->trained; d++)
        add_curve(view, MT_CURVE_MAXVIO, d, lines, memory, most);
    for (size_t d = 0; d < comparison->settings->trained; d++)
        add_curve(view, MT_CURVE_LOSS, d, lines, memory, most);
    if (view->methods > 1) add_rmse(view, memory, most);
    mt_release(comparison->ctx, memory, (2 * most + 1) * sizeof(double));
}

// ------------------------------------------------------------------ bars

/* Differences to the reference; of a lone method its figures. */
void mt_page_compare_bars(const struct mt_compare_view *view)
{
    static const size_t shown[] = {
        MT_COMPARE_OVERLAP, MT_COMPARE_SILHOUETTE,  MT_COMPARE_RV_TOKEN,       MT_COMPARE_ABS_COS,
        MT_COMPARE_MAXVIO,  MT_COMPARE_OVERLAP_OUT, MT_COMPARE_SILHOUETTE_OUT, MT_COMPARE_INFORMATION,
    };
    enum { SHOWN = sizeof shown / sizeof shown[0] };
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    char text[MT_COMPARE_TITLE_BYTES];
    bool several = view->methods > 1;
    bool whiskers = settings->seeds > 1;
    (void)snprintf(text, sizeof text, several ? "Differences to %.80s, which is 0%s. %s" : "Of %.80s%s. %s",
                   settings->reference,
                   !whiskers ? ""
                   : several ? "; whiskers are standard errors"
                             : "; whiskers are standard deviations over seeds",
                   "The arrow points to what the paper calls better.");
    struct mt_figure *bars = mt_page_figure(
        view->page,
        &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                 .title = mt_view_title(title, view, "Balance and geometry in pictures"),
                                 .meaning = text,
                                 .series = "domain",
                                 .x = "method",
                                 .y = several ? "difference" : "value",
                                 .band = whiskers,
                                 .panel = "figure"});
    for (int i = 0; i < SHOWN; i++) {
        const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, shown[i]);
        (void)snprintf(text, sizeof text, "%s%s", row->title, row->better < 0 ? " ↓" : " ↑");
        mt_figure_panel(bars, text);
        for (size_t d = 0; d < settings->trained; d++) {
            mt_compare_summarize(comparison, view->model, shown[i], d, summary);
            double start = mt_compare_base(comparison, view->model, shown[i], d).mean;
            if (several) start -= summary[view->reference].moments.mean;
            if (!isnan(start))
                mt_figure_bar(bars, settings->domain[d].name, MT_COMPARE_BASE, row->factor * start,
                              row->factor * start, row->factor * start);
            for (size_t m = 0; m < view->methods; m++) {
                double mean = row->factor * (several ? summary[m].paired.mean : summary[m].moments.mean);
                double away =
                    row->factor * (several ? summary[m].paired.error : summary[m].moments.deviation);
                if (several && m == view->reference) continue;
                mt_figure_bar(bars, settings->domain[d].name, settings->method[m].name, mean, mean - away,
                              mean + away);
            }
        }
    }
}

// ------------------------------------------------------------------ the radar

#define LEAST_AXES 3 // fewer make no shape

/* An axis for each benchmark, or without benchmarks for each domain trained on: differences to the reference,
 * which benchmarks of any height can share a scale by. */
void mt_page_compare_radar(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    bool tasks = comparison->tasks.count > 0;
    size_t axes = tasks ? comparison->tasks.count : settings->trained;
    if (axes < LEAST_AXES) return;
    struct mt_figure *radar = mt_page_figure(
        view->page, &(struct mt_figure_head){.kind = MT_FIGURE_RADAR,
                                             .title = mt_view_title(title, view, "Profile of the methods"),
                                             .meaning = "Points above or below the reference, means over "
                                                        "seeds; further out is better. What is beyond chance "
                                                        "is in the tables.",
                                             .series = "method",
                                             .x = tasks ? "benchmark" : "domain",
                                             .y = "points"});
    for (size_t i = 0; i < axes; i++) {
        size_t column = tasks ? mt_compare_task_column(i) : MT_COMPARE_ACCURACY;
        mt_compare_summarize(comparison, view->model, column, tasks ? MT_ALL_DOMAINS : i, summary);
        for (size_t m = 0; m < view->methods; m++)
            mt_figure_bar(radar, settings->method[m].name,
                          tasks ? comparison->tasks.task[i].name : settings->domain[i].name,
                          100.0 * (summary[m].moments.mean - summary[view->reference].moments.mean), 0.0,
                          0.0);
    }
}
