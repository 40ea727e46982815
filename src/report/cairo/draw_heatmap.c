/* Pictures of heat maps: cells, labels, and what the colours mean. */
#include <math.h>

#include "report/cairo/draw.h"
#include "report/output.h"

// Cividis: dark to light, the same to the colour-blind.
static const struct mt_rgb sequence[] = {
    {0.000, 0.125, 0.302}, {0.122, 0.227, 0.427}, {0.298, 0.333, 0.427}, {0.443, 0.443, 0.451},
    {0.584, 0.557, 0.471}, {0.749, 0.678, 0.420}, {0.886, 0.796, 0.353}, {1.000, 0.918, 0.275},
};

enum { SEQUENCE = sizeof sequence / sizeof sequence[0] };

static const struct mt_rgb below = {0.000, 0.447, 0.698};
static const struct mt_rgb neutral = {0.953, 0.953, 0.945};
static const struct mt_rgb above = {0.835, 0.369, 0.000};
static const struct mt_rgb empty = {0.914, 0.918, 0.925};

struct scale {
    double low, high;
    bool centred;
    double centre;
};

static struct mt_rgb mix(struct mt_rgb one, struct mt_rgb other, double part)
{
    return (struct mt_rgb){one.red + (other.red - one.red) * part,
                           one.green + (other.green - one.green) * part,
                           one.blue + (other.blue - one.blue) * part};
}

static double part_of(double value, double low, double high)
{
    double part = high > low ? (value - low) / (high - low) : 0.5;
    return part < 0 ? 0 : fmin(part, 1);
}

static struct mt_rgb pick(const struct scale *scale, double value)
{
    if (scale->centred && value < scale->centre)
        return mix(below, neutral, part_of(value, scale->low, scale->centre));
    if (scale->centred)
        return scale->high > scale->centre ? mix(neutral, above, part_of(value, scale->centre, scale->high))
                                           : neutral;
    double at = part_of(value, scale->low, scale->high) * (SEQUENCE - 1);
    int index = at >= SEQUENCE - 1 ? SEQUENCE - 2 : (int)at;
    return mix(sequence[index], sequence[index + 1], at - index);
}

static struct scale scale_of(const struct mt_figure *figure)
{
    struct scale scale = {.centred = figure->head.centred && isfinite(figure->head.centre),
                          .centre = figure->head.centre};
    mt_figure_span(figure, &scale.low, &scale.high);
    return scale;
}

/* The value a part of the way along the legend. */
static double value_at(const struct scale *scale, double part)
{
    if (!scale->centred) return scale->low + part * (scale->high - scale->low);
    if (part < 0.5) return scale->low + 2 * part * (scale->centre - scale->low);
    return scale->centre + (2 * part - 1) * (scale->high - scale->centre);
}

void mt_draw_scale(const struct mt_drawing *drawing, double top)
{
    char text[MT_NUMBER_BYTES];
    double wide = 240;
    struct scale scale = scale_of(drawing->figure);
    top += 4;
    for (int i = 0; i < (int)wide; i++) {
        mt_draw_set(drawing->pen, pick(&scale, value_at(&scale, i / (wide - 1))), 1);
        cairo_rectangle(drawing->pen, drawing->left + i, top, 1.5, 8);
        cairo_fill(drawing->pen);
    }
    mt_draw_set(drawing->pen, mt_draw_soft, 1);
    mt_draw_text(drawing->pen, drawing->left, top + 16, MT_ALIGN_LEFT, 100, mt_number_text(text, scale.low));
    mt_draw_text(drawing->pen, drawing->left + wide, top + 16, MT_ALIGN_RIGHT, 100,
                 mt_number_text(text, scale.high));
    if (scale.centred)
        mt_draw_text(drawing->pen, drawing->left + wide / 2, top + 16, MT_ALIGN_MIDDLE, 100,
                     mt_number_text(text, scale.centre));
    mt_draw_text(drawing->pen, drawing->left + wide + 14, top + 4, MT_ALIGN_LEFT, drawing->width - wide - 14,
                 drawing->figure->head.value);
}

static void draw_row_labels(const struct mt_drawing *drawing, double tall)
{
    const struct mt_column *labels = &drawing->figure->column[0];
    size_t step = (size_t)ceil(14 / tall);
    mt_draw_set(drawing->pen, mt_draw_soft, 1);
    for (size_t i = 0; i < labels->level_count; i += step) {
        mt_draw_text(drawing->pen, drawing->left - 6, drawing->top + ((double)i + 0.5) * tall, MT_ALIGN_RIGHT,
                     drawing->left - drawing->edge - 28, labels->levels[i]);
    }
    cairo_save(drawing->pen);
    cairo_translate(drawing->pen, drawing->edge + 10, drawing->top + drawing->height / 2);
    cairo_rotate(drawing->pen, -MT_PI / 2);
    mt_draw_text(drawing->pen, 0, 0, MT_ALIGN_MIDDLE, drawing->height, drawing->figure->head.y);
    cairo_restore(drawing->pen);
}

void mt_draw_heatmap(const struct mt_drawing *drawing)
{
    const struct mt_figure *figure = drawing->figure;
    const struct mt_column *column = figure->column;
    struct scale scale = scale_of(figure);
    double wide = drawing->width / (double)column[1].level_count;
    double tall = drawing->height / (double)column[0].level_count;
    double gap = wide > 6 && tall > 6 ? 1 : -0.3;
    mt_draw_set(drawing->pen, empty, 1);
    cairo_rectangle(drawing->pen, drawing->left, drawing->top, drawing->width, drawing->height);
    cairo_fill(drawing->pen);
    for (size_t row = 0; row < mt_figure_rows(figure); row++) {
        double value = column[2].numbers[row];
        double x = drawing->left + column[1].codes[row] * wide;
        double y = drawing->top + column[0].codes[row] * tall;
        char text[MT_NUMBER_BYTES];
        if (!isfinite(value)) continue;
        struct mt_rgb colour = pick(&scale, value);
        mt_draw_set(drawing->pen, colour, 1);
        cairo_rectangle(drawing->pen, x, y, wide - gap, tall - gap);
        cairo_fill(drawing->pen);
        if (figure->head.kind != MT_FIGURE_GRID || wide < 30 || tall < 12) continue;
        bool bright = 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue > 0.55;
        mt_draw_set(drawing->pen, bright ? mt_draw_ink : (struct mt_rgb){1, 1, 1}, 1);
        mt_draw_text(drawing->pen, x + wide / 2, y + tall / 2, MT_ALIGN_MIDDLE, wide - 4,
                     mt_number_text(text, value));
    }
    draw_row_labels(drawing, tall);
    mt_draw_x_labels(drawing, &column[1], figure->head.x);
}
