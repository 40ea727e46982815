/* The page's head and its tables. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "compare/page.h"
#include "report/output.h"

#define SIGNIFICANT 0.05
#define MOST_PAIRS  (MT_COMPARE_MOST_SEEDS * MT_COMPARE_MOST_DOMAINS)

const char *mt_compare_mean_text(char text[MT_COMPARE_TEXT_BYTES], const struct mt_compare_figure_row *row,
                                 const struct mt_moments *moments)
{
    int length = 0;
    if (isnan(moments->mean)) {
        (void)snprintf(text, MT_COMPARE_TEXT_BYTES, "–");
        return text;
    }
    length = snprintf(text, MT_COMPARE_TEXT_BYTES, "%.*f", row->decimals, row->factor * moments->mean);
    if (!isnan(moments->deviation) && length > 0 && length < MT_COMPARE_TEXT_BYTES)
        (void)snprintf(text + length, MT_COMPARE_TEXT_BYTES - (size_t)length, " ± %.*f", row->decimals,
                       row->factor * moments->deviation);
    return text;
}

static const char *difference_text(char text[MT_COMPARE_TEXT_BYTES], enum mt_compare_figure figure,
                                   const struct mt_compare_summary *summary)
{
    const struct mt_compare_figure_row *row = mt_compare_figure_row(figure);
    const struct mt_paired *paired = &summary->paired;
    if (isnan(paired->error))
        (void)snprintf(text, MT_COMPARE_TEXT_BYTES, "–");
    else
        (void)snprintf(text, MT_COMPARE_TEXT_BYTES, "%+.*f ± %.*f%s", row->decimals,
                       row->factor * paired->mean, row->decimals, row->factor * paired->error,
                       summary->holm < SIGNIFICANT ? " *" : "");
    return text;
}

static size_t plain_methods(const struct mt_compare_settings *settings)
{
    size_t count = 0;
    while (count < settings->methods && !settings->method[count].in_grid) count++;
    return count;
}

// ------------------------------------------------------------------ accuracy

static void add_accuracy_columns(const struct mt_compare_settings *settings, struct mt_figure *table)
{
    char name[MT_COMPARE_TEXT_BYTES];
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t d = 0; d < settings->trained; d++) {
        (void)snprintf(name, sizeof name, "%.50s %%", settings->domain[d].name);
        mt_figure_column(table, MT_COLUMN_LABEL, name);
    }
    (void)snprintf(name, sizeof name, "Δ %.50s", settings->reference);
    mt_figure_column(table, MT_COLUMN_LABEL, name);
    mt_figure_column(table, MT_COLUMN_NUMBER, "p");
    mt_figure_column(table, MT_COLUMN_NUMBER, "p (Holm)");
    mt_figure_column(table, MT_COLUMN_LABEL, "others %");
    (void)snprintf(name, sizeof name, "Δ others, %.40s", settings->reference);
    mt_figure_column(table, MT_COLUMN_LABEL, name);
    mt_figure_column(table, MT_COLUMN_NUMBER, "p (Holm), others");
}

static void add_accuracy(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary own[MT_COMPARE_MOST_METHODS];
    struct mt_compare_summary others[MT_COMPARE_MOST_METHODS];
    struct mt_compare_summary domain[MT_COMPARE_MOST_METHODS];
    char text[MT_COMPARE_TEXT_BYTES];
    size_t methods = plain_methods(settings);
    struct mt_figure *table = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = "Accuracy",
            .meaning = "Held-out problems answered exactly, after training on the domain; then those of all "
                       "other domains, where a routing loss that is too strong shows first.",
            .formula = "mean ± standard deviation over seeds; Δ: mean ± standard error of paired differences "
                       "(same seed, same domain) to the reference; p: two-sided paired t-test, from three "
                       "pairs on; p (Holm): corrected for the number of methods; * below 0.05"});
    add_accuracy_columns(settings, table);
    mt_compare_summarize(comparison, 0, MT_COMPARE_ACCURACY, MT_ALL_DOMAINS, own);
    mt_compare_summarize(comparison, 0, MT_COMPARE_ACCURACY_OTHERS, MT_ALL_DOMAINS, others);
    for (size_t m = 0; m < methods; m++) {
        bool base = m == mt_compare_reference(settings);
        mt_figure_text(table, settings->method[m].name);
        for (size_t d = 0; d < settings->trained; d++) {
            mt_compare_summarize(comparison, 0, MT_COMPARE_ACCURACY, d, domain);
            mt_figure_text(table, mt_compare_mean_text(text, mt_compare_figure_row(MT_COMPARE_ACCURACY),
                                                       &domain[m].moments));
        }
        mt_figure_text(table, base ? "–" : difference_text(text, MT_COMPARE_ACCURACY, &own[m]));
        mt_figure_number(table, base ? (double)NAN : own[m].paired.p);
        mt_figure_number(table, own[m].holm);
        mt_figure_text(table, mt_compare_mean_text(text, mt_compare_figure_row(MT_COMPARE_ACCURACY_OTHERS),
                                                   &others[m].moments));
        mt_figure_text(table, base ? "–" : difference_text(text, MT_COMPARE_ACCURACY_OTHERS, &others[m]));
        mt_figure_number(table, others[m].holm);
    }
}

// ------------------------------------------------------------------ all figures

static void add_table(const struct mt_comparison *comparison, struct mt_page *page, const char *title,
                      const char *meaning, bool differences)
{
    const struct mt_compare_settings *settings = comparison->settings;
    static const enum mt_compare_figure shown[] = {
        MT_COMPARE_LOSS,     MT_COMPARE_LOSS_OTHERS, MT_COMPARE_MAXVIO,      MT_COMPARE_ENTROPY,
        MT_COMPARE_OVERLAP,  MT_COMPARE_SILHOUETTE,  MT_COMPARE_OVERLAP_OUT, MT_COMPARE_SILHOUETTE_OUT,
        MT_COMPARE_RV_TOKEN, MT_COMPARE_RV_EXPERT,   MT_COMPARE_ABS_COS,     MT_COMPARE_INFORMATION,
    };
    enum { SHOWN = sizeof shown / sizeof shown[0] };
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char text[MT_COMPARE_TEXT_BYTES];
    char formula[1024];
    size_t length = 0;
    for (int i = 0; i < SHOWN; i++) {
        const struct mt_compare_figure_row *row = mt_compare_figure_row(shown[i]);
        int added = snprintf(formula + length, sizeof formula - length, "%s%s: %s", i == 0 ? "" : "; ",
                             row->title, row->formula);
        if (added > 0 && length + (size_t)added < sizeof formula) length += (size_t)added;
    }
    struct mt_figure *table = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_TABLE, .title = title, .meaning = meaning, .formula = formula});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (int i = 0; i < SHOWN; i++)
        mt_figure_column(table, MT_COLUMN_LABEL, mt_compare_figure_row(shown[i])->title);
    for (size_t m = 0; m < plain_methods(settings); m++) {
        if (differences && m == mt_compare_reference(settings)) continue;
        mt_figure_text(table, settings->method[m].name);
        for (int i = 0; i < SHOWN; i++) {
            mt_compare_summarize(comparison, 0, shown[i], MT_ALL_DOMAINS, summary);
            mt_figure_text(table, differences ? difference_text(text, shown[i], &summary[m])
                                              : mt_compare_mean_text(text, mt_compare_figure_row(shown[i]),
                                                                     &summary[m].moments));
        }
    }
}

static void add_figures(const struct mt_comparison *comparison, struct mt_page *page)
{
    char meaning[256];
    add_table(comparison, page, "Balance and geometry",
              "Mean ± standard deviation over seeds, of held-out problems of the domain trained on.", false);
    (void)snprintf(meaning, sizeof meaning,
                   "Mean ± standard error of paired differences to %.60s; * where the paired t-test, "
                   "corrected by Holm for the number of methods, gives p below 0.05.",
                   comparison->settings->reference);
    if (comparison->settings->seeds > 1)
        add_table(comparison, page, "Differences to the reference", meaning, true);
}

// ------------------------------------------------------------------ the page

static void add_head(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    char number[MT_NUMBER_BYTES];
    char text[MT_COMPARE_TEXT_BYTES];
    size_t known = 0;
    for (size_t i = 0; i < comparison->cells; i++) known += comparison->cell[i].result.known ? 1 : 0;
    mt_page_subtitle(page, "metier compare");
    mt_page_card(page, "methods", mt_number_text(number, (double)settings->methods), "");
    mt_page_card(page, "seeds", mt_number_text(number, (double)settings->seeds), "");
    mt_page_card(page, "domains", mt_number_text(number, (double)settings->trained), "trained on");
    (void)snprintf(text, sizeof text, "of %zu", comparison->cells);
    mt_page_card(page, "cells", mt_number_text(number, (double)known), text);
    mt_page_card(page, "reference", settings->reference, "");
    mt_page_section(page, "Tables");
    mt_page_text(page,
                 "Model: %.300s. Every method is trained on every domain with every seed, and measured on "
                 "held-out problems.",
                 settings->model[0].path);
    if (known < comparison->cells)
        mt_page_text(page, "Of %s %zu missing; what is shown is of the others.",
                     mt_counted(comparison->cells, "cell", "cells").text, comparison->cells - known);
    for (size_t i = 0; i < comparison->cells; i++) {
        if (comparison->cell[i].failure != NULL)
            mt_page_text(page, "%.100s failed: %.600s", comparison->cell[i].name,
                         comparison->cell[i].failure);
    }
}

// ------------------------------------------------------------------ claims

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
            mt_compare_value(comparison, 0, method, i % settings->trained, i / settings->trained, figure);
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

static void add_claims(const struct mt_comparison *comparison, struct mt_page *page)
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
        paired[i] = mt_compare_pair(comparison, 0, method, other, claims[i].figure);
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

// ------------------------------------------------------------------ pictures

// ------------------------------------------------------------------ bars

static void add_bars(const struct mt_comparison *comparison, struct mt_page *page)
{
    static const enum mt_compare_figure shown[] = {
        MT_COMPARE_OVERLAP, MT_COMPARE_SILHOUETTE,  MT_COMPARE_RV_TOKEN,       MT_COMPARE_ABS_COS,
        MT_COMPARE_MAXVIO,  MT_COMPARE_OVERLAP_OUT, MT_COMPARE_SILHOUETTE_OUT, MT_COMPARE_INFORMATION,
    };
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        const struct mt_compare_figure_row *row = mt_compare_figure_row(shown[i]);
        char meaning[200];
        (void)snprintf(meaning, sizeof meaning, "Mean over seeds, with the standard deviation; %s",
                       row->better < 0 ? "the paper wants it low." : "the paper wants it high.");
        struct mt_figure *bars = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                                                               .title = row->title,
                                                                               .meaning = meaning,
                                                                               .formula = row->formula,
                                                                               .series = "domain",
                                                                               .x = "method",
                                                                               .y = row->title,
                                                                               .band = settings->seeds > 1});
        for (size_t d = 0; d < settings->trained; d++) {
            mt_compare_summarize(comparison, 0, shown[i], d, summary);
            for (size_t m = 0; m < plain_methods(settings); m++) {
                double mean = summary[m].moments.mean;
                double away = summary[m].moments.deviation;
                mt_figure_bar(bars, settings->domain[d].name, settings->method[m].name, mean, mean - away,
                              mean + away);
            }
        }
    }
}

// ------------------------------------------------------------------ curves

static void add_rmse(const struct mt_comparison *comparison, struct mt_page *page, double *room, size_t most)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double *a = room;
    double *b = room + most;
    struct mt_figure *grid = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_GRID,
            .title = "RMSE between the curves",
            .meaning = "How far two methods' balance lies apart while training; the paper has at most "
                       "0.03 between its own method and those with L_aux.",
            .formula = "sqrt(1/n Σ_i (a_i - b_i)²) over steps; a, b: MaxVio of a step, mean over layers, "
                       "seeds and domains",
            .x = "method",
            .y = "method",
            .value = "RMSE"});
    for (size_t m = 0; m < plain_methods(settings); m++) {
        size_t a_steps = mt_compare_curve(comparison, 0, m, MT_ALL_DOMAINS, a, most);
        for (size_t k = 0; k < plain_methods(settings); k++) {
            size_t b_steps = mt_compare_curve(comparison, 0, k, MT_ALL_DOMAINS, b, most);
            mt_figure_cell(grid, settings->method[m].name, settings->method[k].name,
                           mt_compare_rmse(a, a_steps, b, b_steps));
        }
    }
}

static void add_curves(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t most = mt_compare_most_steps(comparison);
    void *memory = NULL;
    if (mt_page_status(page) != MT_OK) return;
    enum mt_status status = mt_allocate_array(comparison->ctx, 2 * most + 1, sizeof(double), &memory);
    if (!mt_page_check(page, status)) return;
    double *curve = memory;
    for (size_t d = 0; d < settings->trained; d++) {
        char title[128];
        (void)snprintf(title, sizeof title, "MaxVio while training on %.80s", settings->domain[d].name);
        struct mt_figure *lines = mt_page_figure(
            page, &(struct mt_figure_head){
                      .kind = MT_FIGURE_LINES,
                      .title = title,
                      .meaning = "Curves that lie on each other: the methods balance alike.",
                      .formula = "(max_j load_j - mean) / mean of a step, mean over layers and seeds",
                      .series = "method",
                      .x = "step",
                      .y = "MaxVio"});
        for (size_t m = 0; m < plain_methods(settings); m++) {
            size_t steps = mt_compare_curve(comparison, 0, m, d, curve, most);
            for (size_t i = 0; i < steps; i++)
                mt_figure_point(lines, settings->method[m].name, (double)(i + 1), curve[i]);
        }
    }
    if (plain_methods(settings) > 1) add_rmse(comparison, page, curve, most);
    mt_release(comparison->ctx, memory, (2 * most + 1) * sizeof(double));
}

// ------------------------------------------------------------------ the radar

/* The paper's method, its ablations, and ours; where there are no ablations, every method. */
static bool is_on_radar(const struct mt_compare_settings *settings, size_t method)
{
    size_t ablations = 0;
    for (size_t m = 0; m < settings->methods; m++)
        ablations += strncmp(settings->method[m].name, "paper-wo", 8) == 0 ? 1 : 0;
    const char *name = settings->method[method].name;
    if (ablations == 0) return true;
    return strcmp(name, "paper") == 0 || strcmp(name, "metier") == 0 || strncmp(name, "paper-wo", 8) == 0 ||
           strcmp(name, "paper-only-aux") == 0;
}

