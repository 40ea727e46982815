/* The page's head and its tables. */
#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "compare/pages.h"
#include "report/output.h"

#define SIGNIFICANT 0.05

const char *mt_compare_mean_text(char text[MT_COMPARE_TEXT_BYTES], enum mt_compare_figure figure,
                                 const struct mt_moments *moments)
{
    const struct mt_compare_figure_row *row = mt_compare_figure_row(figure);
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

const char *mt_compare_difference_text(char text[MT_COMPARE_TEXT_BYTES], enum mt_compare_figure figure,
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

size_t mt_compare_plain_methods(const struct mt_compare_settings *settings)
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

void mt_compare_page_accuracy(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary own[MT_COMPARE_MOST_METHODS];
    struct mt_compare_summary others[MT_COMPARE_MOST_METHODS];
    struct mt_compare_summary domain[MT_COMPARE_MOST_METHODS];
    char text[MT_COMPARE_TEXT_BYTES];
    size_t methods = mt_compare_plain_methods(settings);
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
    mt_compare_summarize(comparison, MT_COMPARE_ACCURACY, MT_ALL_DOMAINS, own);
    mt_compare_summarize(comparison, MT_COMPARE_ACCURACY_OTHERS, MT_ALL_DOMAINS, others);
    for (size_t m = 0; m < methods; m++) {
        bool base = m == mt_compare_reference(settings);
        mt_figure_text(table, settings->method[m].name);
        for (size_t d = 0; d < settings->trained; d++) {
            mt_compare_summarize(comparison, MT_COMPARE_ACCURACY, d, domain);
            mt_figure_text(table, mt_compare_mean_text(text, MT_COMPARE_ACCURACY, &domain[m].moments));
        }
        mt_figure_text(table, base ? "–" : mt_compare_difference_text(text, MT_COMPARE_ACCURACY, &own[m]));
        mt_figure_number(table, base ? (double)NAN : own[m].paired.p);
        mt_figure_number(table, own[m].holm);
        mt_figure_text(table, mt_compare_mean_text(text, MT_COMPARE_ACCURACY_OTHERS, &others[m].moments));
        mt_figure_text(table,
                       base ? "–" : mt_compare_difference_text(text, MT_COMPARE_ACCURACY_OTHERS, &others[m]));
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
    for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
        if (differences && m == mt_compare_reference(settings)) continue;
        mt_figure_text(table, settings->method[m].name);
        for (int i = 0; i < SHOWN; i++) {
            mt_compare_summarize(comparison, shown[i], MT_ALL_DOMAINS, summary);
            mt_figure_text(table, differences ? mt_compare_difference_text(text, shown[i], &summary[m])
                                              : mt_compare_mean_text(text, shown[i], &summary[m].moments));
        }
    }
}

void mt_compare_page_figures(const struct mt_comparison *comparison, struct mt_page *page)
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
                 settings->model);
    if (known < comparison->cells)
        mt_page_text(page, "Of %s %zu missing; what is shown is of the others.",
                     mt_counted(comparison->cells, "cell", "cells").text, comparison->cells - known);
    for (size_t i = 0; i < comparison->cells; i++) {
        if (comparison->cell[i].failure != NULL)
            mt_page_text(page, "%.100s failed: %.600s", comparison->cell[i].name,
                         comparison->cell[i].failure);
    }
}

enum mt_status mt_comparison_page(const struct mt_comparison *comparison, struct mt_page *page)
{
    add_head(comparison, page);
    mt_compare_page_accuracy(comparison, page);
    mt_compare_page_figures(comparison, page);
    mt_compare_page_claims(comparison, page);
    mt_page_section(page, "Balance and geometry");
    mt_compare_page_bars(comparison, page);
    mt_page_section(page, "Balance while training");
    mt_compare_page_curves(comparison, page);
    mt_page_section(page, "Ablation");
    mt_compare_page_radar(comparison, page);
    mt_page_section(page, "Tokens of the most active experts");
    mt_compare_page_tokens(comparison, page);
    mt_compare_page_grid(comparison, page);
    mt_page_section(page, "Overhead");
    mt_compare_page_overhead(comparison, page);
    return mt_page_status(page);
}
