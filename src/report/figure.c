/* Figures: columns and rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/lists.h"
#include "report/page_parts.h"

void mt_figure_free(struct mt_figure *figure)
{
    struct mt_context *ctx = figure->page->ctx;
    for (int i = 0; i < figure->column_count; i++) {
        struct mt_column *column = &figure->column[i];
        size_t rows = column->row_capacity;
        mt_release(ctx, column->numbers, column->numbers != NULL ? rows * sizeof *column->numbers : 0);
        mt_release(ctx, column->codes, column->codes != NULL ? rows * sizeof *column->codes : 0);
        mt_release(ctx, column->spreads, column->spread_capacity * sizeof *column->spreads);
        mt_release(ctx, column->marks, column->mark_capacity * sizeof *column->marks);
        mt_release(ctx, (void *)column->levels, column->level_capacity * sizeof *column->levels);
    }
}

static void add_column(struct mt_figure *figure, enum mt_column_kind kind, const char *name)
{
    struct mt_page *page = figure->page;
    if (figure->column_count == MT_FIGURE_MOST_COLUMNS) {
        page->status = mt_fail(page->ctx, MT_ERR_INTERNAL, "the figure %s has more than %d columns",
                               figure->id, MT_FIGURE_MOST_COLUMNS);
        return;
    }
    const char *copy = mt_page_keep(page, name);
    if (page->status != MT_OK) return;
    figure->column[figure->column_count++] = (struct mt_column){.name = copy, .kind = kind};
}

/* The columns a kind has; those of a table are the caller's. */
static void add_columns(struct mt_figure *figure)
{
    const struct mt_figure_head *head = &figure->head;
    bool labelled =
        head->kind == MT_FIGURE_BARS || head->kind == MT_FIGURE_DOTS || head->kind == MT_FIGURE_RADAR;
    if (head->kind == MT_FIGURE_TABLE) return;
    if (head->kind == MT_FIGURE_HEATMAP || head->kind == MT_FIGURE_GRID) {
        add_column(figure, MT_COLUMN_LABEL, head->y);
        add_column(figure, MT_COLUMN_LABEL, head->x);
        add_column(figure, MT_COLUMN_NUMBER, head->value);
        return;
    }
    add_column(figure, MT_COLUMN_LABEL, head->series);
    add_column(figure, labelled ? MT_COLUMN_LABEL : MT_COLUMN_NUMBER, head->x);
    add_column(figure, MT_COLUMN_NUMBER, head->y);
    if (head->band) add_column(figure, MT_COLUMN_NUMBER, "low");
    if (head->band) add_column(figure, MT_COLUMN_NUMBER, "high");
    if (head->panel[0] != '\0') add_column(figure, MT_COLUMN_LABEL, head->panel);
}

struct mt_figure *mt_page_figure(struct mt_page *page, const struct mt_figure_head *head)
{
    struct mt_figure *figure = mt_page_make(page, sizeof *figure);
    if (figure == NULL) return NULL;
    *figure = (struct mt_figure){.page = page, .head = *head};
    figure->head.title = mt_page_keep(page, head->title);
    figure->head.meaning = mt_page_keep(page, head->meaning);
    figure->head.formula = mt_page_keep(page, head->formula);
    figure->head.series = mt_page_keep(page, head->series != NULL ? head->series : "series");
    figure->head.x = mt_page_keep(page, head->x);
    figure->head.y = mt_page_keep(page, head->y);
    figure->head.value = mt_page_keep(page, head->value);
    figure->head.scale = mt_page_keep(page, head->scale);
    figure->head.panel = mt_page_keep(page, head->panel);
    figure->head.unit = mt_page_keep(page, head->unit);
    figure->panel = "";
    figure->id = mt_page_id(page, figure->head.title, false);
    struct mt_block *block = mt_page_add_block(page);
    if (block == NULL) return NULL;
    block->figure = figure;
    add_columns(figure);
    return page->status == MT_OK ? figure : NULL;
}

static bool ready(const struct mt_figure *figure)
{
    return figure != NULL && figure->page->status == MT_OK;
}

void mt_figure_panel(struct mt_figure *figure, const char *name)
{
    if (ready(figure)) figure->panel = mt_page_keep(figure->page, name);
}

const struct mt_column *mt_figure_panels(const struct mt_figure *figure)
{
    return figure->head.panel[0] != '\0' ? &figure->column[figure->head.band ? 5 : 3] : NULL;
}

