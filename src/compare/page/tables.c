/* The page's tables: methods and benchmarks, whole answers, balance and geometry. */
#include <math.h>
#include <stdio.h>

#include "compare/page/parts.h"

#define PAIRED                                                                                                  \
    "mean ± standard deviation over seeds; Δ: mean ± standard error of paired differences (same seed, same " \
    "domain) to the reference; p: two-sided paired t-test, from three pairs on, corrected by Holm for the "     \
    "number of methods"

/* A column of measures, with marks; rows are the methods of `shown`, or all. */
static void put_mean(struct mt_figure *table, const struct mt_compare_figure_row *row,
                     const struct mt_moments *moments)
{
    mt_figure_measure(table, row->factor * moments->mean, row->factor * moments->deviation, false);
}

static void put_difference(struct mt_figure *table, double factor, const struct mt_paired *paired, double p,
                           bool reference)
{
    double none = (double)NAN;
    mt_figure_measure(table, reference ? none : factor * paired->mean,
                      reference ? none : factor * paired->error, p < MT_COMPARE_SIGNIFICANT);
}

// ------------------------------------------------------------------ benchmarks

static size_t put_base(const struct mt_compare_view *view, struct mt_figure *table)
{
    if (isnan(mt_view_base_score(view))) return 0;
    size_t rows = mt_view_base_row(view, table);
    for (size_t t = 0; t < view->comparison->tasks.count; t++)
        mt_view_base_measure(view, table, mt_compare_task_column(t), MT_ALL_DOMAINS);
    mt_figure_measure(table, mt_view_base_score(view), (double)NAN, false);
    mt_figure_measure(table, (double)NAN, (double)NAN, false);
    mt_figure_number(table, (double)NAN);
    mt_figure_measure(table, (double)NAN, (double)NAN, false);
    mt_figure_rule(table);
    return rows;
}

static struct mt_figure *open_benchmarks(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    char title[MT_COMPARE_TITLE_BYTES];
    char name[MT_COMPARE_TITLE_BYTES];
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = mt_view_title(title, view, "Methods and benchmarks"),
            .meaning = "Each benchmark by its own metric, in points of 100; the base is the model before "
                       "training and is not ranked.",
            .formula = PAIRED "; rank: mean of the places over benchmarks, 1 is best"});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t t = 0; t < comparison->tasks.count; t++)
        mt_figure_measure_column(table, comparison->task_row[t].title, comparison->task_row[t].decimals,
                                 false);
    mt_figure_measure_column(table, "mean", 1, false);
    (void)snprintf(name, sizeof name, "Δ %.80s", comparison->settings->reference);
    mt_figure_measure_column(table, name, 1, true);
    mt_figure_column(table, MT_COLUMN_NUMBER, "p (Holm)");
    mt_figure_measure_column(table, "rank", 2, false);
    return table;
}

static void add_task_differences(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    char meaning[MT_COMPARE_TITLE_BYTES];
    (void)snprintf(meaning, sizeof meaning, "Points above or below %.80s, benchmark by benchmark.",
                   comparison->settings->reference);
    struct mt_figure *table = mt_page_figure(
        view->page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                             .title = mt_view_title(title, view, "Differences by benchmark"),
                                             .meaning = meaning,
                                             .formula = PAIRED});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t t = 0; t < comparison->tasks.count; t++)
        mt_figure_measure_column(table, comparison->task_row[t].title, comparison->task_row[t].decimals,
                                 true);
    size_t rows = mt_view_base_row(view, table);
    for (size_t t = 0; t < comparison->tasks.count && rows > 0; t++)
        mt_view_base_difference(view, table, mt_compare_task_column(t), MT_ALL_DOMAINS);
    for (size_t m = 0; m < view->methods; m++) {
        if (m == view->reference) continue;
        mt_figure_text(table, comparison->settings->method[m].name);
        for (size_t t = 0; t < comparison->tasks.count; t++) {
            mt_compare_summarize(comparison, view->model, mt_compare_task_column(t), MT_ALL_DOMAINS, summary);
            put_difference(table, comparison->task_row[t].factor, &summary[m].paired, summary[m].holm, false);
        }
    }
}

