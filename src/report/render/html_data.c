/* A figure's numbers in the page. */
#include "report/render/html_data.h"

static const char *const kind_names[] = {
    [MT_FIGURE_TABLE] = "table",     [MT_FIGURE_LINES] = "lines", [MT_FIGURE_BARS] = "bars",
    [MT_FIGURE_HEATMAP] = "heatmap", [MT_FIGURE_GRID] = "grid",   [MT_FIGURE_SCATTER] = "scatter",
    [MT_FIGURE_RADAR] = "radar",     [MT_FIGURE_DOTS] = "dots",
};

const char *mt_figure_kind_name(const struct mt_figure *figure)
{
    return kind_names[figure->head.kind];
}

static void put_codes(struct mt_output *out, const struct mt_column *column, const struct mt_thinned *thinned)
{
    bool first = true;
    mt_put(out, "\"levels\":[");
    for (size_t i = 0; i < column->level_count; i++) {
        if (i > 0) mt_put(out, ",");
        mt_put_json(out, column->levels[i]);
    }
    mt_put(out, "],\"codes\":[");
    for (size_t row = 0; row < thinned->rows && out->status == MT_OK; row++) {
        if (!mt_thinned_has(thinned, row)) continue;
        mt_putf(out, first ? "%u" : ",%u", (unsigned)column->codes[row]);
        first = false;
    }
    mt_put(out, "]");
}

static void put_numbers(struct mt_output *out, const struct mt_column *column,
                        const struct mt_thinned *thinned)
{
    bool first = true;
    mt_put(out, "\"values\":[");
    for (size_t row = 0; row < thinned->rows && out->status == MT_OK; row++) {
        if (!mt_thinned_has(thinned, row)) continue;
        if (!first) mt_put(out, ",");
        mt_put_exact(out, column->numbers[row], "null");
        first = false;
    }
    mt_put(out, "]");
}

static void put_spreads(struct mt_output *out, const struct mt_column *column)
{
    mt_put(out, "\"values\":[");
    for (size_t row = 0; row < column->rows && out->status == MT_OK; row++) {
        if (row > 0) mt_put(out, ",");
        mt_put_exact(out, column->spreads[row], "null");
    }
    mt_put(out, "]");
}

/* Marks as labels, the code of each being its bits. */
static void put_marks(struct mt_output *out, const struct mt_column *column)
{
    mt_put(out, "\"levels\":[");
    for (unsigned marks = 0; marks < 8; marks++) {
        if (marks > 0) mt_put(out, ",");
        mt_put_json(out, mt_marks_text(marks));
    }
    mt_put(out, "],\"codes\":[");
    for (size_t row = 0; row < column->rows && out->status == MT_OK; row++)
        mt_putf(out, row > 0 ? ",%u" : "%u", (unsigned)column->marks[row]);
    mt_put(out, "]");
}

static void put_columns(struct mt_output *out, const struct mt_figure *figure,
                        const struct mt_thinned *thinned)
{
    struct mt_column_part parts[MT_FIGURE_MOST_PARTS];
    char name[MT_PART_NAME_BYTES];
    size_t count = mt_figure_parts(figure, parts);
    for (size_t i = 0; i < count; i++) {
        const struct mt_column *column = parts[i].column;
        mt_put(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        mt_put_json(out, mt_part_name(name, &parts[i]));
        mt_put(out, ",");
        if (parts[i].part == MT_PART_SPREAD) {
            put_spreads(out, column);
        } else if (parts[i].part == MT_PART_MARKS) {
            put_marks(out, column);
        } else if (column->kind == MT_COLUMN_LABEL) {
            put_codes(out, column, thinned);
        } else {
            put_numbers(out, column, thinned);
        }
        mt_put(out, "}");
    }
}

static void put_named(struct mt_output *out, const char *name, const char *text)
{
    mt_putf(out, ",\"%s\":", name);
    mt_put_json(out, text);
}

void mt_put_figure_data(struct mt_output *out, const struct mt_figure *figure,
                        const struct mt_thinned *thinned)
{
    const struct mt_figure_head *head = &figure->head;
    mt_put(out, "{\"id\":");
    mt_put_json(out, figure->id);
    put_named(out, "kind", mt_figure_kind_name(figure));
    put_named(out, "title", head->title);
    put_named(out, "meaning", head->meaning);
    put_named(out, "formula", head->formula);
    put_named(out, "x", head->x);
    put_named(out, "y", head->y);
    put_named(out, "value", head->value);
    put_named(out, "unit", head->unit);
    mt_putf(out, ",\"band\":%s,\"log\":%s,\"centre\":", head->band ? "true" : "false",
            head->log_y ? "true" : "false");
    if (head->centred) {
        mt_put_exact(out, head->centre, "null");
    } else {
        mt_put(out, "null");
    }
    mt_put(out, ",\"reach\":");
    mt_put_exact(out, head->reach, "0");
    if (head->kind == MT_FIGURE_HEATMAP || head->kind == MT_FIGURE_GRID) {
        double low = 0.0;
        double high = 0.0;
        mt_figure_span(figure, &low, &high);
        mt_put(out, ",\"range\":[");
        mt_put_exact(out, low, "null");
        mt_put(out, ",");
        mt_put_exact(out, high, "null");
        mt_put(out, "]");
    } else if (head->kind != MT_FIGURE_TABLE) {
        mt_putf(out, ",\"kindred\":%zu,\"colours\":[", mt_figure_kindred(figure));
        for (size_t i = 0; i < figure->column[0].level_count; i++)
            mt_putf(out, i > 0 ? ",%u" : "%u", (unsigned)mt_figure_colour(figure, i));
        mt_put(out, "]");
    }
    mt_putf(out, ",\"rows\":%zu,\"columns\":[", thinned->kept);
    put_columns(out, figure, thinned);
    mt_put(out, "]}");
}
