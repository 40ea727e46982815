/* The paper's claims, held against the cells. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/page/parts.h"

struct claim {
    const char *text;
    const char *method, *other; // the difference is method - other
    enum mt_compare_figure figure;
    int direction; // 1: higher, -1: lower, 0: no difference
};

// "Advancing Expert Specialization for Better MoE": its abstract, sections 4.3 to 4.5, and tables.
static const struct claim claims[] = {
    {"L_o and L_v raise accuracy", "paper", "aux", MT_COMPARE_ACCURACY, 1},
    {"L_o adds accuracy to L_v", "paper", "paper-wo-lo", MT_COMPARE_ACCURACY, 1},
    {"L_v adds accuracy to L_o", "paper", "paper-wo-lv", MT_COMPARE_ACCURACY, 1},
    {"L_o and L_v lower expert overlap", "paper", "aux", MT_COMPARE_OVERLAP, -1},
    {"L_o alone lowers expert overlap", "paper-wo-lv", "aux", MT_COMPARE_OVERLAP, -1},
    {"L_v alone lowers expert overlap", "paper-wo-lo", "aux", MT_COMPARE_OVERLAP, -1},
    {"L_o and L_v raise the silhouette", "paper", "aux", MT_COMPARE_SILHOUETTE, 1},
    {"L_o makes a token's experts answer differently", "paper", "aux", MT_COMPARE_ABS_COS, -1},
    {"L_o and L_v raise the routing variance", "paper", "aux", MT_COMPARE_RV_TOKEN, 1},
    {"L_v alone raises the routing variance", "paper-wo-lo", "aux", MT_COMPARE_RV_TOKEN, 1},
    {"L_o alone raises the routing variance", "paper-wo-lv", "aux", MT_COMPARE_RV_TOKEN, 1},
    {"L_aux balances the loads", "aux", "none", MT_COMPARE_MAXVIO, -1},
    {"L_o and L_v leave the balance as it is", "paper", "aux", MT_COMPARE_MAXVIO, 0},
    {"L_aux raises expert overlap", "aux", "none", MT_COMPARE_OVERLAP, 1},
    {"L_aux lowers the routing variance", "aux", "none", MT_COMPARE_RV_TOKEN, -1},
};

enum { CLAIMS = sizeof claims / sizeof claims[0] };

static size_t method_named(const struct mt_compare_settings *settings, const char *name)
{
    size_t index = 0;
    while (index < settings->methods && strcmp(settings->method[index].name, name) != 0) index++;
    return index;
}

/* Mean over all cells of a method that are known. */
static double plain_mean(const struct mt_compare_view *view, size_t method, enum mt_compare_figure figure)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    double sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < settings->seeds * settings->trained; i++) {
        double value = mt_compare_value(view->comparison, view->model, method, i % settings->trained,
                                        i / settings->trained, figure);
        sum += isnan(value) ? 0.0 : value;
        count += isnan(value) ? 0 : 1;
    }
    return count > 0 ? sum / (double)count : (double)NAN;
}

static const char *verdict(int direction, double difference, double p)
{
    bool seen = p < MT_COMPARE_SIGNIFICANT;
    if (isnan(p)) return "too few cells";
    if (direction == 0) return seen ? "does not hold" : "no difference seen";
    if (!seen) return "not beyond chance";
    return (difference > 0.0) == (direction > 0) ? "holds" : "the opposite";
}

static void add_claim(const struct mt_compare_view *view, struct mt_figure *table, const struct claim *claim,
                      const struct mt_paired *paired, double p)
{
    const struct mt_compare_figure_row *row = mt_compare_figure_row(claim->figure);
    size_t other = method_named(view->comparison->settings, claim->other);
    double base = plain_mean(view, other, claim->figure);
    char text[160];
    mt_figure_text(table, claim->text);
    (void)snprintf(text, sizeof text, "%s of %s - %s", row->title, claim->method, claim->other);
    mt_figure_text(table, text);
    mt_figure_measure(table, row->factor * paired->mean, row->factor * paired->error,
                      p < MT_COMPARE_SIGNIFICANT);
    mt_figure_measure(table, 100.0 * paired->mean / base, (double)NAN, false);
    mt_figure_number(table, p);
    mt_figure_text(table, verdict(claim->direction, paired->mean, p));
}

void mt_page_compare_claims(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_paired paired[CLAIMS];
    double p[CLAIMS];
    double adjusted[CLAIMS];
    char title[MT_COMPARE_TITLE_BYTES];
    for (int i = 0; i < CLAIMS; i++) {
        size_t method = method_named(settings, claims[i].method);
        size_t other = method_named(settings, claims[i].other);
        if (method == settings->methods || other == settings->methods) return; // not that comparison
        paired[i] = mt_compare_pair(comparison, view->model, method, other, claims[i].figure);
        p[i] = paired[i].p;
    }
    mt_holm(p, CLAIMS, adjusted);
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = mt_view_title(title, view, "The paper's claims"),
            .meaning = "What the paper says, and what the cells of this comparison say.",
            .formula = "difference: mean ± standard error over pairs of cells with the same seed and domain; "
                       "relative: of the other method's mean; p: two-sided paired t-test, corrected by Holm "
                       "for the number of claims; a verdict needs p below 0.05"});
    mt_figure_column(table, MT_COLUMN_LABEL, "claim");
    mt_figure_column(table, MT_COLUMN_LABEL, "held against");
    mt_figure_measure_column(table, "difference", 4, true);
    mt_figure_measure_column(table, "relative %", 1, true);
    mt_figure_column(table, MT_COLUMN_NUMBER, "p (Holm)");
    mt_figure_column(table, MT_COLUMN_LABEL, "here");
    for (int i = 0; i < CLAIMS; i++) add_claim(view, table, &claims[i], &paired[i], adjusted[i]);
}