/* Where a method's mean lies between the worst, 0, and the best, 1, of those shown. NaN: all are the same. */
static void scale(const struct mt_compare_settings *settings, const struct mt_compare_summary *summary,
                  int better, double *scaled)
{
    double low = (double)NAN;
    double high = (double)NAN;
    for (size_t m = 0; m < plain_methods(settings); m++) {
        if (!is_on_radar(settings, m)) continue;
        low = fmin(low, summary[m].moments.mean);
        high = fmax(high, summary[m].moments.mean);
    }
    for (size_t m = 0; m < plain_methods(settings); m++) {
        double place = high > low ? (summary[m].moments.mean - low) / (high - low) : (double)NAN;
        scaled[m] = better < 0 ? 1.0 - place : place;
    }
}

static void add_radar(const struct mt_comparison *comparison, struct mt_page *page)
{
    static const enum mt_compare_figure axes[] = {
        MT_COMPARE_ACCURACY,   MT_COMPARE_ACCURACY_OTHERS, MT_COMPARE_MAXVIO,  MT_COMPARE_OVERLAP,
        MT_COMPARE_SILHOUETTE, MT_COMPARE_RV_TOKEN,        MT_COMPARE_ABS_COS,
    };
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    double scaled[MT_COMPARE_MOST_METHODS];
    struct mt_figure *radar = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_RADAR,
            .title = "What each term does",
            .meaning = "Further out is what the paper calls better. Small differences fill an axis like "
                       "large ones: the tables above say what is beyond chance.",
            .formula = "(mean - worst) / (best - worst) over the methods shown; MaxVio, overlap and |cos| "
                       "turned round, so that low is outside",
            .series = "method",
            .x = "figure",
            .y = "place"});
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        const struct mt_compare_figure_row *row = mt_compare_figure_row(axes[i]);
        mt_compare_summarize(comparison, 0, axes[i], MT_ALL_DOMAINS, summary);
        scale(settings, summary, row->better, scaled);
        for (size_t m = 0; m < plain_methods(settings); m++) {
            if (is_on_radar(settings, m))
                mt_figure_bar(radar, settings->method[m].name, row->title, scaled[m], scaled[m], scaled[m]);
        }
    }
}

