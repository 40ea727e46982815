/* Drawing: colours, texts, axes, legend. */
#include "report/cairo/draw.h"

#include <math.h>
#include <stdio.h>

#include "report/output.h"

#define TICKS       5.0  // about so many on an axis
#define LEGEND_MOST 12   // series that are named; more are counted
#define LABEL_ROOM  60.0 // of a number on the vertical axis

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

// ------------------------------------------------------------------ axes

/* 1, 2 or 5 times a power of ten. */
static double round_step(double step)
{
    double power = pow(10, floor(log10(step)));
    double digit = step / power;
    if (digit <= 1) return power;
    if (digit <= 2) return 2 * power;
    return (digit <= 5 ? 5 : 10) * power;
}

struct mt_axis mt_axis_of(const struct mt_column *const *columns, size_t count, bool zero, bool logarithmic)
{
    struct mt_axis axis = {.low = INFINITY, .high = -INFINITY, .logarithmic = logarithmic};
    for (size_t i = 0; i < count; i++) {
        for (size_t row = 0; row < columns[i]->rows; row++) {
            double value = columns[i]->numbers[row];
            if (!isfinite(value)) continue;
            axis.low = fmin(axis.low, value);
            axis.high = fmax(axis.high, value);
        }
    }
    if (!(axis.low <= axis.high)) axis = (struct mt_axis){.low = 0, .high = 1};
    if (axis.low <= 0) axis.logarithmic = false;
    if (zero) {
        axis.low = fmin(axis.low, 0);
        axis.high = fmax(axis.high, 0);
    }
    if (axis.logarithmic) {
        axis.low = pow(10, floor(log10(axis.low)));
        axis.high = pow(10, ceil(log10(axis.high)));
        if (axis.high <= axis.low) axis.high = 10 * axis.low;
        return axis;
    }
    // Numbers so large that their distance is not one are drawn as if they were halved.
    double span = axis.high / 2 - axis.low / 2;
    if (!(span > 0)) span = axis.high != 0 ? fabs(axis.high) / 4 : 0.5;
    axis.step = round_step(fmin(2 * span, 1e300) / TICKS);
    axis.low = floor(axis.low / axis.step) * axis.step;
    axis.high = ceil(axis.high / axis.step) * axis.step;
    if (axis.high <= axis.low) axis.high = axis.low + axis.step;
    return axis;
}

double mt_axis_place(const struct mt_axis *axis, double value)
{
    if (axis->logarithmic) return (log10(value) - log10(axis->low)) / (log10(axis->high) - log10(axis->low));
    return (value - axis->low) / (axis->high - axis->low);
}

/* The index-th tick; false past the last. */
static bool tick_at(const struct mt_axis *axis, int index, double *value)
{
    if (axis->logarithmic) {
        double decades = log10(axis->high / axis->low);
        *value = axis->low * pow(10, index * ceil(decades / 8));
    } else {
        *value = axis->low + index * axis->step;
        if (fabs(*value) < axis->step / 1000) *value = 0;
    }
    return index < 32 && *value <= axis->high + axis->step / 1000 + fabs(axis->high) * 1e-12;
}

static const char *tick_text(char text[MT_NUMBER_BYTES], const struct mt_axis *axis, double value)
{
    bool plain = !axis->logarithmic && fabs(value) < 1e6 && axis->step >= 1e-4;
    if (axis->logarithmic && value >= 1e-3 && value < 1e6) {
        (void)snprintf(text, MT_NUMBER_BYTES, "%g", value);
        return text;
    }
    if (value == 0 || !plain) return mt_number_text(text, value);
    int decimals = axis->step >= 1 ? 0 : (int)ceil(-log10(axis->step) - 1e-9);
    (void)snprintf(text, MT_NUMBER_BYTES, "%.*f", decimals, value);
    return text;
}

static void name_y_axis(const struct mt_drawing *drawing, const char *name)
{
    cairo_save(drawing->pen);
    cairo_translate(drawing->pen, 16, drawing->top + drawing->height / 2);
    cairo_rotate(drawing->pen, -MT_PI / 2);
    mt_draw_text(drawing->pen, 0, 0, MT_ALIGN_MIDDLE, drawing->height, name);
    cairo_restore(drawing->pen);
}

