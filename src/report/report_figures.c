/* Runs side by side, and figures of routing as tables. */
#include "report/report_figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/formulas.h"

#define LARGEST   1e300
#define MOST_RUNS 16

// The figures a table shows, as the files name them.
static const char *const names[] = {"maxvio",           "entropy",    "gini",        "effective_experts",
                                    "effective_scores", "experts_90", "rv_expert",   "rv_token",
                                    "abs_cos",          "overlap_in", "overlap_out", "silhouette_in",
                                    "silhouette_out"};

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

// ------------------------------------------------------------------ runs side by side

void mt_report_run_columns(struct mt_figure *table, const struct mt_run *runs, size_t count)
{
    char name[MT_REPORT_NAME_BYTES];
    for (size_t r = 0; r < count; r++) {
        mt_figure_column(table, MT_COLUMN_NUMBER, runs[r].name);
        (void)snprintf(name, sizeof name, "Δ %.140s", runs[r].name);
        if (r > 0) mt_figure_column(table, MT_COLUMN_NUMBER, name);
    }
}

void mt_report_run_cells(struct mt_figure *table, const double *value, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        mt_figure_number(table, value[r]);
        if (r > 0) mt_figure_number(table, value[r] - value[0]);
    }
}

// ------------------------------------------------------------------ means over layers

static double mean_at(struct mt_page *page, const struct mt_run *run, const struct mt_report_means *means,
                      const char *what, const char *name)
{
    struct mt_json_node node;
    if (!means->means_of(page, run, what, &node)) return (double)NAN;
    return mt_report_number(page, &node, name);
}

/* A row for each what, a column for each figure. */
static void add_wide(struct mt_figure *table, const struct mt_run *run, const struct mt_report_means *means)
{
    for (int i = 0; i < NAMES; i++) mt_figure_column(table, MT_COLUMN_NUMBER, mt_formula_of(names[i])->title);
    for (size_t w = 0; w < means->count && table != NULL; w++) {
        mt_figure_text(table, means->whats[w]);
        for (int i = 0; i < NAMES; i++)
            mt_figure_number(table, mean_at(table->page, run, means, means->whats[w], names[i]));
    }
}

/* A row for each what and figure, the runs side by side. */
static void add_side(struct mt_figure *table, const struct mt_run *runs, size_t count,
                     const struct mt_report_means *means)
{
    double value[MOST_RUNS];
    mt_figure_column(table, MT_COLUMN_LABEL, "figure");
    mt_report_run_columns(table, runs, count);
    for (size_t w = 0; w < means->count && table != NULL; w++) {
        mt_figure_rule(table);
        for (int i = 0; i < NAMES; i++) {
            bool known = false;
            for (size_t r = 0; r < count; r++) {
                value[r] = mean_at(table->page, &runs[r], means, means->whats[w], names[i]);
                known |= !isnan(value[r]);
            }
            if (!known) continue;
            mt_figure_text(table, means->whats[w]);
            mt_figure_text(table, mt_formula_of(names[i])->title);
            mt_report_run_cells(table, value, count);
        }
    }
}

void mt_report_means_table(struct mt_page *page, const struct mt_run *runs, size_t count,
                           const struct mt_report_means *means)
{
    char formula[2048] = "Means over MoE layers. ";
    size_t length = strlen(formula);
    if (count > MOST_RUNS) return;
    for (int i = 0; i < NAMES; i++) {
        const struct mt_formula *one = mt_formula_of(names[i]);
        int added = snprintf(formula + length, sizeof formula - length, "%s: %s; ", one->title, one->formula);
        if (added > 0 && length + (size_t)added < sizeof formula) length += (size_t)added;
    }
    (void)snprintf(formula + length, sizeof formula - length, "%s.", MT_FORMULA_LETTERS);
    struct mt_figure *table = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                                                            .title = means->title,
                                                                            .meaning = means->meaning,
                                                                            .formula = formula});
    mt_figure_column(table, MT_COLUMN_LABEL, means->what);
    if (count == 1) {
        add_wide(table, runs, means);
    } else {
        add_side(table, runs, count, means);
    }
}