void mt_page_compare_benchmarks(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    struct mt_score scores[MT_COMPARE_MOST_METHODS];
    double rank[MT_COMPARE_MOST_METHODS];
    size_t tasks = comparison->tasks.count;
    struct mt_figure *table = open_benchmarks(view);
    mt_view_scores(view, scores);
    mt_compare_ranks(comparison, view->model, MT_ALL_DOMAINS, rank);
    size_t first = put_base(view, table); // the base is not ranked
    for (size_t m = 0; m < view->methods; m++) {
        mt_figure_text(table, comparison->settings->method[m].name);
        for (size_t t = 0; t < tasks; t++) {
            mt_compare_summarize(comparison, view->model, mt_compare_task_column(t), MT_ALL_DOMAINS, summary);
            put_mean(table, &comparison->task_row[t], &summary[m].moments);
        }
        mt_figure_measure(table, scores[m].moments.mean, scores[m].moments.deviation, false);
        put_difference(table, 1.0, &scores[m].paired, scores[m].holm, m == view->reference);
        mt_figure_number(table, scores[m].holm);
        mt_figure_measure(table, rank[m], (double)NAN, false);
    }
    for (size_t i = 1; i <= tasks + 1; i++) mt_figure_rank(table, (int)i, 1, first);
    mt_figure_rank(table, (int)tasks + 4, -1, first);
    if (view->methods > 1) add_task_differences(view);
}

// ------------------------------------------------------------------ whole answers

static void open_answers(const struct mt_compare_view *view, struct mt_figure *table)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    char name[MT_COMPARE_TITLE_BYTES];
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t d = 0; d < settings->trained; d++) {
        (void)snprintf(name, sizeof name, "%.80s %%", settings->domain[d].name);
        mt_figure_measure_column(table, name, 1, false);
    }
    (void)snprintf(name, sizeof name, "Δ %.80s", settings->reference);
    mt_figure_measure_column(table, name, 1, true);
    mt_figure_column(table, MT_COLUMN_NUMBER, "p (Holm)");
    mt_figure_measure_column(table, "others %", 1, false);
    (void)snprintf(name, sizeof name, "Δ others, %.80s", settings->reference);
    mt_figure_measure_column(table, name, 1, true);
    mt_figure_column(table, MT_COLUMN_NUMBER, "p (Holm), others");
}

static size_t put_base_answers(const struct mt_compare_view *view, struct mt_figure *table)
{
    size_t rows = mt_view_base_row(view, table);
    for (size_t d = 0; d < view->comparison->settings->trained && rows > 0; d++)
        mt_view_base_measure(view, table, MT_COMPARE_ACCURACY, d);
    if (rows == 0) return 0;
    mt_view_base_difference(view, table, MT_COMPARE_ACCURACY, MT_ALL_DOMAINS);
    mt_figure_number(table, (double)NAN);
    mt_view_base_measure(view, table, MT_COMPARE_ACCURACY_OTHERS, MT_ALL_DOMAINS);
    mt_view_base_difference(view, table, MT_COMPARE_ACCURACY_OTHERS, MT_ALL_DOMAINS);
    mt_figure_number(table, (double)NAN);
    return rows;
}

void mt_page_compare_answers(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary own[MT_COMPARE_MOST_METHODS];
    struct mt_compare_summary others[MT_COMPARE_MOST_METHODS];
    struct mt_compare_summary domain[MT_COMPARE_MOST_METHODS];
    const struct mt_compare_figure_row *row = mt_compare_figure_row(MT_COMPARE_ACCURACY);
    char title[MT_COMPARE_TITLE_BYTES];
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = mt_view_title(title, view, "Whole answers"),
            .meaning = "Held-out problems whose whole answer the model would write exactly, after training "
                       "on the domain; then those of all other domains, where a routing loss that is too "
                       "strong shows first. The base is the model before training.",
            .formula = PAIRED});
    open_answers(view, table);
    mt_compare_summarize(comparison, view->model, MT_COMPARE_ACCURACY, MT_ALL_DOMAINS, own);
    mt_compare_summarize(comparison, view->model, MT_COMPARE_ACCURACY_OTHERS, MT_ALL_DOMAINS, others);
    size_t first = put_base_answers(view, table);
    for (size_t m = 0; m < view->methods; m++) {
        bool reference = m == view->reference;
        mt_figure_text(table, settings->method[m].name);
        for (size_t d = 0; d < settings->trained; d++) {
            mt_compare_summarize(comparison, view->model, MT_COMPARE_ACCURACY, d, domain);
            put_mean(table, row, &domain[m].moments);
        }
        put_difference(table, row->factor, &own[m].paired, own[m].holm, reference);
        mt_figure_number(table, own[m].holm);
        put_mean(table, row, &others[m].moments);
        put_difference(table, row->factor, &others[m].paired, others[m].holm, reference);
        mt_figure_number(table, others[m].holm);
    }
    for (size_t d = 0; d < settings->trained; d++) mt_figure_rank(table, (int)d + 1, 1, first);
    mt_figure_rank(table, (int)settings->trained + 3, 1, first);
}

