/* Ablations: the paper's method without one or the other of its terms. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/page/parts.h"

#define ARROW "The arrow points to what the paper calls better."

// What is shown beside the score.
static const size_t shown[] = {MT_COMPARE_ACCURACY, MT_COMPARE_ACCURACY_OTHERS, MT_COMPARE_MAXVIO,
                               MT_COMPARE_OVERLAP,  MT_COMPARE_SILHOUETTE,      MT_COMPARE_RV_TOKEN,
                               MT_COMPARE_ABS_COS};

enum { SHOWN = sizeof shown / sizeof shown[0] };

static void add_table(const struct mt_compare_view *view, const struct mt_score *scores)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    char formula[2048];
    bool tasks = comparison->tasks.count > 0;
    mt_view_formulas(formula, sizeof formula, view, shown, SHOWN);
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                 .title = mt_view_title(title, view, "Ablation"),
                                 .meaning = "The paper's method, and what is left of it without a term: mean "
                                            "± standard deviation over seeds.",
                                 .formula = formula});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    if (tasks) mt_figure_measure_column(table, "benchmarks", 1, false);
    for (int i = 0; i < SHOWN; i++) {
        const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, shown[i]);
        mt_figure_measure_column(table, row->title, row->decimals, false);
    }
    size_t first = mt_view_base_row(view, table);
    if (first > 0 && tasks) mt_figure_measure(table, mt_view_base_score(view), (double)NAN, false);
    for (int i = 0; i < SHOWN && first > 0; i++) mt_view_base_measure(view, table, shown[i], MT_ALL_DOMAINS);
    for (size_t m = 0; m < view->methods; m++) {
        if (!mt_view_is_ablation(view, m)) continue;
        mt_figure_text(table, comparison->settings->method[m].name);
        if (tasks) mt_figure_measure(table, scores[m].moments.mean, scores[m].moments.deviation, false);
        for (int i = 0; i < SHOWN; i++) {
            double factor = mt_compare_column_row(comparison, shown[i])->factor;
            mt_compare_summarize(comparison, view->model, shown[i], MT_ALL_DOMAINS, summary);
            mt_figure_measure(table, factor * summary[m].moments.mean, factor * summary[m].moments.deviation,
                              false);
        }
    }
    if (tasks) mt_figure_rank(table, 1, 1, first);
    for (int i = 0; i < SHOWN; i++)
        mt_figure_rank(table, i + (tasks ? 2 : 1), mt_compare_column_row(comparison, shown[i])->better,
                       first);
}

/* "overlap ↓": the arrow points to what the paper calls better. */
static void open_panel(struct mt_figure *bars, const char *title, int better)
{
    char name[MT_COMPARE_TITLE_BYTES];
    (void)snprintf(name, sizeof name, "%.150s%s", title, better > 0 ? " ↑" : (better < 0 ? " ↓" : ""));
    mt_figure_panel(bars, name);
}

static void add_bar(struct mt_figure *bars, const char *name, double factor, struct mt_paired paired)
{
    double middle = factor * paired.mean;
    double away = factor * paired.error;
    mt_figure_bar(bars, name, name, middle, middle - away, middle + away);
}

static void add_bars(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    char title[MT_COMPARE_TITLE_BYTES];
    size_t paper = 0;
    bool whiskers = settings->seeds * settings->trained > 1;
    while (strcmp(settings->method[paper].name, "paper") != 0) paper++;
    struct mt_figure *bars = mt_page_figure(
        view->page, &(struct mt_figure_head){
                        .kind = MT_FIGURE_BARS,
                        .title = mt_view_title(title, view, "What each term does"),
                        .meaning = whiskers ? "Differences to the paper's whole method, which is "
                                              "0; whiskers are standard errors. " ARROW
                                            : "Differences to the paper's whole method, which is 0. " ARROW,
                        .formula = "mean of $x_{sd} - x'_{sd}$ over seeds $s$ and domains $d$, $x'$ "
                                   "of the whole method",
                        .series = "method",
                        .x = "method",
                        .y = "difference",
                        .band = whiskers,
                        .panel = "figure"});
    for (int i = comparison->tasks.count > 0 ? -1 : 0; i < SHOWN; i++) {
        const struct mt_compare_figure_row *row = i < 0 ? NULL : mt_compare_column_row(comparison, shown[i]);
        open_panel(bars, row != NULL ? row->title : "benchmarks", row != NULL ? row->better : 1);
        for (size_t m = 0; m < view->methods; m++) {
            if (m == paper || !mt_view_is_ablation(view, m)) continue;
            add_bar(bars, settings->method[m].name, row != NULL ? row->factor : 1.0,
                    row != NULL ? mt_compare_pair(comparison, view->model, m, paper, shown[i])
                                : mt_view_score_pair(view, m, paper));
        }
    }
}

void mt_page_compare_ablation(const struct mt_compare_view *view)
{
    struct mt_score scores[MT_COMPARE_MOST_METHODS];
    if (!mt_view_has_ablations(view)) return;
    mt_view_scores(view, scores);
    add_table(view, scores);
    add_bars(view);
}
