/*
 * CSV and TSV.
 *
 * CSV is RFC 4180: commas, and a field that begins with a quote runs to the closing one, over line ends, with
 * "" for a quote. A quote inside a field that does not begin with one is an ordinary character, as every
 * reader takes it. A quote that is not closed within the limit of a row costs the rows it swallowed: where
 * they end cannot be known, and looking at them again would take quadratic time.
 *
 * TSV has no quoting: a field ends at the tab, a row with the line.
 */
#include <string.h>

#include "base/amount.h"
#include "formats/data/dataset_private.h"
#include "formats/text/printable.h"

#define MOST_COLUMNS 4096

static bool is_csv(const struct mt_dataset *dataset)
{
    return dataset->options.format == MT_DATASET_CSV;
}

enum csv_state { AT_FIELD, IN_PLAIN, IN_QUOTES, AFTER_QUOTE };

/* Where the byte leads; what should not follow a closing quote is left to the parser of the row. */
static enum csv_state csv_step(enum csv_state state, char byte)
{
    if (state == IN_QUOTES) return byte == '"' ? AFTER_QUOTE : IN_QUOTES;
    if (byte == ',') return AT_FIELD;
    if (byte == '"' && state != IN_PLAIN) return IN_QUOTES;
    return state == AT_FIELD ? IN_PLAIN : state;
}

/* One CSV row from walk->at; the walk moves behind its line end. */
static struct mt_row_span walk_csv(const struct mt_dataset *dataset, struct mt_row_walk *walk)
{
    struct mt_row_span span = {.text = walk->text + walk->at, .line = walk->line};
    enum csv_state state = AT_FIELD;
    size_t start = walk->at;
    while (walk->at < walk->bytes) {
        char byte = walk->text[walk->at];
        bool too_long = walk->at - start > dataset->options.max_row_bytes;
        if (state == IN_QUOTES ? too_long : byte == '\n') break;
        state = csv_step(state, byte);
        mt_walk_step(walk);
    }
    span.bytes = walk->at - start;
    if (state == IN_QUOTES) {
        span.problem = "a quoted field that is not closed within the longest row allowed";
    }
    if (walk->at < walk->bytes) (void)mt_walk_line(walk); // the line end, and what a row too long left
    if (span.bytes > 0 && span.text[span.bytes - 1] == '\r') span.bytes--;
    return span;
}

static bool table_next(const struct mt_dataset *dataset, struct mt_row_walk *walk, struct mt_row_span *span)
{
    while (walk->at < walk->bytes) {
        *span = is_csv(dataset) ? walk_csv(dataset, walk) : mt_walk_line(walk);
        if (span->bytes > 0) return true; // an empty line is no row
    }
    return false;
}

// ------------------------------------------------------------------ fields

struct cell {
    const char *text;
    size_t bytes;
    bool escaped; // holds "" for a quote
};

/* The cell at *at, which moves behind the separator; *more: there was one. False: text after a quote. */
static bool next_cell(bool csv, const struct mt_row_span *span, size_t *at, struct cell *cell, bool *more)
{
    char separator = csv ? ',' : '\t';
    size_t next = *at;
    *cell = (struct cell){.text = span->text + next};
    if (csv && next < span->bytes && span->text[next] == '"') {
        cell->text++;
        next++;
        while (next < span->bytes) {
            bool quote = span->text[next] == '"';
            bool doubled = quote && next + 1 < span->bytes && span->text[next + 1] == '"';
            if (quote && !doubled) break;
            cell->escaped |= doubled;
            next += doubled ? 2 : 1;
        }
        cell->bytes = (size_t)(span->text + next - cell->text);
        next++;
        if (next < span->bytes && span->text[next] != separator) return false;
    } else {
        const char *end = memchr(cell->text, separator, span->bytes - next);
        cell->bytes = end != NULL ? (size_t)(end - cell->text) : span->bytes - next;
        next += cell->bytes;
    }
    *more = next < span->bytes;
    *at = next + 1;
    return true;
}

/* Appends a cell's text, "" become one quote. The list has the room. */
static void append_cell(struct mt_byte_list *list, const struct cell *cell)
{
    for (size_t i = 0; i < cell->bytes; i++) {
        list->data[list->count++] = (uint8_t)cell->text[i];
        if (cell->escaped && cell->text[i] == '"') i++;
    }
}

