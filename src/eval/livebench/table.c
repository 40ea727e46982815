/* Tables: columns and cells, their types, and whether two are equal. */
#include "eval/livebench/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "eval/livebench/text.h"

#define ARENA_BYTES  4096
#define MOST_COLUMNS 256
#define MOST_CELLS   ((size_t)1 << 18)
#define LONGEST      400 // characters of a number
#define NEAR         1e-6

enum mt_table_format mt_table_format_named(struct mt_text name)
{
    static const char *const names[MT_TABLE_FORMATS] = {"json", "jsonl", "csv", "tsv", "html", "markdown"};
    int format = 0;
    while (format < MT_TABLE_FORMATS &&
           (strlen(names[format]) != name.bytes || strncasecmp(names[format], name.text, name.bytes) != 0)) {
        format++;
    }
    return (enum mt_table_format)format;
}

void mt_table_init(struct mt_context *ctx, struct mt_table *table)
{
    *table = (struct mt_table){.ctx = ctx};
    mt_arena_init(&table->arena, ctx, ARENA_BYTES);
}

void mt_table_free(struct mt_table *table)
{
    if (table->ctx == NULL) return;
    mt_release(table->ctx, table->cells, table->cell_capacity * sizeof *table->cells);
    mt_release(table->ctx, table->entries, table->entry_capacity * sizeof *table->entries);
    mt_release(table->ctx, table->names, table->name_capacity * sizeof *table->names);
    mt_arena_free(&table->arena);
    *table = (struct mt_table){0};
}

enum mt_status mt_table_read(struct mt_table *table, enum mt_table_format format, struct mt_text text)
{
    if (text.bytes == 0) format = MT_TABLE_FORMATS;
    switch (format) {
    case MT_TABLE_JSON: return mt_table_read_json(table, text);
    case MT_TABLE_JSONL: return mt_table_read_json_lines(table, text, true);
    case MT_TABLE_CSV: return mt_table_read_separated(table, text, ',', false);
    case MT_TABLE_TSV: return mt_table_read_separated(table, text, '\t', false);
    case MT_TABLE_HTML: return mt_table_read_html(table, text);
    case MT_TABLE_MARKDOWN: return mt_table_read_markdown(table, text);
    case MT_TABLE_FORMATS: break;
    }
    table->broken = true;
    return MT_OK;
}

// ------------------------------------------------------------------ making one

/* The column of a name; table->columns: none. */
static size_t find_column(const struct mt_table *table, struct mt_text name)
{
    size_t column = 0;
    while (column < table->columns && !mt_text_same(table->names[column], name)) column++;
    return column;
}

static enum mt_status append_name(struct mt_table *table, struct mt_text name)
{
    if (table->columns == MOST_COLUMNS) {
        table->broken = table->oversize = true;
        return MT_OK;
    }
    enum mt_status status = MT_OK;
    table->names = mt_list_reserve(table->ctx, table->names, &table->name_capacity, sizeof *table->names,
                                   table->columns + 1, &status);
    if (status == MT_OK) table->names[table->columns++] = name;
    return status;
}

enum mt_status mt_table_column(struct mt_table *table, struct mt_text name, size_t hint, size_t *column)
{
    *column =
        hint < table->columns && mt_text_same(table->names[hint], name) ? hint : find_column(table, name);
    if (*column < table->columns) return MT_OK;
    const char *copy = NULL;
    enum mt_status status = mt_arena_copy_text(&table->arena, name.text, name.bytes, &copy);
    return status == MT_OK ? append_name(table, (struct mt_text){.text = copy, .bytes = name.bytes}) : status;
}

enum mt_status mt_table_add_column(struct mt_table *table, struct mt_text name)
{
    char made[320];
    const char *copy = NULL;
    struct mt_text wanted = name;
    if (name.bytes == 0) {
        wanted.text = made;
        wanted.bytes = (size_t)snprintf(made, sizeof made, "Unnamed: %zu", table->columns);
    }
    for (int number = 1; find_column(table, wanted) < table->columns && !table->broken; number++) {
        int length = snprintf(made, sizeof made, "%.*s.%d", (int)(name.bytes < 256 ? name.bytes : 256),
                              name.text, number);
        wanted = (struct mt_text){.text = made, .bytes = (size_t)length};
    }
    enum mt_status status = mt_arena_copy_text(&table->arena, wanted.text, wanted.bytes, &copy);
    return status == MT_OK ? append_name(table, (struct mt_text){.text = copy, .bytes = wanted.bytes})
                           : status;
}

