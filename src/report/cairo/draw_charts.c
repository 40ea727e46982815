/* Pictures of curves, points, bars and radars. */
#include <math.h>

#include "report/cairo/draw.h"

#define MOST_BARS_WIDTH 46.0
#define MOST_LOOKED_AT  1000 // rows of bars

static double place_x(const struct mt_drawing *drawing, const struct mt_axis *axis, double value)
{
    return drawing->left + drawing->width * mt_axis_place(axis, value);
}

static double place_y(const struct mt_drawing *drawing, const struct mt_axis *axis, double value)
{
    return drawing->top + drawing->height * (1 - mt_axis_place(axis, value));
}

/* The vertical axis of a figure with columns 2 and, with a band, 3 and 4. */
static struct mt_axis y_axis_of(const struct mt_drawing *drawing, bool zero)
{
    const struct mt_figure_head *head = &drawing->figure->head;
    struct mt_axis axis = mt_axis_of(drawing, 2, head->band ? 3 : 1, zero, head->log_y);
    axis.unit = head->unit;
    return axis;
}

// ------------------------------------------------------------------ curves and points

/* The area between low and high of a series: forth along one, back along the other. */
static void draw_band(const struct mt_drawing *drawing, size_t series, const struct mt_axis *x_axis,
                      const struct mt_axis *y_axis)
{
    const struct mt_column *column = drawing->figure->column;
    size_t rows = drawing->thinned->rows;
    for (size_t i = 0; i < 2 * rows; i++) {
        bool forth = i < rows;
        size_t row = forth ? i : 2 * rows - 1 - i;
        if (column[0].codes[row] != series || !mt_draw_has(drawing, row)) continue;
        double value = column[forth ? 3 : 4].numbers[row];
        if (!isfinite(column[3].numbers[row]) || !isfinite(column[4].numbers[row])) continue;
        cairo_line_to(drawing->pen, place_x(drawing, x_axis, column[1].numbers[row]),
                      place_y(drawing, y_axis, value));
    }
    mt_draw_set(drawing->pen, mt_draw_colour(drawing, series), 0.18);
    cairo_fill(drawing->pen);
}

static void draw_curve(const struct mt_drawing *drawing, size_t series, const struct mt_axis *x_axis,
                       const struct mt_axis *y_axis)
{
    const struct mt_column *column = drawing->figure->column;
    static const double dash[] = {7, 4};
    size_t points = 0;
    bool down = false;
    cairo_set_line_width(drawing->pen, 1.6);
    mt_draw_set(drawing->pen, mt_draw_colour(drawing, series), 1);
    cairo_set_dash(drawing->pen, dash, mt_figure_colour(drawing->figure, series) >= 8 ? 2 : 0, 0);
    for (size_t row = 0; row < drawing->thinned->rows; row++) {
        if (column[0].codes[row] != series || !mt_draw_has(drawing, row)) continue;
        double x = place_x(drawing, x_axis, column[1].numbers[row]);
        double y = place_y(drawing, y_axis, column[2].numbers[row]);
        if (!isfinite(x) || !isfinite(y)) {
            down = false;
            continue;
        }
        if (down) {
            cairo_line_to(drawing->pen, x, y);
        } else {
            cairo_move_to(drawing->pen, x, y);
            cairo_line_to(drawing->pen, x + 0.01, y); // a lone point is seen as a dot
        }
        down = true;
        points++;
    }
    cairo_set_line_cap(drawing->pen, CAIRO_LINE_CAP_ROUND);
    if (points == 1) cairo_set_line_width(drawing->pen, 5);
    cairo_stroke(drawing->pen);
    cairo_set_dash(drawing->pen, NULL, 0, 0);
}

void mt_draw_lines(const struct mt_drawing *drawing)
{
    const struct mt_figure *figure = drawing->figure;
    struct mt_axis x_axis = mt_axis_of(drawing, 1, 1, false, false);
    struct mt_axis y_axis = y_axis_of(drawing, false);
    mt_draw_y_axis(drawing, &y_axis, figure->head.y);
    mt_draw_x_axis(drawing, &x_axis, figure->head.x);
    for (size_t i = 0; i < figure->column[0].level_count && figure->head.band; i++)
        draw_band(drawing, i, &x_axis, &y_axis);
    for (size_t i = 0; i < figure->column[0].level_count; i++) draw_curve(drawing, i, &x_axis, &y_axis);
}