size_t mt_figure_panel_rows(const struct mt_figure *figure, size_t panel)
{
    const struct mt_column *panels = mt_figure_panels(figure);
    size_t rows = mt_figure_rows(figure);
    size_t count = 0;
    for (size_t row = 0; row < rows; row++) count += panels == NULL || panels->codes[row] == panel ? 1 : 0;
    return count;
}

void mt_figure_column(struct mt_figure *figure, enum mt_column_kind kind, const char *name)
{
    if (ready(figure)) add_column(figure, kind, name);
}

void mt_figure_measure_column(struct mt_figure *figure, const char *name, int decimals, bool is_signed)
{
    if (!ready(figure)) return;
    add_column(figure, MT_COLUMN_MEASURE, name);
    if (!ready(figure)) return;
    figure->column[figure->column_count - 1].decimals = decimals;
    figure->column[figure->column_count - 1].is_signed = is_signed;
}

/* Room for one more row in a column. */
static bool reserve_row(struct mt_figure *figure, struct mt_column *column)
{
    struct mt_page *page = figure->page;
    bool label = column->kind == MT_COLUMN_LABEL;
    void *data = label ? (void *)column->codes : (void *)column->numbers;
    if (column->rows >= MT_FIGURE_MOST_ROWS) {
        page->status = mt_fail(page->ctx, MT_ERR_USAGE, "the figure '%s' has more than %zu rows",
                               figure->head.title, MT_FIGURE_MOST_ROWS);
        return false;
    }
    data = mt_list_reserve(page->ctx, data, &column->row_capacity,
                           label ? sizeof *column->codes : sizeof *column->numbers, column->rows + 1,
                           &page->status);
    if (page->status != MT_OK) return false;
    if (label) {
        column->codes = data;
    } else {
        column->numbers = data;
    }
    return true;
}

/* The index of a label: that of the row before, most of the time. */
static uint32_t code_of(struct mt_figure *figure, struct mt_column *column, const char *text)
{
    struct mt_page *page = figure->page;
    if (text == NULL) text = "";
    if (column->rows > 0 && strcmp(column->levels[column->codes[column->rows - 1]], text) == 0)
        return column->codes[column->rows - 1];
    for (size_t i = 0; i < column->level_count && figure->head.kind != MT_FIGURE_TABLE; i++) {
        if (strcmp(column->levels[i], text) == 0) return (uint32_t)i;
    }
    const char *copy = mt_page_keep(page, text);
    if (page->status != MT_OK) return 0;
    column->levels = mt_list_reserve(page->ctx, column->levels, &column->level_capacity,
                                     sizeof *column->levels, column->level_count + 1, &page->status);
    if (page->status != MT_OK) return 0;
    column->levels[column->level_count] = copy;
    bool series =
        column == figure->column && figure->head.kind != MT_FIGURE_TABLE && !mt_figure_is_map(figure);
    if (series) mt_page_add_series(page, figure->head.series, copy, 0);
    return (uint32_t)column->level_count++;
}

static void append_label(struct mt_figure *figure, int index, const char *text)
{
    struct mt_column *column = &figure->column[index];
    if (!ready(figure) || !reserve_row(figure, column)) return;
    uint32_t code = code_of(figure, column, text);
    if (ready(figure)) column->codes[column->rows++] = code;
}

static void append_number(struct mt_figure *figure, int index, double number)
{
    struct mt_column *column = &figure->column[index];
    if (ready(figure) && reserve_row(figure, column)) column->numbers[column->rows++] = number;
}

static bool next_cell(struct mt_figure *figure, enum mt_column_kind kind)
{
    struct mt_page *page = figure->page;
    if (figure->head.kind != MT_FIGURE_TABLE || figure->column_count == 0 ||
        figure->column[figure->next_column].kind != kind) {
        page->status = mt_fail(page->ctx, MT_ERR_INTERNAL,
                               "a cell of the figure %s is of a different kind than its column", figure->id);
        return false;
    }
    return true;
}

void mt_figure_text(struct mt_figure *figure, const char *text)
{
    if (!ready(figure) || !next_cell(figure, MT_COLUMN_LABEL)) return;
    append_label(figure, figure->next_column, text);
    figure->next_column = (figure->next_column + 1) % figure->column_count;
}

