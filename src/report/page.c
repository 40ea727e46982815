/* Building a page. */
#include "report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/lists.h"
#include "formats/text/utf8.h"

#define BLOCK_BYTES     16384
#define PARAGRAPH_BYTES 1000
#define ID_BYTES        64

static void free_figure(struct mt_figure *figure)
{
    struct mt_context *ctx = figure->page->ctx;
    for (int i = 0; i < figure->column_count; i++) {
        struct mt_column *column = &figure->column[i];
        bool label = column->kind == MT_COLUMN_LABEL;
        mt_release(ctx, column->numbers, label ? 0 : column->row_capacity * sizeof *column->numbers);
        mt_release(ctx, column->codes, label ? column->row_capacity * sizeof *column->codes : 0);
        mt_release(ctx, column->levels, column->level_capacity * sizeof *column->levels);
    }
}

void mt_page_free(struct mt_page *page)
{
    if (page->ctx == NULL) return;
    for (struct mt_section *section = page->first; section != NULL; section = section->next) {
        for (struct mt_block *block = section->first; block != NULL; block = block->next) {
            if (block->figure != NULL) free_figure(block->figure);
        }
    }
    mt_arena_free(&page->arena);
    *page = (struct mt_page){0};
}

enum mt_status mt_page_status(const struct mt_page *page)
{
    return page->status;
}

bool mt_page_check(struct mt_page *page, enum mt_status status)
{
    if (page->status == MT_OK) page->status = status;
    return page->status == MT_OK;
}

// ------------------------------------------------------------------ texts

/* A copy in valid UTF-8; "" once the page has failed. */
static const char *keep(struct mt_page *page, const char *text)
{
    struct mt_byte_list valid = {.ctx = page->ctx};
    char *copy = NULL;
    if (page->status != MT_OK || text == NULL || text[0] == '\0') return "";
    page->status = mt_utf8_append_repaired(&valid, (const uint8_t *)text, strlen(text));
    if (page->status == MT_OK)
        page->status = mt_arena_copy_text(&page->arena, (const char *)valid.data, valid.count, &copy);
    mt_byte_list_free(&valid);
    return page->status == MT_OK ? copy : "";
}

void mt_page_init(struct mt_page *page, struct mt_context *ctx, const char *title)
{
    *page = (struct mt_page){.ctx = ctx, .subtitle = ""};
    mt_arena_init(&page->arena, ctx, BLOCK_BYTES);
    page->title = keep(page, title);
}

static void *make(struct mt_page *page, size_t bytes)
{
    void *memory = NULL;
    if (page->status == MT_OK) page->status = mt_arena_allocate(&page->arena, bytes, &memory);
    return page->status == MT_OK ? memory : NULL;
}

static bool id_is_taken(const struct mt_page *page, const char *id)
{
    for (const struct mt_section *section = page->first; section != NULL; section = section->next) {
        if (section->id != NULL && strcmp(section->id, id) == 0) return true;
        for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
            if (block->figure != NULL && block->figure->id != NULL && strcmp(block->figure->id, id) == 0)
                return true;
        }
    }
    return false;
}

/* A title as an id: its letters and digits in lower case, '-' for what is between, a number when taken. */
static const char *id_of(struct mt_page *page, const char *title)
{
    char id[ID_BYTES + 24];
    size_t length = 0;
    for (const char *at = title; *at != '\0' && length < ID_BYTES - 1; at++) {
        char c = *at;
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (good) {
            id[length++] = c;
        } else if (length > 0 && id[length - 1] != '-') {
            id[length++] = '-';
        }
    }
    while (length > 0 && id[length - 1] == '-') length--;
    if (length == 0) id[length++] = 'x';
    id[length] = '\0';
    for (unsigned number = 2; id_is_taken(page, id); number++)
        (void)snprintf(id + length, sizeof id - length, "-%u", number);
    return keep(page, id);
}

void mt_page_subtitle(struct mt_page *page, const char *text)
{
    page->subtitle = keep(page, text);
}

void mt_page_card(struct mt_page *page, const char *name, const char *value, const char *note)
{
    struct mt_card *card = make(page, sizeof *card);
    if (card == NULL) return;
    *card = (struct mt_card){.name = keep(page, name)};
    card->value = keep(page, value);
    card->note = keep(page, note);
    if (page->last_card != NULL) page->last_card->next = card;
    if (page->first_card == NULL) page->first_card = card;
    page->last_card = card;
}

