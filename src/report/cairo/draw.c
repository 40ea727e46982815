/* Drawing: colours, texts, the legend. */
#include "report/cairo/draw.h"

#include <math.h>
#include <stdio.h>

#define LEGEND_MOST 24   // series that are named; more are counted
#define LEGEND_LINE 16.0 // height of a line of names
#define NAME_MOST   160.0

const struct mt_rgb mt_draw_ink = {0.114, 0.129, 0.153};
const struct mt_rgb mt_draw_soft = {0.353, 0.384, 0.427};
const struct mt_rgb mt_draw_line = {0.890, 0.898, 0.910};

// Those of the light theme in report.js.
static const struct mt_rgb series_colours[MT_PAGE_COLOURS] = {
    {0.000, 0.447, 0.698}, {0.835, 0.369, 0.000}, {0.000, 0.620, 0.451}, {0.690, 0.341, 0.553},
    {0.702, 0.478, 0.000}, {0.227, 0.580, 0.784}, {0.302, 0.302, 0.302}, {0.561, 0.525, 0.000},
    {0.820, 0.063, 0.247}, {0.000, 0.639, 0.639}, {0.416, 0.239, 0.604}, {0.498, 0.722, 0.000},
    {0.078, 0.157, 0.420}, {0.478, 0.231, 0.063}, {0.941, 0.435, 0.690}, {0.106, 0.369, 0.125},
};

struct mt_rgb mt_draw_colour(const struct mt_drawing *drawing, size_t series)
{
    return series_colours[mt_figure_colour(drawing->figure, series) % MT_PAGE_COLOURS];
}

void mt_draw_set(cairo_t *pen, struct mt_rgb colour, double alpha)
{
    cairo_set_source_rgba(pen, colour.red, colour.green, colour.blue, alpha);
}

void mt_draw_text(cairo_t *pen, double x, double y, enum mt_align align, double room, const char *text)
{
    cairo_text_extents_t extents;
    cairo_font_extents_t font;
    cairo_text_extents(pen, text, &extents);
    cairo_font_extents(pen, &font);
    double shrink = extents.x_advance > room && room > 0 ? room / extents.x_advance : 1;
    double shift = align == MT_ALIGN_LEFT ? 0 : (align == MT_ALIGN_MIDDLE ? 0.5 : 1);
    cairo_save(pen);
    cairo_translate(pen, x - shift * extents.x_advance * shrink, y + (font.ascent - font.descent) / 2);
    cairo_scale(pen, shrink, 1);
    cairo_move_to(pen, 0, 0);
    cairo_show_text(pen, text);
    cairo_new_path(pen); // a text leaves a point behind, from which the next line would start
    cairo_restore(pen);
}

/* Where the names go: line by line. Draws them unless `pen` is told to only count; returns the lines. */
static int set_legend(const struct mt_drawing *drawing, double top, bool draw)
{
    const struct mt_column *labels = &drawing->figure->column[0];
    cairo_t *pen = drawing->pen;
    char rest[64] = "";
    double x = drawing->left;
    int line = 0;
    size_t shown = labels->level_count > LEGEND_MOST ? LEGEND_MOST : labels->level_count;
    for (size_t i = 0; i < shown + (shown < labels->level_count ? 1 : 0); i++) {
        cairo_text_extents_t extents;
        const char *name = i < shown ? labels->levels[i] : rest;
        (void)snprintf(rest, sizeof rest, "and %zu more", labels->level_count - shown);
        cairo_text_extents(pen, name, &extents);
        double wide = fmin(extents.x_advance, NAME_MOST);
        if (x > drawing->left && x + 16 + wide > drawing->left + drawing->width) {
            x = drawing->left;
            line++;
        }
        double y = top + (line + 0.5) * LEGEND_LINE;
        if (draw && i < shown) {
            mt_draw_set(pen, mt_draw_colour(drawing, i), 1);
            cairo_rectangle(pen, x, y - 4, 12, 8);
            cairo_fill(pen);
        }
        mt_draw_set(pen, mt_draw_ink, 1);
        if (draw) mt_draw_text(pen, x + 16, y, MT_ALIGN_LEFT, wide, name);
        x += wide + 30;
    }
    return line + 1;
}

double mt_legend_height(const struct mt_drawing *drawing)
{
    bool map =
        drawing->figure->head.kind == MT_FIGURE_HEATMAP || drawing->figure->head.kind == MT_FIGURE_GRID;
    if (map) return 34;
    return mt_figure_kindred(drawing->figure) < 2 ? 0 : set_legend(drawing, 0, false) * LEGEND_LINE + 4;
}

void mt_draw_legend(const struct mt_drawing *drawing, double top)
{
    if (mt_figure_kindred(drawing->figure) > 1) (void)set_legend(drawing, top, true);
}