// ------------------------------------------------------------------ tokens

/* The reference, the paper's method, ours; or the first three. */
static bool is_pictured(const struct mt_compare_settings *settings, size_t method)
{
    const char *name = settings->method[method].name;
    bool known = strcmp(name, "paper") == 0 || strcmp(name, "metier") == 0;
    return known || method == mt_compare_reference(settings) || plain_methods(settings) <= 3;
}

static void add_tokens(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    for (size_t m = 0; m < plain_methods(settings); m++) {
        const struct mt_cell *cell = mt_comparison_cell(comparison, 0, m, 0, 0);
        char title[160], meaning[256];
        if (!is_pictured(settings, m) || !cell->result.known) continue;
        (void)snprintf(title, sizeof title, "Tokens under %.80s", settings->method[m].name);
        (void)snprintf(meaning, sizeof meaning,
                       "What enters layer %" PRId64
                       ", coloured by the first choice, of the most active experts; "
                       "%.60s, seed %" PRIu64 ". Colours that keep apart: experts with tokens of their own.",
                       cell->result.point_layer, settings->domain[0].name, settings->seed[0]);
        struct mt_figure *scatter =
            mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_SCATTER,
                                                          .title = title,
                                                          .meaning = meaning,
                                                          .formula = "the first two principal components",
                                                          .series = "expert",
                                                          .x = "first component",
                                                          .y = "second component"});
        for (size_t i = 0; i < cell->result.points; i++) {
            const struct mt_cell_point *point = &cell->result.point[i];
            mt_figure_expert(scatter, point->expert, point->x, point->y);
        }
    }
}