void mt_draw_scatter(const struct mt_drawing *drawing)
{
    const struct mt_figure *figure = drawing->figure;
    const struct mt_column *column = figure->column;
    struct mt_axis x_axis = mt_axis_of(drawing, 1, 1, false, false);
    struct mt_axis y_axis = y_axis_of(drawing, false);
    double radius = drawing->thinned->kept > 1000 ? 1.6 : 2.6;
    mt_draw_y_axis(drawing, &y_axis, figure->head.y);
    mt_draw_x_axis(drawing, &x_axis, figure->head.x);
    for (size_t row = 0; row < drawing->thinned->rows; row++) {
        double x = place_x(drawing, &x_axis, column[1].numbers[row]);
        double y = place_y(drawing, &y_axis, column[2].numbers[row]);
        if (!mt_draw_has(drawing, row) || !isfinite(x) || !isfinite(y)) continue;
        mt_draw_set(drawing->pen, mt_draw_colour(drawing, column[0].codes[row]), 0.65);
        cairo_arc(drawing->pen, x, y, radius, 0, 2 * MT_PI);
        cairo_fill(drawing->pen);
    }
}

// ------------------------------------------------------------------ bars

static void draw_whisker(const struct mt_drawing *drawing, double x, double low, double high)
{
    if (!isfinite(low) || !isfinite(high)) return;
    mt_draw_set(drawing->pen, mt_draw_ink, 1);
    cairo_set_line_width(drawing->pen, 1.2);
    cairo_move_to(drawing->pen, x, low);
    cairo_line_to(drawing->pen, x, high);
    cairo_move_to(drawing->pen, x - 3, low);
    cairo_line_to(drawing->pen, x + 3, low);
    cairo_move_to(drawing->pen, x - 3, high);
    cairo_line_to(drawing->pen, x + 3, high);
    cairo_stroke(drawing->pen);
}

/* True when no label has bars of two series: each then has all the room. */
static bool is_alone(const struct mt_figure *figure)
{
    const struct mt_column *column = figure->column;
    size_t rows = mt_figure_rows(figure);
    for (size_t row = 0; row < rows && rows <= MOST_LOOKED_AT; row++) {
        for (size_t k = 0; k < row; k++) {
            if (column[1].codes[k] == column[1].codes[row] && column[0].codes[k] != column[0].codes[row])
                return false;
        }
    }
    return rows <= MOST_LOOKED_AT;
}

void mt_draw_bars(const struct mt_drawing *drawing)
{
    const struct mt_figure *figure = drawing->figure;
    const struct mt_column *column = figure->column;
    struct mt_axis y_axis = y_axis_of(drawing, true);
    double each = drawing->width / (double)column[1].level_count;
    bool alone = is_alone(figure);
    double count = alone ? 1 : (double)column[0].level_count;
    double wide = fmin(each * 0.8 / count, MOST_BARS_WIDTH);
    double zero = place_y(drawing, &y_axis, 0);
    mt_draw_y_axis(drawing, &y_axis, figure->head.y);
    mt_draw_x_labels(drawing, &column[1], figure->head.x);
    for (size_t row = 0; row < mt_figure_rows(figure); row++) {
        double series = alone ? 0 : (double)column[0].codes[row];
        double middle = drawing->left + ((double)column[1].codes[row] + 0.5) * each;
        double x = middle + (series - (count - 1) / 2) * wide;
        double y = place_y(drawing, &y_axis, column[2].numbers[row]);
        if (!isfinite(y) || !mt_draw_has(drawing, row)) continue;
        mt_draw_set(drawing->pen, mt_draw_colour(drawing, column[0].codes[row]), 0.85);
        cairo_rectangle(drawing->pen, x - wide / 2, fmin(y, zero), wide > 4 ? wide - 1 : wide,
                        fabs(zero - y));
        cairo_fill(drawing->pen);
        if (!figure->head.band) continue;
        draw_whisker(drawing, x - 0.5, place_y(drawing, &y_axis, column[3].numbers[row]),
                     place_y(drawing, &y_axis, column[4].numbers[row]));
    }
}

// ------------------------------------------------------------------ dots

/* Lines down at the ticks of an axis across; that at 0 is darker. */
static void draw_ticks_down(const struct mt_drawing *drawing, const struct mt_axis *axis)
{
    double value = 0;
    cairo_set_line_width(drawing->pen, 1);
    for (int i = 0; mt_axis_tick(axis, i, &value); i++) {
        mt_draw_set(drawing->pen, value == 0 ? mt_draw_ink : mt_draw_line, 1);
        cairo_move_to(drawing->pen, place_x(drawing, axis, value), drawing->top);
        cairo_line_to(drawing->pen, place_x(drawing, axis, value), drawing->top + drawing->height);
        cairo_stroke(drawing->pen);
    }
}

static void draw_whisker_across(const struct mt_drawing *drawing, double y, double low, double high)
{
    if (!isfinite(low) || !isfinite(high)) return;
    mt_draw_set(drawing->pen, mt_draw_ink, 1);
    cairo_set_line_width(drawing->pen, 1.2);
    cairo_move_to(drawing->pen, low, y);
    cairo_line_to(drawing->pen, high, y);
    cairo_move_to(drawing->pen, low, y - 3);
    cairo_line_to(drawing->pen, low, y + 3);
    cairo_move_to(drawing->pen, high, y - 3);
    cairo_line_to(drawing->pen, high, y + 3);
    cairo_stroke(drawing->pen);
}

