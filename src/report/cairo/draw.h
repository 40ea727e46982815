/* Drawing with cairo: what the pictures of all kinds share. Light theme; lengths in points. */
#ifndef MT_REPORT_CAIRO_DRAW_H
#define MT_REPORT_CAIRO_DRAW_H

#include <cairo.h>

#include "report/output.h"
#include "report/page.h"
#include "report/thin.h"

#define MT_DRAW_WIDTH 640
#define MT_DRAW_TEXT  11.0 // size of labels
#define MT_DRAW_DOT   15.0 // height of a row of dots
#define MT_PI         3.14159265358979323846

struct mt_rgb {
    double red, green, blue;
};

#define MT_DRAW_ALL SIZE_MAX

/* Where a picture is drawn, or one panel of it, and the part that holds the data. */
struct mt_drawing {
    cairo_t *pen; // borrowed
    const struct mt_figure *figure;
    const struct mt_thinned *thinned;
    size_t panel; // rows of this panel; MT_DRAW_ALL: of the whole figure
    double left, top, width, height;
    double edge; // the left end of the panel, left of the axis
};

/* True for rows of this panel. */
static inline bool mt_draw_is_here(const struct mt_drawing *drawing, size_t row)
{
    return drawing->panel == MT_DRAW_ALL || mt_figure_panels(drawing->figure)->codes[row] == drawing->panel;
}

/* True for those of them that are drawn. */
static inline bool mt_draw_has(const struct mt_drawing *drawing, size_t row)
{
    return mt_draw_is_here(drawing, row) && mt_thinned_has(drawing->thinned, row);
}

/* The numbers an axis spans, and its ticks. */
struct mt_axis {
    double low, high;
    double step; // between ticks
    bool logarithmic;
    const char *unit; // "s", "B": as a figure's head has it; "" for none
};

enum mt_align { MT_ALIGN_LEFT, MT_ALIGN_MIDDLE, MT_ALIGN_RIGHT };

/* The colour of a series of the figure: Okabe and Ito's, which colour-blind readers can tell apart,
 * then others. */
struct mt_rgb mt_draw_colour(const struct mt_drawing *drawing, size_t series);
void mt_draw_set(cairo_t *pen, struct mt_rgb colour, double alpha);

extern const struct mt_rgb mt_draw_ink, mt_draw_soft, mt_draw_line;

/* A line of text at a place, its middle at y; what is wider than `room` is made narrower. */
void mt_draw_text(cairo_t *pen, double x, double y, enum mt_align align, double room, const char *text);

/* An axis around all finite numbers of `count` columns from the `first` on; `zero`: it holds 0. */
struct mt_axis mt_axis_of(const struct mt_drawing *drawing, int first, int count, bool zero,
                          bool logarithmic);

/* 0 to 1 along the axis. */
double mt_axis_place(const struct mt_axis *axis, double value);

/* The index-th tick; false past the last. And its number as it is written. */
bool mt_axis_tick(const struct mt_axis *axis, int index, double *value);
const char *mt_axis_text(char text[MT_NUMBER_BYTES], const struct mt_axis *axis, double value);

/* Lines, numbers and name of the vertical axis; numbers and name of the horizontal one. */
void mt_draw_y_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name);
void mt_draw_x_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name);

/* The same for labels instead of numbers, tilted where they have no room, and as many as fit; and the room
 * below the data that they and the name take. */
void mt_draw_x_labels(const struct mt_drawing *drawing, const struct mt_column *labels, const char *name);
double mt_labels_height(const struct mt_drawing *drawing, const struct mt_column *labels);

/* The width of the widest label, of the first thousand. */
double mt_widest_label(cairo_t *pen, const struct mt_column *labels);

/* What colour means which series; nothing for the only one of a page. And the room it takes. */
void mt_draw_legend(const struct mt_drawing *drawing, double top);
double mt_legend_height(const struct mt_drawing *drawing);

/* One function per kind. */
void mt_draw_lines(const struct mt_drawing *drawing);
void mt_draw_scatter(const struct mt_drawing *drawing);
void mt_draw_bars(const struct mt_drawing *drawing);
void mt_draw_dots(const struct mt_drawing *drawing);
void mt_draw_radar(const struct mt_drawing *drawing);
void mt_draw_heatmap(const struct mt_drawing *drawing);

/* What the colours of a heat map mean, below it. */
void mt_draw_scale(const struct mt_drawing *drawing, double top);

#endif