// ------------------------------------------------------------------ grids of settings, and what a method
// costs

// ------------------------------------------------------------------ sensitivity

static void add_plane(const struct mt_comparison *comparison, struct mt_page *page,
                      enum mt_compare_figure figure, double alpha)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_compare_figure_row *row = mt_compare_figure_row(figure);
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[160], y[32], x[32];
    (void)snprintf(title, sizeof title, "%s over β and γ", row->title);
    if (settings->grid.alpha.count > 0)
        (void)snprintf(title, sizeof title, "%s over β and γ, α = %g", row->title, alpha);
    struct mt_figure *grid =
        mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_GRID,
                                                      .title = title,
                                                      .meaning = "Flat: the strengths do not matter much.",
                                                      .formula = row->formula,
                                                      .x = "γ (L_v)",
                                                      .y = "β (L_o)",
                                                      .value = row->title,
                                                      .scale = row->title});
    mt_compare_summarize(comparison, 0, figure, MT_ALL_DOMAINS, summary);
    for (size_t m = 0; m < settings->methods; m++) {
        const struct mt_compare_method *method = &settings->method[m];
        if (!method->in_grid || method->alpha != alpha) continue;
        (void)snprintf(y, sizeof y, settings->grid.beta.count > 0 ? "%g" : "as it is", method->beta);
        (void)snprintf(x, sizeof x, settings->grid.gamma.count > 0 ? "%g" : "as it is", method->gamma);
        mt_figure_cell(grid, y, x, row->factor * summary[m].moments.mean);
    }
}