void mt_draw_dots(const struct mt_drawing *drawing)
{
    const struct mt_figure *figure = drawing->figure;
    const struct mt_column *column = figure->column;
    struct mt_axis axis = y_axis_of(drawing, true);
    double y = drawing->top + MT_DRAW_DOT / 2;
    draw_ticks_down(drawing, &axis);
    mt_draw_x_axis(drawing, &axis, figure->head.y);
    for (size_t row = 0; row < mt_figure_rows(figure); row++) {
        if (!mt_draw_is_here(drawing, row)) continue;
        double x = place_x(drawing, &axis, column[2].numbers[row]);
        mt_draw_set(drawing->pen, mt_draw_ink, 1);
        mt_draw_text(drawing->pen, drawing->left - 8, y, MT_ALIGN_RIGHT, drawing->left - drawing->edge - 12,
                     mt_column_text(&column[1], row));
        if (figure->head.band)
            draw_whisker_across(drawing, y, place_x(drawing, &axis, column[3].numbers[row]),
                                place_x(drawing, &axis, column[4].numbers[row]));
        mt_draw_set(drawing->pen, mt_draw_colour(drawing, column[0].codes[row]), 1);
        if (isfinite(x)) cairo_arc(drawing->pen, x, y, 3.2, 0, 2 * MT_PI);
        cairo_fill(drawing->pen);
        y += MT_DRAW_DOT;
    }
}

// ------------------------------------------------------------------ radar

static void radar_point(const struct mt_drawing *drawing, size_t index, size_t count, double part)
{
    double radius = part * (drawing->height / 2 - 16);
    double angle = 2 * MT_PI * (double)index / (double)count - MT_PI / 2;
    cairo_line_to(drawing->pen, drawing->left + drawing->width / 2 + radius * cos(angle),
                  drawing->top + drawing->height / 2 + radius * sin(angle));
}

#define MOST_FILLED 3 // areas of more series hide each other

/* A ring for each tick, with its number, and the labels around. */
static void draw_web(const struct mt_drawing *drawing, const struct mt_axis *axis, size_t count)
{
    const struct mt_column *labels = &drawing->figure->column[1];
    char text[MT_NUMBER_BYTES];
    double value = 0;
    cairo_set_line_width(drawing->pen, 1);
    for (int ring = 0; mt_axis_tick(axis, ring, &value); ring++) {
        double part = mt_axis_place(axis, value);
        mt_draw_set(drawing->pen, value == 0 ? mt_draw_soft : mt_draw_line, 1);
        for (size_t i = 0; i < count; i++) radar_point(drawing, i, count, part);
        cairo_close_path(drawing->pen);
        cairo_stroke(drawing->pen);
        mt_draw_set(drawing->pen, mt_draw_soft, 1);
        mt_draw_text(drawing->pen, drawing->left + drawing->width / 2 - 4,
                     drawing->top + drawing->height / 2 - part * (drawing->height / 2 - 16), MT_ALIGN_RIGHT,
                     40, mt_axis_text(text, axis, value));
    }
    mt_draw_set(drawing->pen, mt_draw_ink, 1);
    for (size_t i = 0; i < count; i++) {
        double angle = 2 * MT_PI * (double)i / (double)count - MT_PI / 2;
        double radius = drawing->height / 2 - 4;
        enum mt_align align =
            fabs(cos(angle)) < 0.1 ? MT_ALIGN_MIDDLE : (cos(angle) > 0 ? MT_ALIGN_LEFT : MT_ALIGN_RIGHT);
        mt_draw_text(drawing->pen, drawing->left + drawing->width / 2 + radius * cos(angle),
                     drawing->top + drawing->height / 2 + radius * sin(angle), align, 160, labels->levels[i]);
    }
}

void mt_draw_radar(const struct mt_drawing *drawing)
{
    const struct mt_figure *figure = drawing->figure;
    const struct mt_column *column = figure->column;
    struct mt_axis axis = mt_axis_of(drawing, 2, 1, true, false);
    size_t count = column[1].level_count;
    draw_web(drawing, &axis, count);
    for (size_t series = 0; series < column[0].level_count; series++) {
        for (size_t row = 0; row < mt_figure_rows(figure); row++) {
            if (column[0].codes[row] != series || !isfinite(column[2].numbers[row])) continue;
            radar_point(drawing, column[1].codes[row], count, mt_axis_place(&axis, column[2].numbers[row]));
        }
        cairo_close_path(drawing->pen);
        mt_draw_set(drawing->pen, mt_draw_colour(drawing, series),
                    column[0].level_count <= MOST_FILLED ? 0.12 : 0);
        cairo_fill_preserve(drawing->pen);
        mt_draw_set(drawing->pen, mt_draw_colour(drawing, series), 1);
        cairo_set_line_width(drawing->pen, 1.8);
        cairo_stroke(drawing->pen);
    }
}
