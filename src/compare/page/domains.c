/* What cells of a mix do on each of its parts. */
#include <math.h>
#include <stdio.h>

#include "compare/page/parts.h"

static const struct {
    enum mt_compare_figure figure;
    enum mt_compare_figure mix; // the same over the mix; the figure itself: there is none
    const char *title;
    const char *meaning;
} shown[] = {
    {MT_COMPARE_ACCURACY, MT_COMPARE_ACCURACY, "Whole answers by domain",
     "Held-out problems of each part of the mix whose whole answer the model would write exactly; the mean "
     "counts every part the same."},
    {MT_COMPARE_LOSS, MT_COMPARE_LOSS, "L_h by domain",
     "Mean cross-entropy of the answers' tokens, of held-out problems of each part of the mix."},
    {MT_COMPARE_MAXVIO, MT_COMPARE_MAXVIO_MIX, "MaxVio by domain",
     "How uneven the loads are on each part of the mix, and over all of them together, where every part has "
     "the same share: experts that serve one domain each are uneven in it and even over the mix."},
};

static void put_mean(struct mt_figure *table, const struct mt_compare_figure_row *row,
                     const struct mt_moments *moments)
{
    mt_figure_measure(table, row->factor * moments->mean, row->factor * moments->deviation, false);
}

/* The model before training, by parts. */
static size_t put_base(const struct mt_compare_view *view, struct mt_figure *table, size_t mix, size_t index)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_figure_row *row = mt_compare_figure_row(shown[index].figure);
    size_t count = 0;
    const size_t *parts = mt_compare_parts(comparison->settings, mix, &count);
    size_t rows = mt_view_base_row(view, table);
    if (rows == 0) return 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_cell_result *start = &mt_comparison_start(comparison, view->model, mix)->result;
        double value = start->known ? start->by_domain[parts[i]][shown[index].figure] : (double)NAN;
        mt_figure_measure(table, row->factor * value, (double)NAN, false);
    }
    mt_view_base_measure(view, table, shown[index].figure, mix);
    if (shown[index].mix != shown[index].figure) mt_view_base_measure(view, table, shown[index].mix, mix);
    return rows;
}

/* One figure of one mix: methods by parts. */
static void add_table(const struct mt_compare_view *view, size_t mix, size_t index)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_compare_figure_row *row = mt_compare_figure_row(shown[index].figure);
    bool over = shown[index].mix != shown[index].figure;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES], what[MT_COMPARE_TITLE_BYTES];
    size_t count = 0;
    const size_t *parts = mt_compare_parts(settings, mix, &count);
    (void)snprintf(what, sizeof what, "%s%s%.60s", shown[index].title, settings->trained > 1 ? ", " : "",
                   settings->trained > 1 ? settings->domain[mix].name : "");
    struct mt_figure *table =
        mt_page_figure(view->page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                                            .title = mt_view_title(title, view, what),
                                                            .meaning = shown[index].meaning,
                                                            .formula = mt_view_formula(row)});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t i = 0; i < count; i++)
        mt_figure_measure_column(table, settings->domain[parts[i]].name, row->decimals, false);
    mt_figure_measure_column(table, "mean", row->decimals, false);
    if (over) mt_figure_measure_column(table, "over the mix", row->decimals, false);
    size_t first = put_base(view, table, mix, index);
    for (size_t m = 0; m < view->methods; m++) {
        mt_figure_text(table, settings->method[m].name);
        for (size_t i = 0; i < count; i++) {
            mt_compare_summarize_part(comparison, view->model, shown[index].figure, mix, parts[i], summary);
            put_mean(table, row, &summary[m].moments);
        }
        mt_compare_summarize(comparison, view->model, shown[index].figure, mix, summary);
        put_mean(table, row, &summary[m].moments);
        if (!over) continue;
        mt_compare_summarize(comparison, view->model, shown[index].mix, mix, summary);
        put_mean(table, row, &summary[m].moments);
    }
    for (size_t i = 0; i <= count + (over ? 1u : 0u); i++)
        mt_figure_rank(table, (int)i + 1, row->better, first);
}

void mt_page_compare_parts(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    for (size_t d = 0; d < settings->trained; d++) {
        if (!settings->domain[d].mix) continue;
        for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) add_table(view, d, i);
    }
}