static void add_grid(const struct mt_comparison *comparison, struct mt_page *page)
{
    static const enum mt_compare_figure shown[] = {
        MT_COMPARE_ACCURACY,   MT_COMPARE_ACCURACY_OTHERS, MT_COMPARE_OVERLAP,
        MT_COMPARE_SILHOUETTE, MT_COMPARE_ABS_COS,         MT_COMPARE_MAXVIO,
    };
    const struct mt_compare_grid *grid = &comparison->settings->grid;
    if (grid->method == NULL) return;
    mt_page_section(page, "Sensitivity");
    mt_page_text(page, "Method %.60s with other strengths of its terms.", grid->method);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        for (size_t a = 0; a < (grid->alpha.count > 0 ? grid->alpha.count : 1); a++)
            add_plane(comparison, page, shown[i], grid->alpha.value[a]);
    }
}

// ------------------------------------------------------------------ overhead

/* Time of a step over the reference's, of the same seed and domain. */
static struct mt_moments relative(const struct mt_comparison *comparison, size_t method,
                                  enum mt_compare_figure figure)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double ratio[MOST_PAIRS];
    size_t count = 0;
    size_t base = mt_compare_reference(settings);
    for (size_t s = 0; s < settings->seeds; s++) {
        for (size_t d = 0; d < settings->trained; d++)
            ratio[count++] = mt_compare_value(comparison, 0, method, d, s, figure) /
                             mt_compare_value(comparison, 0, base, d, s, figure);
    }
    return mt_moments(ratio, count);
}

