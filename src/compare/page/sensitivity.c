/* Sensitivity: a method with other strengths of its terms. */
#include <math.h>
#include <stdio.h>

#include "compare/page/parts.h"

static const size_t shown[] = {MT_COMPARE_ACCURACY,   MT_COMPARE_ACCURACY_OTHERS, MT_COMPARE_OVERLAP,
                               MT_COMPARE_SILHOUETTE, MT_COMPARE_ABS_COS,         MT_COMPARE_MAXVIO};

enum { SHOWN = sizeof shown / sizeof shown[0] };

/* The columns shown: benchmarks, then figures. */
static size_t columns_of(const struct mt_compare_view *view, size_t *columns)
{
    size_t count = 0;
    for (size_t t = 0; t < view->comparison->tasks.count; t++) columns[count++] = mt_compare_task_column(t);
    for (int i = 0; i < SHOWN; i++) columns[count++] = shown[i];
    return count;
}

static const char *strength(char text[32], const struct mt_compare_axis *axis, double value)
{
    (void)snprintf(text, 32, axis->count > 0 ? "%g" : "as it is", value);
    return text;
}

static void add_table(const struct mt_compare_view *view, const size_t *columns, size_t count)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char text[MT_COMPARE_TITLE_BYTES];
    char number[32];
    char meaning[MT_COMPARE_TITLE_BYTES];
    (void)snprintf(meaning, sizeof meaning,
                   "%.60s with other strengths: mean ± standard deviation over seeds.",
                   settings->grid.method);
    struct mt_figure *table =
        mt_page_figure(view->page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                                            .title = mt_view_title(text, view, "Sensitivity"),
                                                            .meaning = meaning});
    mt_figure_column(table, MT_COLUMN_LABEL, "α");
    mt_figure_column(table, MT_COLUMN_LABEL, "β");
    mt_figure_column(table, MT_COLUMN_LABEL, "γ");
    for (size_t i = 0; i < count; i++) {
        const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, columns[i]);
        mt_figure_measure_column(table, row->title, row->decimals, false);
    }
    size_t first = mt_view_base_row(view, table);
    for (int i = 0; i < 2 && first > 0; i++) mt_figure_text(table, "–");
    for (size_t i = 0; i < count && first > 0; i++)
        mt_view_base_measure(view, table, columns[i], MT_ALL_DOMAINS);
    for (size_t m = view->methods; m < settings->methods; m++) {
        mt_figure_text(table, strength(number, &settings->grid.alpha, settings->method[m].alpha));
        mt_figure_text(table, strength(number, &settings->grid.beta, settings->method[m].beta));
        mt_figure_text(table, strength(number, &settings->grid.gamma, settings->method[m].gamma));
        for (size_t i = 0; i < count; i++) {
            double factor = mt_compare_column_row(comparison, columns[i])->factor;
            mt_compare_summarize(comparison, view->model, columns[i], MT_ALL_DOMAINS, summary);
            mt_figure_measure(table, factor * summary[m].moments.mean, factor * summary[m].moments.deviation,
                              false);
        }
    }
    for (size_t i = 0; i < count; i++)
        mt_figure_rank(table, (int)i + 3, mt_compare_column_row(comparison, columns[i])->better, first);
}

static void add_plane(const struct mt_compare_view *view, size_t column, double alpha)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_compare_figure_row *row = mt_compare_column_row(comparison, column);
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char what[MT_COMPARE_TITLE_BYTES], title[MT_COMPARE_TITLE_BYTES], y[32], x[32];
    (void)snprintf(what, sizeof what, "%.60s over β and γ", row->title);
    if (settings->grid.alpha.count > 0)
        (void)snprintf(what, sizeof what, "%.60s over β and γ, α = %g", row->title, alpha);
    struct mt_figure *grid = mt_page_figure(
        view->page, &(struct mt_figure_head){.kind = MT_FIGURE_GRID,
                                             .title = mt_view_title(title, view, what),
                                             .meaning = "Flat: the strengths do not matter much.",
                                             .formula = mt_view_formula(row),
                                             .x = "γ (L_v)",
                                             .y = "β (L_o)",
                                             .value = row->title,
                                             .scale = row->title});
    mt_compare_summarize(comparison, view->model, column, MT_ALL_DOMAINS, summary);
    for (size_t m = view->methods; m < settings->methods; m++) {
        const struct mt_compare_method *method = &settings->method[m];
        if (method->alpha != alpha) continue;
        mt_figure_cell(grid, strength(y, &settings->grid.beta, method->beta),
                       strength(x, &settings->grid.gamma, method->gamma),
                       row->factor * summary[m].moments.mean);
    }
}

void mt_page_compare_sensitivity(const struct mt_compare_view *view)
{
    const struct mt_compare_grid *grid = &view->comparison->settings->grid;
    size_t columns[SHOWN + MT_COMPARE_MOST_TASKS];
    size_t count = columns_of(view, columns);
    if (grid->method == NULL) return;
    add_table(view, columns, count);
    for (size_t i = 0; i < count; i++) {
        for (size_t a = 0; a < (grid->alpha.count > 0 ? grid->alpha.count : 1); a++)
            add_plane(view, columns[i], grid->alpha.value[a]);
    }
}
