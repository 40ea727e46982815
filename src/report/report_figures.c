/* Figures of routing, as tables. */
#include "report/report_figures.h"

#include <math.h>

#define LARGEST 1e300

// The figures a table shows, as the files name them.
static const char *const names[] = {"maxvio",        "entropy",       "gini",       "rv_expert",
                                    "rv_token",      "abs_cos",       "overlap_in", "overlap_out",
                                    "silhouette_in", "silhouette_out"};

enum { NAMES = sizeof names / sizeof names[0] };

double mt_report_value(struct mt_page *page, const struct mt_json_node *node)
{
    double value = (double)NAN;
    if (mt_json_kind(node) == MT_JSON_NULL) return value;
    (void)mt_page_check(page, mt_json_as_real(node, -LARGEST, LARGEST, &value));
    return value;
}

double mt_report_number(struct mt_page *page, const struct mt_json_node *object, const char *key)
{
    double value = (double)NAN;
    enum mt_status status = mt_json_expect_object(object);
    if (status == MT_OK) status = mt_json_optional_real(object, key, -LARGEST, LARGEST, &value);
    (void)mt_page_check(page, status);
    return value;
}

struct mt_figure *mt_report_means_table(struct mt_page *page, const char *title, const char *what,
                                        const char *meaning)
{
    struct mt_figure *table = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_TABLE,
                  .title = title,
                  .meaning = meaning,
                  .formula = "docs/analysis.md has the formula of every column; here are means over "
                             "MoE layers."});
    mt_figure_column(table, MT_COLUMN_LABEL, what);
    mt_figure_column(table, MT_COLUMN_LABEL, "run");
    for (int i = 0; i < NAMES; i++) mt_figure_column(table, MT_COLUMN_NUMBER, names[i]);
    return table;
}

void mt_report_means_row(struct mt_figure *table, const char *what, const char *run,
                         const struct mt_json_node *figures)
{
    struct mt_json_node mean;
    if (table == NULL || !mt_page_check(table->page, mt_json_get_object(figures, "mean", &mean))) return;
    mt_figure_text(table, what);
    mt_figure_text(table, run);
    for (int i = 0; i < NAMES; i++) mt_figure_number(table, mt_report_number(table->page, &mean, names[i]));
}
