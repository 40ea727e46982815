/* What the experts became: tokens by expert, and which domain uses which. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/page/parts.h"

#define MOST_PICTURED 6

/* The reference, the paper's method, ours; or all of a few. */
static bool is_pictured(const struct mt_compare_view *view, size_t method)
{
    const char *name = view->comparison->settings->method[method].name;
    bool known = strcmp(name, "paper") == 0 || strcmp(name, "metier") == 0;
    return known || method == view->reference || view->methods <= MOST_PICTURED;
}

/* The cell of the first domain and seed: pictures are of one run each. */
static const struct mt_cell *cell_of(const struct mt_compare_view *view, size_t method)
{
    return mt_comparison_cell(view->comparison, view->model, method, 0, 0);
}

void mt_page_compare_tokens(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    char title[MT_COMPARE_TITLE_BYTES], meaning[384];
    struct mt_figure *scatter = NULL;
    for (size_t m = 0; m < view->methods; m++) {
        const struct mt_cell *cell = cell_of(view, m);
        if (!is_pictured(view, m) || !cell->result.known || cell->result.points == 0) continue;
        (void)snprintf(meaning, sizeof meaning,
                       "What enters layer %" PRId64 ", coloured by the first choice, of the most active "
                       "experts; %.60s, seed %" PRIu64 ". Colours that keep apart: experts with tokens of "
                       "their own.",
                       cell->result.point_layer, settings->domain[0].name, settings->seed[0]);
        if (scatter == NULL)
            scatter = mt_page_figure(
                view->page, &(struct mt_figure_head){.kind = MT_FIGURE_SCATTER,
                                                     .title = mt_view_title(title, view, "Tokens by expert"),
                                                     .meaning = meaning,
                                                     .formula = "the first two principal components "
                                                                "of each method's inputs",
                                                     .series = "expert",
                                                     .x = "first component",
                                                     .y = "second component",
                                                     .panel = "method"});
        mt_figure_panel(scatter, settings->method[m].name);
        for (size_t i = 0; i < cell->result.points; i++) {
            const struct mt_cell_point *point = &cell->result.point[i];
            mt_figure_expert(scatter, point->expert, point->x, point->y);
        }
    }
}

static struct mt_figure *open_shares(const struct mt_compare_view *view, size_t experts)
{
    char title[MT_COMPARE_TITLE_BYTES];
    return mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_HEATMAP,
            .title = mt_view_title(title, view, "Experts and domains"),
            .meaning =
                "Which experts serve which domain in the last MoE layer, first seed and domain trained "
                "on: rows that differ are experts that specialise; orange is more than the fair share.",
            .formula = "$A_{dj} = c_{dj} / \\sum_m c_{dm}$, $c_{dj}$ the slots of domain $d$ that expert $j$ "
                       "serves; the fair share is $1/n$.",
            .x = "expert",
            .y = "domain and method",
            .value = "share",
            .centred = true,
            .centre = 1.0 / (double)experts,
            .scale = "share",
            .from_zero = true});
}

/* Methods below each other, domain by domain, so that a domain can be followed from method to method. */
void mt_page_compare_shares(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    struct mt_figure *map = NULL;
    for (size_t i = 0; i < settings->domains * view->methods; i++) {
        size_t d = i / view->methods;
        size_t m = i % view->methods;
        const struct mt_cell_result *result = &cell_of(view, m)->result;
        char row[MT_COMPARE_TITLE_BYTES];
        if (!is_pictured(view, m) || !result->known || result->experts == 0) continue;
        if (map == NULL) map = open_shares(view, result->experts);
        (void)snprintf(row, sizeof row, "%.80s: %.80s", settings->domain[d].name, settings->method[m].name);
        for (size_t j = 0; j < result->experts; j++) {
            char expert[24];
            (void)snprintf(expert, sizeof expert, "%zu", j);
            mt_figure_cell(map, row, expert, result->share[d * result->experts + j]);
        }
    }
}
