/*
 * Tables of separated values, as pandas' read_csv takes them: the first line has the names; quotes count at a
 * field's beginning, and hold line ends and doubled quotes; lines without anything are left out. Where the
 * first row has more fields than there are names, the fields too many in front are row labels. A later row
 * may be shorter, but not longer than both.
 */
#include <string.h>

#include "eval/livebench/table.h"
#include "eval/livebench/text.h"

struct separated {
    struct mt_table *table;
    const char *at, *end;
    char delimiter;
    bool skip_spaces; // in front of a field
    struct mt_byte_list quoted;
};

static bool at_line_end(const struct separated *reader)
{
    return reader->at == reader->end || *reader->at == '\n' || *reader->at == '\r';
}

static void skip_line_end(struct separated *reader)
{
    if (reader->at < reader->end && *reader->at == '\r') reader->at++;
    if (reader->at < reader->end && *reader->at == '\n') reader->at++;
}

/* Skips lines without anything but white space; false: the text is over. White space in front goes, too. */
static bool find_line(struct separated *reader)
{
    while (reader->at < reader->end) {
        while (reader->at < reader->end && *reader->at != reader->delimiter &&
               (*reader->at == ' ' || *reader->at == '\t'))
            reader->at++;
        if (!at_line_end(reader)) return true;
        skip_line_end(reader);
    }
    return false;
}

/* Behind the opening quote. The table is broken where it never closes. */
static enum mt_status read_quoted(struct separated *reader)
{
    reader->quoted.count = 0;
    while (reader->at < reader->end) {
        const char *quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
        if (quote == NULL) break;
        enum mt_status status =
            mt_byte_list_append(&reader->quoted, reader->at, (size_t)(quote - reader->at));
        if (status != MT_OK) return status;
        reader->at = quote + 1;
        if (reader->at == reader->end || *reader->at != '"') return MT_OK;
        status = mt_byte_list_append(&reader->quoted, "\"", 1);
        if (status != MT_OK) return status;
        reader->at++;
    }
    reader->table->broken = true;
    return MT_OK;
}

/* The next field of a line, with the delimiter behind it; *last: the line ends there. */
static enum mt_status read_field(struct separated *reader, struct mt_text *field, bool *last)
{
    enum mt_status status = MT_OK;
    const char *copy = NULL;
    while (reader->skip_spaces && reader->at < reader->end && *reader->at == ' ') reader->at++;
    bool quoted = reader->at < reader->end && *reader->at == '"';
    if (quoted) {
        reader->at++;
        status = read_quoted(reader);
    }
    const char *start = reader->at;
    while (!at_line_end(reader) && *reader->at != reader->delimiter) reader->at++;
    *field = (struct mt_text){.text = start, .bytes = (size_t)(reader->at - start)};
    if (quoted && status == MT_OK) status = mt_byte_list_append(&reader->quoted, field->text, field->bytes);
    if (quoted && status == MT_OK && reader->quoted.count > 0)
        status = mt_arena_copy_text(&reader->table->arena, (const char *)reader->quoted.data,
                                    reader->quoted.count, &copy);
    if (copy != NULL) *field = (struct mt_text){.text = copy, .bytes = reader->quoted.count};
    *last = at_line_end(reader);
    if (*last) {
        skip_line_end(reader);
    } else {
        reader->at++;
    }
    return status;
}

static enum mt_status read_names(struct separated *reader)
{
    enum mt_status status = MT_OK;
    bool last = false;
    while (status == MT_OK && !last && !reader->table->broken) {
        struct mt_text name;
        status = read_field(reader, &name, &last);
        if (status == MT_OK) status = mt_table_add_column(reader->table, name);
    }
    return status;
}

/* Fields of the line in hand; the reader stays where it is. */
static enum mt_status count_fields(struct separated *reader, size_t *count)
{
    const char *start = reader->at;
    enum mt_status status = MT_OK;
    bool last = false;
    for (*count = 0; status == MT_OK && !last && !reader->table->broken; ++*count) {
        struct mt_text field;
        status = read_field(reader, &field, &last);
    }
    reader->at = start;
    return status;
}

