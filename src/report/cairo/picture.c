/* A figure as a PNG or an SVG, drawn by cairo. */
#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>
#include <string.h>

#include "report/cairo/draw.h"
#include "report/render.h"

#define PIXELS 2.5 // a point in each direction

static cairo_status_t take_bytes(void *self, const unsigned char *data, unsigned int length)
{
    struct mt_output *out = self;
    mt_put_bytes(out, data, length);
    return out->status == MT_OK ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

// Room around the data.
#define LEFT   68.0
#define RIGHT  14.0
#define TOP    14.0
#define BOTTOM 40.0 // below an axis of numbers

/* A heat map: its first column names rows. */
static bool has_rows(const struct mt_figure *figure)
{
    return figure->head.kind == MT_FIGURE_HEATMAP || figure->head.kind == MT_FIGURE_GRID;
}

static size_t panels_of(const struct mt_figure *figure)
{
    const struct mt_column *panels = mt_figure_panels(figure);
    return panels != NULL ? panels->level_count : 1;
}

/* Of the data of `across` panels that stand side by side, from the first on. */
static double data_height(const struct mt_figure *figure, size_t first, size_t across)
{
    double rows = (double)figure->column[0].level_count;
    size_t dots = 1;
    if (has_rows(figure)) return fmin(fmax(rows * 18, 160), 900);
    if (figure->head.kind != MT_FIGURE_DOTS) return panels_of(figure) == 1 ? 280 : 130;
    for (size_t i = first; i < first + across; i++) {
        size_t here = mt_figure_panel_rows(figure, i);
        dots = here > dots ? here : dots;
    }
    return MT_DRAW_DOT * (double)dots;
}

static void draw_data(const struct mt_drawing *drawing)
{
    switch (drawing->figure->head.kind) {
    case MT_FIGURE_LINES: mt_draw_lines(drawing); break;
    case MT_FIGURE_SCATTER: mt_draw_scatter(drawing); break;
    case MT_FIGURE_BARS: mt_draw_bars(drawing); break;
    case MT_FIGURE_DOTS: mt_draw_dots(drawing); break;
    case MT_FIGURE_RADAR: mt_draw_radar(drawing); break;
    case MT_FIGURE_HEATMAP:
    case MT_FIGURE_GRID: mt_draw_heatmap(drawing); break;
    case MT_FIGURE_TABLE: break;
    }
}

static bool has_labels(const struct mt_figure *figure)
{
    return figure->head.kind != MT_FIGURE_LINES && figure->head.kind != MT_FIGURE_SCATTER &&
           figure->head.kind != MT_FIGURE_RADAR && figure->head.kind != MT_FIGURE_DOTS;
}

/* Letters take the same room in every kind of picture. */
static void set_font(cairo_t *pen)
{
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(pen, options);
    cairo_font_options_destroy(options);
    cairo_select_font_face(pen, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(pen, MT_DRAW_TEXT);
}

/* Draws the figure, panel after panel in rows of two or three; returns how high it is. pen: may be one that
 * only measures. */
static double draw_figure(cairo_t *pen, const struct mt_figure *figure, const struct mt_thinned *thinned)
{
    const struct mt_column *panels = mt_figure_panels(figure);
    size_t count = panels_of(figure);
    bool dots = figure->head.kind == MT_FIGURE_DOTS;
    size_t across = count == 1 ? 1 : (count == 2 || count == 4 || dots ? 2 : 3);
    double each = (double)MT_DRAW_WIDTH / (double)across;
    double left = count == 1 ? LEFT : 56;
    struct mt_drawing drawing = {.pen = pen, .figure = figure, .thinned = thinned, .panel = MT_DRAW_ALL};
    set_font(pen);
    if (has_rows(figure)) left = fmin(mt_widest_label(pen, &figure->column[0]) + 34, 220);
    if (dots) left = fmin(mt_widest_label(pen, &figure->column[1]) + 14, 140);
    drawing.width = each - left - RIGHT;
    if (panels != NULL) drawing.panel = 0;
    double numbers = figure->head.kind == MT_FIGURE_RADAR ? 10 : (panels == NULL ? BOTTOM : BOTTOM - 14);
    double below = has_labels(figure) ? mt_labels_height(&drawing, &figure->column[1]) : numbers;
    double above = count == 1 ? TOP : TOP + 16;
    double bottom = 0;
    for (size_t i = 0; i < count; i++) {
        drawing.edge = (double)(i % across) * each;
        drawing.left = drawing.edge + left;
        if (i % across == 0) drawing.top = bottom + above;
        if (i % across == 0) drawing.height = data_height(figure, i, across);
        if (panels != NULL) drawing.panel = i;
        mt_draw_set(pen, mt_draw_ink, 1);
        if (panels != NULL)
            mt_draw_text(pen, drawing.left, drawing.top - 12, MT_ALIGN_LEFT, drawing.width,
                         panels->levels[i]);
        draw_data(&drawing);
        bottom = drawing.top + drawing.height + below;
    }
    drawing.left = left;
    drawing.width = MT_DRAW_WIDTH - left - RIGHT;
    double legend = mt_legend_height(&drawing);
    if (has_rows(figure)) {
        mt_draw_scale(&drawing, bottom);
    } else {
        mt_draw_legend(&drawing, bottom + 2);
    }
    return ceil(bottom + legend + 4);
}

/* How high the picture will be: it is drawn where nothing is kept. */
static double measure(const struct mt_figure *figure, const struct mt_thinned *thinned)
{
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1);
    cairo_t *pen = cairo_create(surface);
    double height = draw_figure(pen, figure, thinned);
    cairo_destroy(pen);
    cairo_surface_destroy(surface);
    return height;
}

/* cairo numbers the surfaces of a process and writes that into the SVG: "surface26". The same figure has the
 * same bytes without the number. */
static void forget_number(struct mt_output *out, size_t from)
{
    static const char word[] = "\"surface";
    uint8_t *data = out->text.data;
    size_t kept = from;
    for (size_t at = from; at < out->text.count; kept++) {
        bool found = out->text.count - at >= sizeof word - 1 && memcmp(data + at, word, sizeof word - 1) == 0;
        size_t length = found ? sizeof word - 1 : 1;
        memmove(data + kept, data + at, length);
        kept += length - 1;
        at += length;
        while (found && at < out->text.count && data[at] >= '0' && data[at] <= '9') at++;
    }
    out->text.count = kept;
}

static enum mt_status finish(const struct mt_figure *figure, cairo_status_t failed, struct mt_output *out)
{
    if (out->status != MT_OK || failed == CAIRO_STATUS_SUCCESS) return out->status;
    enum mt_status status = failed == CAIRO_STATUS_NO_MEMORY ? MT_ERR_MEMORY : MT_ERR_INTERNAL;
    out->status = mt_fail(figure->page->ctx, status, "the picture of '%s' could not be drawn: %s",
                          figure->head.title, cairo_status_to_string(failed));
    return out->status;
}

static enum mt_status render(const struct mt_figure *figure, bool vector, struct mt_output *out)
{
    struct mt_thinned thinned = {0};
    if (out->status == MT_OK) out->status = mt_thin(figure, MT_THIN_ROWS, &thinned);
    if (out->status != MT_OK) return out->status;
    double height = measure(figure, &thinned);
    size_t before = out->text.count;
    cairo_surface_t *surface =
        vector ? cairo_svg_surface_create_for_stream(take_bytes, out, MT_DRAW_WIDTH, height)
               : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(MT_DRAW_WIDTH * PIXELS),
                                            (int)(height * PIXELS));
    cairo_t *pen = cairo_create(surface);
    if (!vector) cairo_scale(pen, PIXELS, PIXELS);
    cairo_set_source_rgb(pen, 1, 1, 1);
    cairo_paint(pen);
    (void)draw_figure(pen, figure, &thinned);
    cairo_status_t failed = cairo_status(pen);
    cairo_destroy(pen);
    if (failed == CAIRO_STATUS_SUCCESS && !vector)
        failed = cairo_surface_write_to_png_stream(surface, take_bytes, out);
    cairo_surface_finish(surface); // writes the SVG
    if (failed == CAIRO_STATUS_SUCCESS) failed = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    mt_thinned_free(&thinned);
    if (vector) forget_number(out, before);
    return finish(figure, failed, out);
}

enum mt_status mt_render_png(const struct mt_figure *figure, struct mt_output *out)
{
    return render(figure, false, out);
}

enum mt_status mt_render_svg(const struct mt_figure *figure, struct mt_output *out)
{
    return render(figure, true, out);
}
