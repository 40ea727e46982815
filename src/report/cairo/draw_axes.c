/* Axes: what they span, their ticks, numbers and names. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/axis.h"
#include "report/cairo/draw.h"
#include "report/output.h"

#define LABEL_ROOM 60.0 // of a number on the vertical axis
#define TILT       0.61 // of labels that have no room side by side, in radians
#define TILTED     96.0 // the longest such label

struct mt_axis mt_axis_of(const struct mt_drawing *drawing, int first, int count, bool zero, bool logarithmic)
{
    struct mt_axis axis = {.low = INFINITY, .high = -INFINITY, .logarithmic = logarithmic, .unit = ""};
    for (int i = first; i < first + count; i++) {
        for (size_t row = 0; row < mt_figure_rows(drawing->figure); row++) {
            double value = drawing->figure->column[i].numbers[row];
            if (!isfinite(value) || !mt_draw_is_here(drawing, row)) continue;
            axis.low = fmin(axis.low, value);
            axis.high = fmax(axis.high, value);
        }
    }
    if (!(axis.low <= axis.high)) axis = (struct mt_axis){.low = 0, .high = 1, .unit = ""};
    if (axis.low <= 0) axis.logarithmic = false;
    if (axis.logarithmic) {
        axis.low = pow(10, floor(log10(axis.low)));
        axis.high = pow(10, ceil(log10(axis.high)));
        if (axis.high <= axis.low) axis.high = 10 * axis.low;
        return axis;
    }
    struct mt_axis_range range = mt_axis_around(axis.low, axis.high, zero, drawing->figure->head.reach);
    axis.low = range.low;
    axis.high = range.high;
    axis.step = range.step;
    return axis;
}

double mt_axis_place(const struct mt_axis *axis, double value)
{
    if (axis->logarithmic) return (log10(value) - log10(axis->low)) / (log10(axis->high) - log10(axis->low));
    return (value - axis->low) / (axis->high - axis->low);
}

bool mt_axis_tick(const struct mt_axis *axis, int index, double *value)
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

/* The unit of a tick: a power of a thousand and its letter; all ticks of an axis have the same. */
struct scale {
    double divisor;
    const char *letter;
};

static struct scale scale_of(const struct mt_axis *axis)
{
    static const struct scale large[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    static const struct scale times[] = {{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}};
    static const struct scale bytes[] = {{0x1p30, " GiB"}, {0x1p20, " MiB"}, {0x1p10, " KiB"}, {1, " B"}};
    bool seconds = strcmp(axis->unit, "s") == 0;
    bool memory = strcmp(axis->unit, "B") == 0;
    const struct scale *scales = seconds ? times : (memory ? bytes : large);
    double most = fmax(fabs(axis->low), fabs(axis->high));
    for (int i = 0; i < (memory ? 4 : 3); i++) {
        // Numbers without a unit get a letter from 10 000 on: 2000 is read as easily as 2k.
        if (most >= scales[i].divisor * (seconds || memory || i < 2 ? 1 : 10)) return scales[i];
    }
    return seconds ? times[2] : (struct scale){1, ""};
}

const char *mt_axis_text(char text[MT_NUMBER_BYTES], const struct mt_axis *axis, double value)
{
    if (axis->logarithmic && axis->unit[0] == '\0') {
        if (value < 1e-3 || value >= 1e6) return mt_number_text(text, value);
        (void)snprintf(text, MT_NUMBER_BYTES, "%g", value);
        return text;
    }
    struct scale scale = scale_of(axis);
    double step = axis->step / scale.divisor;
    int decimals = axis->logarithmic || step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
    if (value == 0 && scale.letter[0] != ' ') return mt_number_text(text, 0);
    if (decimals > 5 || fabs(value) >= 1e12)
        (void)snprintf(text, MT_NUMBER_BYTES, "%g", value);
    else
        (void)snprintf(text, MT_NUMBER_BYTES, "%.*f%s", decimals, value / scale.divisor, scale.letter);
    return text;
}

/* Panels have no room for the names of their axes; their titles say what is in them. */
static void name_y_axis(const struct mt_drawing *drawing, const char *name)
{
    if (drawing->panel != MT_DRAW_ALL) return;
    cairo_save(drawing->pen);
    cairo_translate(drawing->pen, drawing->edge + 10, drawing->top + drawing->height / 2);
    cairo_rotate(drawing->pen, -MT_PI / 2);
    mt_draw_text(drawing->pen, 0, 0, MT_ALIGN_MIDDLE, drawing->height, name);
    cairo_restore(drawing->pen);
}

void mt_draw_y_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name)
{
    char text[MT_NUMBER_BYTES];
    double value = 0;
    cairo_t *pen = drawing->pen;
    for (int i = 0; mt_axis_tick(axis, i, &value); i++) {
        double y = drawing->top + drawing->height * (1 - mt_axis_place(axis, value));
        mt_draw_set(pen, mt_draw_line, 1);
        cairo_set_line_width(pen, 1);
        cairo_move_to(pen, drawing->left, y);
        cairo_line_to(pen, drawing->left + drawing->width, y);
        cairo_stroke(pen);
        mt_draw_set(pen, mt_draw_soft, 1);
        mt_draw_text(pen, drawing->left - 6, y, MT_ALIGN_RIGHT, LABEL_ROOM, mt_axis_text(text, axis, value));
    }
    name_y_axis(drawing, name);
}