static void add_overhead(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_figure *bars = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_BARS,
            .title = "Time of a training step",
            .meaning = "Relative to the reference: 1 costs nothing. Where other programs run beside it, the "
                       "processors' time is the one to look at.",
            .formula =
                "median over steps of a cell, over the reference's with the same seed and domain; mean "
                "± standard deviation",
            .series = "time",
            .x = "method",
            .y = "of the reference's",
            .band = true});
    for (size_t m = 0; m < plain_methods(settings); m++) {
        struct mt_moments cpu = relative(comparison, m, MT_COMPARE_PROCESSOR);
        struct mt_moments wall = relative(comparison, m, MT_COMPARE_SECONDS);
        mt_figure_bar(bars, "processors", settings->method[m].name, cpu.mean, cpu.mean - cpu.deviation,
                      cpu.mean + cpu.deviation);
        mt_figure_bar(bars, "clock", settings->method[m].name, wall.mean, wall.mean - wall.deviation,
                      wall.mean + wall.deviation);
    }
}

// ------------------------------------------------------------------ all of it

enum mt_status mt_comparison_page(const struct mt_comparison *comparison, struct mt_page *page)
{
    add_head(comparison, page);
    add_accuracy(comparison, page);
    add_figures(comparison, page);
    add_claims(comparison, page);
    mt_page_section(page, "Balance and geometry");
    add_bars(comparison, page);
    mt_page_section(page, "Balance while training");
    add_curves(comparison, page);
    mt_page_section(page, "Ablation");
    add_radar(comparison, page);
    mt_page_section(page, "Tokens of the most active experts");
    add_tokens(comparison, page);
    add_grid(comparison, page);
    mt_page_section(page, "Overhead");
    add_overhead(comparison, page);
    return mt_page_status(page);
}