void mt_figure_number(struct mt_figure *figure, double number)
{
    if (!ready(figure) || !next_cell(figure, MT_COLUMN_NUMBER)) return;
    append_number(figure, figure->next_column, number);
    figure->next_column = (figure->next_column + 1) % figure->column_count;
}

/* The columns behind y: the band's and the panel. */
static void append_rest(struct mt_figure *figure, double low, double high)
{
    if (figure->head.band) append_number(figure, 3, low);
    if (figure->head.band) append_number(figure, 4, high);
    if (figure->head.panel[0] != '\0') append_label(figure, figure->head.band ? 5 : 3, figure->panel);
}

static bool reserve_measure(struct mt_figure *figure, struct mt_column *column)
{
    struct mt_page *page = figure->page;
    if (!reserve_row(figure, column)) return false;
    column->spreads = mt_list_reserve(page->ctx, column->spreads, &column->spread_capacity,
                                      sizeof *column->spreads, column->rows + 1, &page->status);
    if (page->status != MT_OK) return false;
    column->marks = mt_list_reserve(page->ctx, column->marks, &column->mark_capacity, sizeof *column->marks,
                                    column->rows + 1, &page->status);
    if (page->status != MT_OK) return false;
    return true;
}

void mt_figure_measure(struct mt_figure *figure, double number, double spread, bool beyond_chance)
{
    if (!ready(figure) || !next_cell(figure, MT_COLUMN_MEASURE)) return;
    struct mt_column *column = &figure->column[figure->next_column];
    if (!reserve_measure(figure, column)) return;
    column->spreads[column->rows] = spread;
    column->marks[column->rows] = beyond_chance ? MT_MARK_BEYOND : 0;
    column->numbers[column->rows++] = number;
    figure->next_column = (figure->next_column + 1) % figure->column_count;
}

/* Refuses a row that does not fit the figure's kind. */
static bool is_kind(struct mt_figure *figure, enum mt_figure_shape one, enum mt_figure_shape other)
{
    if (!ready(figure)) return false;
    if (figure->head.kind == one || figure->head.kind == other) return true;
    figure->page->status = mt_fail(figure->page->ctx, MT_ERR_INTERNAL,
                                   "a row does not fit the kind of the figure %s", figure->id);
    return false;
}

void mt_figure_range(struct mt_figure *figure, const char *series, double x, double y, double low,
                     double high)
{
    if (!is_kind(figure, MT_FIGURE_LINES, MT_FIGURE_SCATTER)) return;
    append_label(figure, 0, series);
    append_number(figure, 1, x);
    append_number(figure, 2, y);
    append_rest(figure, low, high);
}

void mt_figure_point(struct mt_figure *figure, const char *series, double x, double y)
{
    mt_figure_range(figure, series, x, y, (double)NAN, (double)NAN);
}

void mt_figure_expert(struct mt_figure *figure, int expert, double x, double y)
{
    char name[32];
    if (!is_kind(figure, MT_FIGURE_SCATTER, MT_FIGURE_SCATTER)) return;
    struct mt_page *page = figure->page;
    (void)snprintf(name, sizeof name, "expert %d", expert);
    if (expert >= 0)
        mt_page_add_series(page, figure->head.series, mt_page_keep(page, name), (uint32_t)expert);
    mt_figure_point(figure, name, x, y);
}

void mt_figure_bar(struct mt_figure *figure, const char *series, const char *label, double y, double low,
                   double high)
{
    bool dots = ready(figure) && figure->head.kind == MT_FIGURE_DOTS;
    if (!dots && !is_kind(figure, MT_FIGURE_BARS, MT_FIGURE_RADAR)) return;
    append_label(figure, 0, series);
    append_label(figure, 1, label);
    append_number(figure, 2, y);
    append_rest(figure, low, high);
}

void mt_figure_cell(struct mt_figure *figure, const char *row, const char *column, double value)
{
    if (!is_kind(figure, MT_FIGURE_HEATMAP, MT_FIGURE_GRID)) return;
    append_label(figure, 0, row);
    append_label(figure, 1, column);
    append_number(figure, 2, value);
}

size_t mt_figure_rows(const struct mt_figure *figure)
{
    return figure->column_count > 0 ? figure->column[figure->column_count - 1].rows : 0;
}

const char *mt_column_text(const struct mt_column *column, size_t row)
{
    return column->levels[column->codes[row]];
}
