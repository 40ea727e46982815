/* The sensitivity grid, and what the methods cost. */
#include <math.h>
#include <stdio.h>

#include "compare/pages.h"

#define MOST_PAIRS (MT_COMPARE_MOST_SEEDS * MT_COMPARE_MOST_DOMAINS)

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
    mt_compare_summarize(comparison, figure, MT_ALL_DOMAINS, summary);
    for (size_t m = 0; m < settings->methods; m++) {
        const struct mt_compare_method *method = &settings->method[m];
        if (!method->in_grid || method->alpha != alpha) continue;
        (void)snprintf(y, sizeof y, settings->grid.beta.count > 0 ? "%g" : "as it is", method->beta);
        (void)snprintf(x, sizeof x, settings->grid.gamma.count > 0 ? "%g" : "as it is", method->gamma);
        mt_figure_cell(grid, y, x, row->factor * summary[m].moments.mean);
    }
}

void mt_compare_page_grid(const struct mt_comparison *comparison, struct mt_page *page)
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
            ratio[count++] = mt_compare_value(comparison, method, d, s, figure) /
                             mt_compare_value(comparison, base, d, s, figure);
    }
    return mt_moments(ratio, count);
}

void mt_compare_page_overhead(const struct mt_comparison *comparison, struct mt_page *page)
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
    for (size_t m = 0; m < mt_compare_plain_methods(settings); m++) {
        struct mt_moments cpu = relative(comparison, m, MT_COMPARE_PROCESSOR);
        struct mt_moments wall = relative(comparison, m, MT_COMPARE_SECONDS);
        mt_figure_bar(bars, "processors", settings->method[m].name, cpu.mean, cpu.mean - cpu.deviation,
                      cpu.mean + cpu.deviation);
        mt_figure_bar(bars, "clock", settings->method[m].name, wall.mean, wall.mean - wall.deviation,
                      wall.mean + wall.deviation);
    }
}