enum mt_status mt_table_put(struct mt_table *table, size_t row, size_t column, struct mt_table_cell cell)
{
    if (table->entry_count == MOST_CELLS) table->broken = table->oversize = true;
    if (table->broken) return MT_OK;
    enum mt_status status = MT_OK;
    table->entries = mt_list_reserve(table->ctx, table->entries, &table->entry_capacity,
                                     sizeof *table->entries, table->entry_count + 1, &status);
    if (status == MT_OK)
        table->entries[table->entry_count++] =
            (struct mt_table_entry){.row = row, .column = column, .cell = cell};
    return status;
}

enum mt_status mt_table_finish(struct mt_table *table, size_t rows)
{
    void *memory = NULL;
    if (table->columns == 0 || rows > MOST_CELLS / table->columns) table->broken = true;
    if (table->broken || rows == 0) return MT_OK;
    enum mt_status status =
        mt_allocate_array(table->ctx, rows * table->columns, sizeof *table->cells, &memory);
    if (status != MT_OK) return status;
    table->cells = memory;
    table->cell_capacity = rows * table->columns;
    table->rows = rows;
    for (size_t i = 0; i < rows * table->columns; i++)
        table->cells[i] = (struct mt_table_cell){.kind = MT_CELL_MISSING};
    for (size_t i = 0; i < table->entry_count; i++) {
        const struct mt_table_entry *entry = &table->entries[i];
        table->cells[entry->row * table->columns + entry->column] = entry->cell;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ types

/* Digits with a dot and an exponent, or the words for infinity. */
static bool spells_number(const char *at)
{
    if (*at == '+' || *at == '-') at++;
    if (strcasecmp(at, "inf") == 0 || strcasecmp(at, "infinity") == 0) return true;
    size_t whole = strspn(at, "0123456789");
    at += whole;
    size_t fraction = *at == '.' ? strspn(at + 1, "0123456789") : 0;
    if (*at == '.') at += 1 + fraction;
    if (whole + fraction == 0) return false;
    if (*at == '\0') return true;
    if (*at != 'e' && *at != 'E') return false;
    at++;
    if (*at == '+' || *at == '-') at++;
    return *at != '\0' && at[strspn(at, "0123456789")] == '\0';
}

/* `nan`: whether the word for no number is one; it is then a missing cell. */
static bool read_number(struct mt_text text, bool nan, struct mt_table_cell *cell)
{
    char number[LONGEST + 1];
    text = mt_text_trimmed(text);
    if (text.bytes == 0 || text.bytes > LONGEST) return false;
    memcpy(number, text.text, text.bytes);
    number[text.bytes] = '\0';
    *cell = (struct mt_table_cell){.kind = MT_CELL_MISSING};
    if (nan && strcasecmp(number + (number[0] == '-' || number[0] == '+'), "nan") == 0) return true;
    if (strlen(number) != text.bytes || !spells_number(number)) return false;
    *cell = (struct mt_table_cell){.kind = MT_CELL_NUMBER, .number = strtod(number, NULL)};
    return true;
}

static bool is_word(struct mt_text text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (mt_text_is(text, words[i])) return true;
    }
    return false;
}

/* What pandas takes for a missing value unless told otherwise. */
static bool is_missing(struct mt_text text)
{
    static const char *const words[] = {"",     "#N/A", "#N/A N/A", "#NA",     "-1.#IND", "-1.#QNAN", "-NaN",
                                        "-nan", "N/A",  "1.#IND",   "1.#QNAN", "<NA>",    "NA",       "NULL",
                                        "NaN",  "None", "n/a",      "nan",     "null"};
    return is_word(text, words, sizeof words / sizeof words[0]);
}

static bool read_truth(struct mt_text text, struct mt_table_cell *cell)
{
    static const char *const yes[] = {"True", "TRUE", "true"};
    static const char *const no[] = {"False", "FALSE", "false"};
    bool is_true = is_word(text, yes, 3);
    *cell = (struct mt_table_cell){.kind = MT_CELL_NUMBER, .number = is_true ? 1.0 : 0.0};
    return is_true || is_word(text, no, 3);
}

static bool read_plain_number(struct mt_text text, struct mt_table_cell *cell)
{
    return read_number(text, false, cell);
}

static bool read_json_number(struct mt_text text, struct mt_table_cell *cell)
{
    return read_number(text, true, cell);
}

/* Replaces the texts of a column by what `read` makes of them, if it makes something of all; false: not. */
static bool convert(struct mt_table *table, size_t column,
                    bool (*read)(struct mt_text text, struct mt_table_cell *cell))
{
    struct mt_table_cell made;
    for (size_t row = 0; row < table->rows; row++) {
        const struct mt_table_cell *cell = &table->cells[row * table->columns + column];
        if (cell->kind == MT_CELL_NESTED) return false;
        if (cell->kind == MT_CELL_TEXT && !read(cell->text, &made)) return false;
    }
    for (size_t row = 0; row < table->rows; row++) {
        struct mt_table_cell *cell = &table->cells[row * table->columns + column];
        if (cell->kind == MT_CELL_TEXT && read(cell->text, &made)) *cell = made;
    }
    return true;
}

void mt_table_infer_texts(struct mt_table *table)
{
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        struct mt_table_cell *cell = &table->cells[i];
        if (cell->kind == MT_CELL_TEXT && is_missing(cell->text)) cell->kind = MT_CELL_MISSING;
    }
    for (size_t column = 0; column < table->columns; column++) {
        if (!convert(table, column, read_plain_number)) (void)convert(table, column, read_truth);
    }
}