static enum mt_status add_column(struct mt_dataset *dataset, const struct cell *cell)
{
    enum mt_status status = MT_OK;
    dataset->columns = mt_list_reserve(dataset->ctx, dataset->columns, &dataset->column_capacity,
                                       sizeof *dataset->columns, dataset->column_count + 1, &status);
    if (status == MT_OK) status = mt_byte_list_reserve(&dataset->column_text, cell->bytes + 1);
    if (status != MT_OK) return status;
    dataset->columns[dataset->column_count] = dataset->column_text.count;
    append_cell(&dataset->column_text, cell);
    dataset->column_text.data[dataset->column_text.count++] = '\0';
    dataset->column_count++;
    return MT_OK;
}

static const char *column_name(const struct mt_dataset *dataset, size_t column)
{
    return (const char *)dataset->column_text.data + dataset->columns[column];
}

/* Names must differ; a table whose columns have none (an index column) may have one empty name. */
static enum mt_status check_columns(const struct mt_dataset *dataset, uint64_t line)
{
    for (size_t i = 0; i < dataset->column_count; i++) {
        for (size_t other = 0; other < i; other++) {
            if (strcmp(column_name(dataset, i), column_name(dataset, other)) != 0) continue;
            return mt_fail(
                dataset->ctx, MT_ERR_FORMAT,
                "%s:%llu: columns %zu and %zu are both named '%s' (is this line a row, and not the "
                "names? then name the columns)",
                dataset->path, (unsigned long long)line, other + 1, i + 1,
                mt_printable(column_name(dataset, i)).text);
        }
    }
    return MT_OK;
}

/* The names of the columns: those given, or the first row. */
static enum mt_status table_start(struct mt_dataset *dataset, struct mt_row_walk *walk)
{
    const char *given = dataset->options.columns;
    bool csv = given != NULL || is_csv(dataset);
    struct mt_row_span header = {.line = walk->line};
    if (given != NULL) {
        header.text = given;
        header.bytes = strlen(given);
    } else if (!table_next(dataset, walk, &header)) {
        return MT_OK; // an empty file: no columns, no rows
    }
    if (header.problem != NULL || header.bytes > dataset->options.max_row_bytes) {
        return mt_fail(dataset->ctx, MT_ERR_FORMAT, "%s:%llu: %s", dataset->path,
                       (unsigned long long)header.line,
                       header.problem != NULL ? header.problem : "the names of the columns are too long");
    }
    enum mt_status status = MT_OK;
    size_t at = 0;
    bool more = true;
    while (status == MT_OK && more) {
        struct cell cell = {0};
        if (dataset->column_count == MOST_COLUMNS) {
            return mt_fail(dataset->ctx, MT_ERR_FORMAT, "%s:%llu: more than %d columns", dataset->path,
                           (unsigned long long)header.line, MOST_COLUMNS);
        }
        if (!next_cell(csv, &header, &at, &cell, &more)) {
            return mt_fail(dataset->ctx, MT_ERR_FORMAT, "%s:%llu: text after a closing quote in column %zu",
                           dataset->path, (unsigned long long)header.line, dataset->column_count + 1);
        }
        status = add_column(dataset, &cell);
    }
    return status == MT_OK ? check_columns(dataset, header.line) : status;
}

static enum mt_status table_parse(const struct mt_dataset *dataset, const struct mt_row_span *span,
                                  struct mt_row *row)
{
    // All cells fit where the row fits, so that the storage does not move while fields point into it.
    enum mt_status status = mt_byte_list_reserve(&row->storage, span->bytes);
    size_t at = 0;
    bool more = true;
    for (size_t column = 0; status == MT_OK && more; column++) {
        struct cell cell = {0};
        struct mt_row_field *field = NULL;
        if (column == dataset->column_count) {
            return mt_row_fail(row, "more fields than the %zu columns", dataset->column_count);
        }
        if (!next_cell(is_csv(dataset), span, &at, &cell, &more)) {
            return mt_row_fail(row, "text after a closing quote in column %zu", column + 1);
        }
        status = mt_row_add_field(row, column_name(dataset, column), &field);
        if (status != MT_OK) break;
        field->text = cell.text;
        field->bytes = cell.bytes;
        if (!cell.escaped) continue;
        size_t start = row->storage.count;
        append_cell(&row->storage, &cell);
        field->text = (const char *)row->storage.data + start;
        field->bytes = row->storage.count - start;
    }
    if (status == MT_OK && row->field_count < dataset->column_count) {
        return mt_row_fail(row, "%s, but there are %zu columns",
                           mt_counted(row->field_count, "field", "fields").text, dataset->column_count);
    }
    return status;
}

const struct mt_dataset_reader mt_dataset_csv = {
    .name = "csv", .endings = {".csv"}, .start = table_start, .next = table_next, .parse = table_parse};
const struct mt_dataset_reader mt_dataset_tsv = {
    .name = "tsv", .endings = {".tsv"}, .start = table_start, .next = table_next, .parse = table_parse};