void mt_page_section(struct mt_page *page, const char *title)
{
    struct mt_section *section = make(page, sizeof *section);
    if (section == NULL) return;
    *section = (struct mt_section){.title = keep(page, title)};
    section->id = id_of(page, section->title);
    if (page->last != NULL) page->last->next = section;
    if (page->first == NULL) page->first = section;
    page->last = section;
}

/* One more block of the current section, or of a nameless first one. */
static struct mt_block *add_block(struct mt_page *page)
{
    if (page->last == NULL) mt_page_section(page, "");
    struct mt_block *block = make(page, sizeof *block);
    if (block == NULL || page->last == NULL) return NULL;
    *block = (struct mt_block){0};
    if (page->last->last != NULL) page->last->last->next = block;
    if (page->last->first == NULL) page->last->first = block;
    page->last->last = block;
    return block;
}

void mt_page_text(struct mt_page *page, const char *format, ...)
{
    char text[PARAGRAPH_BYTES + 1];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = keep(page, text);
    struct mt_block *block = add_block(page);
    if (block != NULL) block->text = copy;
}

// ------------------------------------------------------------------ figures

static void add_column(struct mt_figure *figure, enum mt_column_kind kind, const char *name)
{
    struct mt_page *page = figure->page;
    if (figure->column_count == MT_FIGURE_MOST_COLUMNS) {
        page->status = mt_fail(page->ctx, MT_ERR_INTERNAL, "the figure %s has more than %d columns",
                               figure->id, MT_FIGURE_MOST_COLUMNS);
        return;
    }
    const char *copy = keep(page, name);
    if (page->status != MT_OK) return;
    figure->column[figure->column_count++] = (struct mt_column){.name = copy, .kind = kind};
}

/* The columns a kind has; those of a table are the caller's. */
static void add_columns(struct mt_figure *figure)
{
    const struct mt_figure_head *head = &figure->head;
    bool labelled = head->kind == MT_FIGURE_BARS || head->kind == MT_FIGURE_RADAR;
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
    if (!head->band) return;
    add_column(figure, MT_COLUMN_NUMBER, "low");
    add_column(figure, MT_COLUMN_NUMBER, "high");
}

struct mt_figure *mt_page_figure(struct mt_page *page, const struct mt_figure_head *head)
{
    struct mt_figure *figure = make(page, sizeof *figure);
    if (figure == NULL) return NULL;
    *figure = (struct mt_figure){.page = page, .head = *head};
    figure->head.title = keep(page, head->title);
    figure->head.meaning = keep(page, head->meaning);
    figure->head.formula = keep(page, head->formula);
    figure->head.series = keep(page, head->series != NULL ? head->series : "series");
    figure->head.x = keep(page, head->x);
    figure->head.y = keep(page, head->y);
    figure->head.value = keep(page, head->value);
    figure->head.scale = keep(page, head->scale);
    figure->id = id_of(page, figure->head.title);
    struct mt_block *block = add_block(page);
    if (block == NULL) return NULL;
    block->figure = figure;
    add_columns(figure);
    return page->status == MT_OK ? figure : NULL;
}

static bool ready(const struct mt_figure *figure)
{
    return figure != NULL && figure->page->status == MT_OK;
}

void mt_figure_column(struct mt_figure *figure, enum mt_column_kind kind, const char *name)
{
    if (ready(figure)) add_column(figure, kind, name);
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
    page->status = mt_list_reserve(page->ctx, &data, &column->row_capacity,
                                   label ? sizeof *column->codes : sizeof *column->numbers, column->rows + 1);
    if (page->status != MT_OK) return false;
    if (label) {
        column->codes = data;
    } else {
        column->numbers = data;
    }
    return true;
}

// ------------------------------------------------------------------ colours

static const struct mt_series *find_series(const struct mt_page *page, const char *kind, const char *name)
{
    const struct mt_series *series = page->series;
    while (series != NULL && (strcmp(series->kind, kind) != 0 || strcmp(series->name, name) != 0))
        series = series->next;
    return series;
}