void mt_table_infer_json(struct mt_table *table)
{
    for (size_t column = 0; column < table->columns; column++) (void)convert(table, column, read_json_number);
}

// ------------------------------------------------------------------ comparing

static bool cells_equal(const struct mt_table_cell *a, const struct mt_table_cell *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case MT_CELL_MISSING: return true;
    case MT_CELL_NUMBER: return fabs(a->number - b->number) < NEAR;
    case MT_CELL_TEXT: return mt_text_same(mt_livebench_stripped(a->text), mt_livebench_stripped(b->text));
    case MT_CELL_NESTED: break;
    }
    return false;
}

static bool is_index(struct mt_text name)
{
    return mt_text_is(mt_livebench_stripped(name), "index");
}

/* The only column with that name, white space around aside; table->columns: none, or several. */
static size_t only_column(const struct mt_table *table, struct mt_text name)
{
    struct mt_text wanted = mt_livebench_stripped(name);
    size_t found = table->columns;
    for (size_t i = 0; i < table->columns; i++) {
        if (!mt_text_same(mt_livebench_stripped(table->names[i]), wanted)) continue;
        if (found < table->columns) return table->columns;
        found = i;
    }
    return found;
}

static size_t counted_columns(const struct mt_table *table)
{
    size_t count = 0;
    for (size_t i = 0; i < table->columns; i++) count += is_index(table->names[i]) ? 0 : 1;
    return count;
}

bool mt_tables_equal(const struct mt_table *one, const struct mt_table *other)
{
    if (one->broken || other->broken || one->rows != other->rows) return false;
    if (counted_columns(one) != counted_columns(other)) return false;
    for (size_t column = 0; column < one->columns; column++) {
        if (is_index(one->names[column])) continue;
        size_t match = only_column(other, one->names[column]);
        if (match == other->columns || only_column(one, one->names[column]) != column) return false;
        for (size_t row = 0; row < one->rows; row++) {
            if (!cells_equal(&one->cells[row * one->columns + column],
                             &other->cells[row * other->columns + match]))
                return false;
        }
    }
    return true;
}