/* The cells of one row behind its `labels`; the table is broken where there are too many. */
static enum mt_status read_row(struct separated *reader, size_t row, size_t labels)
{
    struct mt_table *table = reader->table;
    enum mt_status status = MT_OK;
    bool last = false;
    for (size_t i = 0; status == MT_OK && !last && !table->broken; i++) {
        struct mt_text field;
        status = read_field(reader, &field, &last);
        if (status != MT_OK || i < labels) continue;
        if (i - labels >= table->columns) {
            table->broken = true;
        } else {
            status = mt_table_put(table, row, i - labels,
                                  (struct mt_table_cell){.kind = MT_CELL_TEXT, .text = field});
        }
    }
    return status;
}

static enum mt_status read_rows(struct separated *reader)
{
    struct mt_table *table = reader->table;
    size_t labels = 0;
    size_t rows = 0;
    enum mt_status status = MT_OK;
    for (; status == MT_OK && !table->broken && find_line(reader); rows++) {
        if (rows == 0) {
            size_t fields = 0;
            status = count_fields(reader, &fields);
            labels = fields > table->columns ? fields - table->columns : 0;
        }
        if (status == MT_OK) status = read_row(reader, rows, labels);
    }
    return status == MT_OK ? mt_table_finish(table, rows) : status;
}

enum mt_status mt_table_read_separated(struct mt_table *table, struct mt_text text, char delimiter,
                                       bool skip_spaces)
{
    struct separated reader = {.table = table,
                               .at = text.text,
                               .end = text.text + text.bytes,
                               .delimiter = delimiter,
                               .skip_spaces = skip_spaces,
                               .quoted = {.ctx = table->ctx}};
    enum mt_status status = MT_OK;
    if (find_line(&reader)) {
        status = read_names(&reader);
    } else {
        table->broken = true;
    }
    if (status == MT_OK) status = read_rows(&reader);
    if (status == MT_OK && !table->broken) mt_table_infer_texts(table);
    mt_byte_list_free(&reader.quoted);
    return status;
}

// ------------------------------------------------------------------ Markdown

/* Leaves out the first and the last column, which bars at both ends of a line make. */
static void drop_outer_columns(struct mt_table *table)
{
    size_t kept = table->columns > 2 ? table->columns - 2 : 0;
    for (size_t row = 0; row < table->rows; row++) {
        for (size_t column = 0; column < kept; column++)
            table->cells[row * kept + column] = table->cells[row * table->columns + column + 1];
    }
    for (size_t column = 0; column < kept; column++) table->names[column] = table->names[column + 1];
    table->columns = kept;
    if (kept == 0) table->broken = true;
}

enum mt_status mt_table_read_markdown(struct mt_table *table, struct mt_text text)
{
    struct mt_text whole = mt_livebench_stripped(text);
    const char *end = whole.text + whole.bytes;
    const char *first = memchr(whole.text, '\n', whole.bytes);
    const char *second = first != NULL ? memchr(first + 1, '\n', (size_t)(end - first - 1)) : NULL;
    size_t header = first != NULL ? (size_t)(first - whole.text) + 1 : whole.bytes;
    struct mt_byte_list kept = {.ctx = table->ctx};
    const char *copy = NULL;
    enum mt_status status = mt_byte_list_append(&kept, whole.text, header);
    if (status == MT_OK && second != NULL)
        status = mt_byte_list_append(&kept, second + 1, (size_t)(end - second - 1));
    if (status == MT_OK)
        status = mt_arena_copy_text(&table->arena, (const char *)kept.data, kept.count, &copy);
    if (status == MT_OK)
        status =
            mt_table_read_separated(table, (struct mt_text){.text = copy, .bytes = kept.count}, '|', true);
    if (status == MT_OK && !table->broken) drop_outer_columns(table);
    mt_byte_list_free(&kept);
    return status;
}
