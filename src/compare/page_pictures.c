/* Bars, curves, the radar, the pictures of tokens. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/pages.h"

// ------------------------------------------------------------------ bars

void mt_compare_page_bars(const struct mt_comparison *comparison, struct mt_page *page)
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
            mt_compare_summarize(comparison, shown[i], d, summary);
            for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
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
    for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
        size_t a_steps = mt_compare_curve(comparison, m, MT_ALL_DOMAINS, a, most);
        for (size_t k = 0; k < mt_compare_plain_methods(settings); k++) {
            size_t b_steps = mt_compare_curve(comparison, k, MT_ALL_DOMAINS, b, most);
            mt_figure_cell(grid, settings->method[m].name, settings->method[k].name,
                           mt_compare_rmse(a, a_steps, b, b_steps));
        }
    }
}

void mt_compare_page_curves(const struct mt_comparison *comparison, struct mt_page *page)
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
        for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
            size_t steps = mt_compare_curve(comparison, m, d, curve, most);
            for (size_t i = 0; i < steps; i++)
                mt_figure_point(lines, settings->method[m].name, (double)(i + 1), curve[i]);
        }
    }
    if (mt_compare_plain_methods(settings) > 1) add_rmse(comparison, page, curve, most);
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
    for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
        if (!is_on_radar(settings, m)) continue;
        low = fmin(low, summary[m].moments.mean);
        high = fmax(high, summary[m].moments.mean);
    }
    for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
        double place = high > low ? (summary[m].moments.mean - low) / (high - low) : (double)NAN;
        scaled[m] = better < 0 ? 1.0 - place : place;
    }
}

void mt_compare_page_radar(const struct mt_comparison *comparison, struct mt_page *page)
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
        mt_compare_summarize(comparison, axes[i], MT_ALL_DOMAINS, summary);
        scale(settings, summary, row->better, scaled);
        for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
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
    return known || method == mt_compare_reference(settings) || mt_compare_plain_methods(settings) <= 3;
}

void mt_compare_page_tokens(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
        const struct mt_cell *cell = mt_comparison_cell(comparison, m, 0, 0);
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
