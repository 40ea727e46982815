/* A figure as a PNG, drawn by cairo. */
#include <cairo.h>

#include "report/cairo/draw.h"
#include "report/render.h"

#define PIXELS 2 // a point in each direction

static cairo_status_t take_bytes(void *self, const unsigned char *data, unsigned int length)
{
    struct mt_output *out = self;
    mt_put_bytes(out, data, length);
    return out->status == MT_OK ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static void draw_titles(cairo_t *pen, const struct mt_figure *figure)
{
    cairo_select_font_face(pen, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(pen, 15);
    mt_draw_set(pen, mt_draw_ink, 1);
    mt_draw_text(pen, 24, 20, MT_ALIGN_LEFT, MT_DRAW_WIDTH - 48, figure->head.title);
    cairo_select_font_face(pen, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(pen, MT_DRAW_TEXT);
    mt_draw_set(pen, mt_draw_soft, 1);
    mt_draw_text(pen, 24, 40, MT_ALIGN_LEFT, MT_DRAW_WIDTH - 48, figure->head.meaning);
}

static void draw_figure(cairo_t *pen, const struct mt_figure *figure, const struct mt_thinned *thinned)
{
    struct mt_drawing drawing = {.pen = pen,
                                 .figure = figure,
                                 .thinned = thinned,
                                 .left = 88,
                                 .top = 58,
                                 .width = MT_DRAW_WIDTH - 88 - 24,
                                 .height = MT_DRAW_HEIGHT - 58 - 68};
    draw_titles(pen, figure);
    switch (figure->head.kind) {
    case MT_FIGURE_LINES: mt_draw_lines(&drawing); break;
    case MT_FIGURE_SCATTER: mt_draw_scatter(&drawing); break;
    case MT_FIGURE_BARS: mt_draw_bars(&drawing); break;
    case MT_FIGURE_RADAR: mt_draw_radar(&drawing); break;
    case MT_FIGURE_HEATMAP:
    case MT_FIGURE_GRID: mt_draw_heatmap(&drawing); break;
    case MT_FIGURE_TABLE: break;
    }
}

enum mt_status mt_render_png(const struct mt_figure *figure, struct mt_output *out)
{
    struct mt_thinned thinned = {0};
    if (out->status == MT_OK) out->status = mt_thin(figure, MT_THIN_ROWS, &thinned);
    if (out->status != MT_OK) return out->status;
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, MT_DRAW_WIDTH * PIXELS, MT_DRAW_HEIGHT * PIXELS);
    cairo_t *pen = cairo_create(surface);
    cairo_scale(pen, PIXELS, PIXELS);
    cairo_set_source_rgb(pen, 1, 1, 1);
    cairo_paint(pen);
    draw_figure(pen, figure, &thinned);
    cairo_status_t failed = cairo_status(pen);
    cairo_destroy(pen);
    if (failed == CAIRO_STATUS_SUCCESS) failed = cairo_surface_write_to_png_stream(surface, take_bytes, out);
    cairo_surface_destroy(surface);
    mt_thinned_free(&thinned);
    if (out->status == MT_OK && failed != CAIRO_STATUS_SUCCESS) {
        enum mt_status status = failed == CAIRO_STATUS_NO_MEMORY ? MT_ERR_MEMORY : MT_ERR_INTERNAL;
        out->status = mt_fail(figure->page->ctx, status, "the picture of '%s' could not be drawn: %s",
                              figure->head.title, cairo_status_to_string(failed));
    }
    return out->status;
}
