/* Drawing with cairo: what the pictures of all kinds share. Light theme; lengths in points, two pixels each.
 */
#ifndef MT_REPORT_CAIRO_DRAW_H
#define MT_REPORT_CAIRO_DRAW_H

#include <cairo.h>

#include "report/page.h"
#include "report/thin.h"

#define MT_DRAW_WIDTH  800
#define MT_DRAW_HEIGHT 450
#define MT_DRAW_TEXT   11.0 // size of labels
#define MT_PI          3.14159265358979323846

struct mt_rgb {
    double red, green, blue;
};

/* Where a picture is drawn, and the part of it that holds the data. */
struct mt_drawing {
    cairo_t *pen; // borrowed
    const struct mt_figure *figure;
    const struct mt_thinned *thinned;
    double left, top, width, height;
};

/* The numbers an axis spans, and its ticks. */
struct mt_axis {
    double low, high;
    double step; // between ticks
    bool logarithmic;
};

enum mt_align { MT_ALIGN_LEFT, MT_ALIGN_MIDDLE, MT_ALIGN_RIGHT };

/* The colour of a series of the figure: Okabe and Ito's, which colour-blind readers can tell apart,
 * then others. */
struct mt_rgb mt_draw_colour(const struct mt_drawing *drawing, size_t series);
void mt_draw_set(cairo_t *pen, struct mt_rgb colour, double alpha);

extern const struct mt_rgb mt_draw_ink, mt_draw_soft, mt_draw_line;

/* A line of text at a place, its middle at y; what is wider than `room` is made narrower. */
void mt_draw_text(cairo_t *pen, double x, double y, enum mt_align align, double room, const char *text);

/* An axis around all finite numbers of columns; `zero`: it holds 0. */
struct mt_axis mt_axis_of(const struct mt_column *const *columns, size_t count, bool zero, bool logarithmic);

/* 0 to 1 along the axis. */
double mt_axis_place(const struct mt_axis *axis, double value);

/* Lines, numbers and name of the vertical axis; numbers and name of the horizontal one. */
void mt_draw_y_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name);
void mt_draw_x_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name);

/* The same for labels instead of numbers, as many as fit. */
void mt_draw_x_labels(const struct mt_drawing *drawing, const struct mt_column *labels, const char *name);

/* What colour means which series, at the bottom; nothing for the only one of a page. */
void mt_draw_legend(const struct mt_drawing *drawing);

/* One function per kind. */
void mt_draw_lines(const struct mt_drawing *drawing);
void mt_draw_scatter(const struct mt_drawing *drawing);
void mt_draw_bars(const struct mt_drawing *drawing);
void mt_draw_radar(const struct mt_drawing *drawing);
void mt_draw_heatmap(const struct mt_drawing *drawing);

#endif