void mt_draw_x_axis(const struct mt_drawing *drawing, const struct mt_axis *axis, const char *name)
{
    char text[MT_NUMBER_BYTES];
    double value = 0;
    double bottom = drawing->top + drawing->height;
    mt_draw_set(drawing->pen, mt_draw_soft, 1);
    for (int i = 0; mt_axis_tick(axis, i, &value); i++) {
        double x = drawing->left + drawing->width * mt_axis_place(axis, value);
        mt_draw_text(drawing->pen, x, bottom + 12, MT_ALIGN_MIDDLE, 80, mt_axis_text(text, axis, value));
    }
    if (drawing->panel == MT_DRAW_ALL)
        mt_draw_text(drawing->pen, drawing->left + drawing->width / 2, bottom + 28, MT_ALIGN_MIDDLE,
                     drawing->width, name);
}

double mt_widest_label(cairo_t *pen, const struct mt_column *labels)
{
    double widest = 1;
    for (size_t i = 0; i < labels->level_count && i < 1000; i++) {
        cairo_text_extents_t extents;
        cairo_text_extents(pen, labels->levels[i], &extents);
        widest = fmax(widest, extents.x_advance);
    }
    return widest;
}

/* True where the labels have no room side by side, and each a line of its own. */
static bool is_tilted(const struct mt_drawing *drawing, const struct mt_column *labels)
{
    double each = drawing->width / (double)labels->level_count;
    return fmin(mt_widest_label(drawing->pen, labels), TILTED) + 6 > each && each >= 14;
}

double mt_labels_height(const struct mt_drawing *drawing, const struct mt_column *labels)
{
    double widest = fmin(mt_widest_label(drawing->pen, labels), TILTED);
    double name = drawing->panel == MT_DRAW_ALL ? 20 : 6;
    return name + (is_tilted(drawing, labels) ? widest * sin(TILT) + 8 : 16);
}

void mt_draw_x_labels(const struct mt_drawing *drawing, const struct mt_column *labels, const char *name)
{
    double bottom = drawing->top + drawing->height;
    double each = drawing->width / (double)labels->level_count;
    double widest = fmin(mt_widest_label(drawing->pen, labels), TILTED);
    bool tilted = is_tilted(drawing, labels);
    size_t step = tilted ? 1 : (size_t)ceil((widest + 6) / each);
    mt_draw_set(drawing->pen, mt_draw_soft, 1);
    for (size_t i = 0; i < labels->level_count; i += step) {
        cairo_save(drawing->pen);
        cairo_translate(drawing->pen, drawing->left + ((double)i + 0.5) * each, bottom + (tilted ? 8 : 12));
        if (tilted) cairo_rotate(drawing->pen, -TILT);
        mt_draw_text(drawing->pen, 0, 0, tilted ? MT_ALIGN_RIGHT : MT_ALIGN_MIDDLE, widest,
                     labels->levels[i]);
        cairo_restore(drawing->pen);
    }
    if (drawing->panel == MT_DRAW_ALL)
        mt_draw_text(drawing->pen, drawing->left + drawing->width / 2,
                     bottom + mt_labels_height(drawing, labels) - 8, MT_ALIGN_MIDDLE, drawing->width, name);
}
