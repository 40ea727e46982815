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

/* What is pictured: the model before training, then methods. */
static size_t count_pictured(const struct mt_compare_view *view)
{
    return view->methods + 1;
}

/* The cell of the first domain and seed: pictures are of one run each. NULL: it is not shown, or not known.
 */
static const struct mt_cell *cell_of(const struct mt_compare_view *view, size_t place, const char **name)
{
    const struct mt_cell *cell = NULL;
    *name = MT_COMPARE_BASE;
    if (place == 0) {
        cell = mt_comparison_start(view->comparison, view->model, 0);
    } else if (is_pictured(view, place - 1)) {
        cell = mt_comparison_cell(view->comparison, view->model, place - 1, 0, 0);
        *name = view->comparison->settings->method[place - 1].name;
    }
    return cell != NULL && cell->result.known ? cell : NULL;
}

void mt_page_compare_tokens(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    char title[MT_COMPARE_TITLE_BYTES], meaning[384];
    struct mt_figure *scatter = NULL;
    for (size_t i = 0; i < count_pictured(view); i++) {
        const char *name = NULL;
        const struct mt_cell *cell = cell_of(view, i, &name);
        if (cell == NULL || cell->result.points == 0) continue;
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
        mt_figure_panel(scatter, name);
        for (size_t p = 0; p < cell->result.points; p++) {
            const struct mt_cell_point *point = &cell->result.point[p];
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
    for (size_t i = 0; i < settings->domains * count_pictured(view); i++) {
        size_t d = i / count_pictured(view);
        const char *name = NULL;
        const struct mt_cell *cell = cell_of(view, i % count_pictured(view), &name);
        char row[MT_COMPARE_TITLE_BYTES];
        if (cell == NULL || cell->result.experts == 0) continue;
        const struct mt_cell_result *result = &cell->result;
        if (map == NULL) map = open_shares(view, result->experts);
        (void)snprintf(row, sizeof row, "%.80s: %.80s", settings->domain[d].name, name);
        for (size_t j = 0; j < result->experts; j++) {
            char expert[24];
            (void)snprintf(expert, sizeof expert, "%zu", j);
            mt_figure_cell(map, row, expert, result->share[d * result->experts + j]);
        }
    }
}
