/* The colours of a page: of series, and what those of heat maps span. */
#include <math.h>
#include <string.h>

#include "report/page_parts.h"

static const struct mt_series *find_series(const struct mt_page *page, const char *kind, const char *name)
{
    const struct mt_series *series = page->series;
    while (series != NULL && (strcmp(series->kind, kind) != 0 || strcmp(series->name, name) != 0))
        series = series->next;
    return series;
}

/* The colour wanted, or the next that no other series of the kind has; once all are taken, higher numbers. */
static uint32_t free_colour(const struct mt_page *page, const char *kind, uint32_t wanted)
{
    bool taken[MT_PAGE_COLOURS] = {false};
    uint32_t count = 0;
    for (const struct mt_series *series = page->series; series != NULL; series = series->next) {
        if (strcmp(series->kind, kind) != 0) continue;
        if (series->colour < MT_PAGE_COLOURS) taken[series->colour] = true;
        count++;
    }
    if (count >= MT_PAGE_COLOURS) return count;
    uint32_t colour = wanted % MT_PAGE_COLOURS;
    while (taken[colour]) colour = (colour + 1) % MT_PAGE_COLOURS;
    return colour;
}

void mt_page_add_series(struct mt_page *page, const char *kind, const char *name, uint32_t wanted)
{
    if (find_series(page, kind, name) != NULL) return;
    struct mt_series *series = mt_page_make(page, sizeof *series);
    if (series == NULL) return;
    *series = (struct mt_series){
        .kind = kind, .name = name, .colour = free_colour(page, kind, wanted), .next = page->series};
    page->series = series;
}

bool mt_figure_is_map(const struct mt_figure *figure)
{
    return figure->head.kind == MT_FIGURE_HEATMAP || figure->head.kind == MT_FIGURE_GRID;
}

uint32_t mt_figure_colour(const struct mt_figure *figure, size_t level)
{
    const struct mt_series *series =
        find_series(figure->page, figure->head.series, figure->column[0].levels[level]);
    return series != NULL ? series->colour : (uint32_t)level;
}

size_t mt_figure_kindred(const struct mt_figure *figure)
{
    size_t count = 0;
    for (const struct mt_series *series = figure->page->series; series != NULL; series = series->next)
        count += strcmp(series->kind, figure->head.series) == 0 ? 1 : 0;
    return count;
}

static void widen(const struct mt_figure *figure, double *low, double *high)
{
    const struct mt_column *values = &figure->column[2];
    for (size_t row = 0; row < values->rows; row++) {
        if (!isfinite(values->numbers[row])) continue;
        *low = fmin(*low, values->numbers[row]);
        *high = fmax(*high, values->numbers[row]);
    }
}

void mt_figure_span(const struct mt_figure *figure, double *low, double *high)
{
    const char *scale = figure->head.scale;
    *low = figure->head.from_zero ? 0.0 : (double)INFINITY;
    *high = figure->head.from_zero ? 0.0 : (double)-INFINITY;
    widen(figure, low, high);
    for (const struct mt_section *section = figure->page->first; section != NULL && scale[0] != '\0';
         section = section->next) {
        for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
            const struct mt_figure *other = block->figure;
            if (other != NULL && mt_figure_is_map(other) && strcmp(other->head.scale, scale) == 0)
                widen(other, low, high);
        }
    }
    if (figure->head.centred && isfinite(figure->head.centre)) {
        *low = fmin(*low, figure->head.centre);
        *high = fmax(*high, figure->head.centre);
    }
    if (*low <= *high) return;
    *low = 0.0;
    *high = 1.0;
}
