/* What a method costs: time of a step, and memory. */
#include <math.h>
#include <stdio.h>

#include "compare/page/parts.h"

#define MOST_PAIRS (MT_COMPARE_MOST_SEEDS * MT_COMPARE_MOST_DOMAINS)

/* A figure over the reference's, of the same seed and domain. */
static struct mt_moments relative(const struct mt_compare_view *view, size_t method,
                                  enum mt_compare_figure figure)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    double ratio[MOST_PAIRS];
    size_t count = 0;
    for (size_t s = 0; s < settings->seeds; s++) {
        for (size_t d = 0; d < settings->trained; d++)
            ratio[count++] = mt_compare_value(view->comparison, view->model, method, d, s, figure) /
                             mt_compare_value(view->comparison, view->model, view->reference, d, s, figure);
    }
    return mt_moments(ratio, count);
}

static const enum mt_compare_figure costs[] = {MT_COMPARE_SECONDS, MT_COMPARE_PROCESSOR, MT_COMPARE_MEMORY};

enum { COSTS = sizeof costs / sizeof costs[0] };

void mt_page_compare_cost(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char text[MT_COMPARE_TITLE_BYTES];
    struct mt_figure *table = mt_page_figure(
        view->page, &(struct mt_figure_head){
                        .kind = MT_FIGURE_TABLE,
                        .title = mt_view_title(text, view, "Time and memory"),
                        .meaning = "Of a training step; × is relative to the reference, so that 1 "
                                   "costs nothing. If other programs run at the same time, the "
                                   "processors' time is the one to look at.",
                        .formula = "medians over the steps of a cell; mean ± standard deviation over "
                                   "seeds, of × over cells with the same seed and domain"});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (int i = 0; i < COSTS; i++) {
        const struct mt_compare_figure_row *row = mt_compare_figure_row(costs[i]);
        mt_figure_measure_column(table, row->title, row->decimals, false);
        (void)snprintf(text, sizeof text, "× %.80s", comparison->settings->reference);
        mt_figure_measure_column(table, text, 3, false);
    }
    for (size_t m = 0; m < view->methods; m++) {
        mt_figure_text(table, comparison->settings->method[m].name);
        for (int i = 0; i < COSTS; i++) {
            double factor = mt_compare_figure_row(costs[i])->factor;
            struct mt_moments times = relative(view, m, costs[i]);
            mt_compare_summarize(comparison, view->model, costs[i], MT_ALL_DOMAINS, summary);
            mt_figure_measure(table, factor * summary[m].moments.mean, factor * summary[m].moments.deviation,
                              false);
            mt_figure_measure(table, times.mean, times.deviation, false);
        }
    }
    for (int i = 0; i < COSTS; i++) mt_figure_rank(table, 2 * i + 1, -1, 0);
}