// ------------------------------------------------------------------ balance and geometry

/* A table of such figures. */
struct figure_list {
    const char *what, *differences; // titles
    size_t column[16];
    int count;
};

static const struct figure_list lists[] = {
    {"Balance and geometry",
     "Differences in balance and geometry",
     {MT_COMPARE_LOSS, MT_COMPARE_LOSS_OTHERS, MT_COMPARE_MAXVIO, MT_COMPARE_ENTROPY, MT_COMPARE_EFFECTIVE,
      MT_COMPARE_EXPERTS_90, MT_COMPARE_OVERLAP, MT_COMPARE_SILHOUETTE, MT_COMPARE_OVERLAP_OUT,
      MT_COMPARE_SILHOUETTE_OUT, MT_COMPARE_RV_TOKEN, MT_COMPARE_RV_EXPERT, MT_COMPARE_ABS_COS,
      MT_COMPARE_INFORMATION},
     14},
    {"Loads, paths and coupling",
     "Differences in loads, paths and coupling",
     {MT_COMPARE_GINI, MT_COMPARE_LOAD_MIN, MT_COMPARE_LOAD_MAX, MT_COMPARE_PATH_ENTROPY,
      MT_COMPARE_PATH_INFORMATION, MT_COMPARE_ROUTER_COS, MT_COMPARE_ROUTER_ABS_COS, MT_COMPARE_ERC_DIAGONAL,
      MT_COMPARE_ERC_DOMINANCE},
     9},
    {"Routing, compared with weights as stored",
     "Differences in routing from weights as stored",
     {MT_COMPARE_SAME_EXPERTS, MT_COMPARE_SAME_SLOTS},
     2},
};

static void add_figures(const struct mt_compare_view *view, const struct figure_list *list,
                        const char *meaning, bool differences)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    char formula[3072];
    mt_view_formulas(formula, sizeof formula, view, list->column, (size_t)list->count);
    struct mt_figure *table = mt_page_figure(
        view->page, &(struct mt_figure_head){
                        .kind = MT_FIGURE_TABLE,
                        .title = mt_view_title(title, view, differences ? list->differences : list->what),
                        .meaning = meaning,
                        .formula = differences ? PAIRED : formula});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (int i = 0; i < list->count; i++) {
        const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, list->column[i]);
        mt_figure_measure_column(table, row->title, row->decimals, differences);
    }
    size_t first = mt_view_base_row(view, table);
    for (int i = 0; i < list->count && first > 0; i++) {
        if (differences)
            mt_view_base_difference(view, table, list->column[i], MT_ALL_DOMAINS);
        else
            mt_view_base_measure(view, table, list->column[i], MT_ALL_DOMAINS);
    }
    for (size_t m = 0; m < view->methods; m++) {
        if (differences && m == view->reference) continue;
        mt_figure_text(table, comparison->settings->method[m].name);
        for (int i = 0; i < list->count; i++) {
            const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, list->column[i]);
            mt_compare_summarize(comparison, view->model, list->column[i], MT_ALL_DOMAINS, summary);
            if (differences)
                put_difference(table, row->factor, &summary[m].paired, summary[m].holm, false);
            else
                put_mean(table, row, &summary[m].moments);
        }
    }
    for (int i = 0; i < list->count && !differences; i++)
        mt_figure_rank(table, i + 1, mt_compare_column_row(comparison, list->column[i])->better, first);
}

void mt_page_compare_geometry(const struct mt_compare_view *view)
{
    char meaning[256];
    (void)snprintf(meaning, sizeof meaning, "Mean ± standard error of paired differences to %.80s.",
                   view->comparison->settings->reference);
    size_t count = sizeof lists / sizeof lists[0];
    if (!view->comparison->settings->agreement) count--; // nothing was measured for the last
    for (size_t i = 0; i < count; i++) {
        add_figures(view, &lists[i],
                    "Mean ± standard deviation over seeds, of held-out problems of the domain trained on.",
                    false);
        if (view->comparison->settings->seeds > 1 && view->methods > 1)
            add_figures(view, &lists[i], meaning, true);
    }
}