/* The colour wanted, or the next that no other series of the kind has; once all are taken, higher numbers. */
static uint32_t free_colour(const struct mt_page *page, const char *kind, uint32_t wanted)
{
    bool taken[MT_PAGE_COLOURS] = {false};
    uint32_t count = 0;
    for (const struct mt_series *series = page->series; series != NULL; series = series->next) {
        if (strcmp(series->kind, kind) != 0) continue;
        if (series->colour < MT_PAGE_COLOURS) taken[series->colour] = true;
        count++;
    }
    if (count >= MT_PAGE_COLOURS) return count;
    uint32_t colour = wanted % MT_PAGE_COLOURS;
    while (taken[colour]) colour = (colour + 1) % MT_PAGE_COLOURS;
    return colour;
}

/* Gives a series a colour, unless it has one. name: the page's own. */
static void add_series(struct mt_page *page, const char *kind, const char *name, uint32_t wanted)
{
    if (find_series(page, kind, name) != NULL) return;
    struct mt_series *series = make(page, sizeof *series);
    if (series == NULL) return;
    *series = (struct mt_series){
        .kind = kind, .name = name, .colour = free_colour(page, kind, wanted), .next = page->series};
    page->series = series;
}

static bool is_map(const struct mt_figure *figure)
{
    return figure->head.kind == MT_FIGURE_HEATMAP || figure->head.kind == MT_FIGURE_GRID;
}

uint32_t mt_figure_colour(const struct mt_figure *figure, size_t level)
{
    const struct mt_series *series =
        find_series(figure->page, figure->head.series, figure->column[0].levels[level]);
    return series != NULL ? series->colour : (uint32_t)level;
}

size_t mt_figure_kindred(const struct mt_figure *figure)
{
    size_t count = 0;
    for (const struct mt_series *series = figure->page->series; series != NULL; series = series->next)
        count += strcmp(series->kind, figure->head.series) == 0 ? 1 : 0;
    return count;
}

static void widen(const struct mt_figure *figure, double *low, double *high)
{
    const struct mt_column *values = &figure->column[2];
    for (size_t row = 0; row < values->rows; row++) {
        if (!isfinite(values->numbers[row])) continue;
        *low = fmin(*low, values->numbers[row]);
        *high = fmax(*high, values->numbers[row]);
    }
}

void mt_figure_span(const struct mt_figure *figure, double *low, double *high)
{
    const char *scale = figure->head.scale;
    *low = figure->head.from_zero ? 0.0 : (double)INFINITY;
    *high = figure->head.from_zero ? 0.0 : (double)-INFINITY;
    widen(figure, low, high);
    for (const struct mt_section *section = figure->page->first; section != NULL && scale[0] != '\0';
         section = section->next) {
        for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
            const struct mt_figure *other = block->figure;
            if (other != NULL && is_map(other) && strcmp(other->head.scale, scale) == 0)
                widen(other, low, high);
        }
    }
    if (figure->head.centred && isfinite(figure->head.centre)) {
        *low = fmin(*low, figure->head.centre);
        *high = fmax(*high, figure->head.centre);
    }
    if (*low <= *high) return;
    *low = 0.0;
    *high = 1.0;
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
    const char *copy = keep(page, text);
    if (page->status != MT_OK) return 0;
    void *data = (void *)column->levels;
    page->status = mt_list_reserve(page->ctx, &data, &column->level_capacity, sizeof *column->levels,
                                   column->level_count + 1);
    if (page->status != MT_OK) return 0;
    column->levels = data;
    column->levels[column->level_count] = copy;
    bool series = column == figure->column && figure->head.kind != MT_FIGURE_TABLE && !is_map(figure);
    if (series) add_series(page, figure->head.series, copy, 0);
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
                               "a cell of the figure %s is of another kind than its column", figure->id);
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
    if (!figure->head.band) return;
    append_number(figure, 3, low);
    append_number(figure, 4, high);
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
    if (expert >= 0 && find_series(page, figure->head.series, name) == NULL)
        add_series(page, figure->head.series, keep(page, name), (uint32_t)expert);
    mt_figure_point(figure, name, x, y);
}

void mt_figure_bar(struct mt_figure *figure, const char *series, const char *label, double y, double low,
                   double high)
{
    if (!is_kind(figure, MT_FIGURE_BARS, MT_FIGURE_RADAR)) return;
    append_label(figure, 0, series);
    append_label(figure, 1, label);
    append_number(figure, 2, y);
    if (!figure->head.band) return;
    append_number(figure, 3, low);
    append_number(figure, 4, high);
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
