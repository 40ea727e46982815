/* What the paper claims, held against the cells at hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/pages.h"

#define SIGNIFICANT 0.05

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
static double plain_mean(const struct mt_comparison *comparison, size_t method, enum mt_compare_figure figure)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < settings->seeds * settings->trained; i++) {
        double value =
            mt_compare_value(comparison, method, i % settings->trained, i / settings->trained, figure);
        sum += isnan(value) ? 0.0 : value;
        count += isnan(value) ? 0 : 1;
    }
    return count > 0 ? sum / (double)count : (double)NAN;
}

static const char *verdict(int direction, double difference, double p)
{
    bool seen = p < SIGNIFICANT;
    if (isnan(p)) return "too few cells";
    if (direction == 0) return seen ? "does not hold" : "no difference seen";
    if (!seen) return "not beyond chance";
    return (difference > 0.0) == (direction > 0) ? "holds" : "the opposite";
}

static void add_claim(const struct mt_comparison *comparison, struct mt_figure *table,
                      const struct claim *claim, const struct mt_paired *paired, double p)
{
    const struct mt_compare_figure_row *row = mt_compare_figure_row(claim->figure);
    size_t other = method_named(comparison->settings, claim->other);
    double base = plain_mean(comparison, other, claim->figure);
    char text[160];
    mt_figure_text(table, claim->text);
    (void)snprintf(text, sizeof text, "%s of %s - %s", row->title, claim->method, claim->other);
    mt_figure_text(table, text);
    (void)snprintf(text, sizeof text, "%+.*f ± %.*f", row->decimals, row->factor * paired->mean,
                   row->decimals, row->factor * paired->error);
    mt_figure_text(table, text);
    (void)snprintf(text, sizeof text, "%+.1f %%", 100.0 * paired->mean / base);
    mt_figure_text(table, text);
    mt_figure_number(table, p);
    mt_figure_text(table, verdict(claim->direction, paired->mean, p));
}

void mt_compare_page_claims(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    static const char *const columns[] = {"claim", "held against", "difference", "relative"};
    struct mt_paired paired[CLAIMS];
    double p[CLAIMS];
    double adjusted[CLAIMS];
    for (int i = 0; i < CLAIMS; i++) {
        size_t method = method_named(settings, claims[i].method);
        size_t other = method_named(settings, claims[i].other);
        if (method == settings->methods || other == settings->methods) return; // not that comparison
        paired[i] = mt_compare_pair(comparison, method, other, claims[i].figure);
        p[i] = paired[i].p;
    }
    mt_holm(p, CLAIMS, adjusted);
    mt_page_section(page, "The paper's claims at this scale");
    struct mt_figure *table = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_TABLE,
                  .title = "Claims",
                  .meaning = "What the paper says, and what the cells of this comparison say.",
                  .formula = "difference: mean ± standard error over pairs of cells with the same seed and "
                             "domain; relative: of the other method's mean; p: two-sided paired t-test, "
                             "corrected by Holm for the number of claims; a verdict needs p below 0.05"});
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        mt_figure_column(table, MT_COLUMN_LABEL, columns[i]);
    mt_figure_column(table, MT_COLUMN_NUMBER, "p (Holm)");
    mt_figure_column(table, MT_COLUMN_LABEL, "here");
    for (int i = 0; i < CLAIMS; i++) add_claim(comparison, table, &claims[i], &paired[i], adjusted[i]);
}