void mt_draw_y_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name)
{
    char text[MT_NUMBER_BYTES];
    double value = 0;
    cairo_t *pen = drawing->pen;
    for (int i = 0; tick_at(axis, i, &value); i++) {
        double y = drawing->top + drawing->height * (1 - mt_axis_place(axis, value));
        mt_draw_set(pen, mt_draw_line, 1);
        cairo_set_line_width(pen, 1);
        cairo_move_to(pen, drawing->left, y);
        cairo_line_to(pen, drawing->left + drawing->width, y);
        cairo_stroke(pen);
        mt_draw_set(pen, mt_draw_soft, 1);
        mt_draw_text(pen, drawing->left - 6, y, MT_ALIGN_RIGHT, LABEL_ROOM, tick_text(text, axis, value));
    }
    name_y_axis(drawing, name);
}

void mt_draw_x_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name)
{
    char text[MT_NUMBER_BYTES];
    double value = 0;
    double bottom = drawing->top + drawing->height;
    mt_draw_set(drawing->pen, mt_draw_soft, 1);
    for (int i = 0; tick_at(axis, i, &value); i++) {
        double x = drawing->left + drawing->width * mt_axis_place(axis, value);
        mt_draw_text(drawing->pen, x, bottom + 12, MT_ALIGN_MIDDLE, 80, tick_text(text, axis, value));
    }
    mt_draw_text(drawing->pen, drawing->left + drawing->width / 2, bottom + 28, MT_ALIGN_MIDDLE,
                 drawing->width, name);
}

void mt_draw_x_labels(const struct mt_drawing *drawing, const struct mt_column *labels, const char *name)
{
    double bottom = drawing->top + drawing->height;
    double each = drawing->width / (double)labels->level_count;
    double widest = 1;
    mt_draw_set(drawing->pen, mt_draw_soft, 1);
    for (size_t i = 0; i < labels->level_count && i < 1000; i++) {
        cairo_text_extents_t extents;
        cairo_text_extents(drawing->pen, labels->levels[i], &extents);
        widest = fmax(widest, fmin(extents.x_advance, 90));
    }
    size_t step = (size_t)ceil((widest + 6) / each);
    for (size_t i = 0; i < labels->level_count; i += step) {
        mt_draw_text(drawing->pen, drawing->left + ((double)i + 0.5) * each, bottom + 12, MT_ALIGN_MIDDLE,
                     widest, labels->levels[i]);
    }
    mt_draw_text(drawing->pen, drawing->left + drawing->width / 2, bottom + 28, MT_ALIGN_MIDDLE,
                 drawing->width, name);
}

void mt_draw_legend(const struct mt_drawing *drawing)
{
    const struct mt_column *labels = &drawing->figure->column[0];
    char rest[64] = "";
    double x = drawing->left;
    double y = MT_DRAW_HEIGHT - 14;
    size_t shown = labels->level_count > LEGEND_MOST ? LEGEND_MOST : labels->level_count;
    if (mt_figure_kindred(drawing->figure) < 2) return;
    double room = drawing->width / (double)shown;
    for (size_t i = 0; i < shown; i++) {
        cairo_text_extents_t extents;
        mt_draw_set(drawing->pen, mt_draw_colour(drawing, i), 1);
        cairo_rectangle(drawing->pen, x, y - 4, 12, 8);
        cairo_fill(drawing->pen);
        mt_draw_set(drawing->pen, mt_draw_ink, 1);
        cairo_text_extents(drawing->pen, labels->levels[i], &extents);
        double wide = fmin(extents.x_advance, room - 28 > 10 ? room - 28 : 10);
        mt_draw_text(drawing->pen, x + 16, y, MT_ALIGN_LEFT, wide, labels->levels[i]);
        x += wide + 28;
    }
    if (shown == labels->level_count) return;
    (void)snprintf(rest, sizeof rest, "and %zu more", labels->level_count - shown);
    mt_draw_text(drawing->pen, x, y, MT_ALIGN_LEFT, 100, rest);
}
