/* Aligned columns; widths are counted in terminal columns, not bytes. */
#include "cli/shared/table.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "base/columns.h"
#include "formats/text/json_text.h"

#define FIRST_ROWS 16
#define GAP        2  // spaces between columns
#define LEAST_TEXT 24 // columns that a text can be read in

void cli_table_init(struct cli_table *table, struct mt_context *ctx, const struct cli_column *columns,
                    int column_count)
{
    assert(column_count <= CLI_TABLE_COLUMNS);
    *table = (struct cli_table){.ctx = ctx, .columns = columns, .column_count = column_count};
}

static size_t rows_bytes(const struct cli_table *table, int rows)
{
    return (size_t)rows * (size_t)table->column_count * CLI_CELL_BYTES;
}

static char *cell(const struct cli_table *table, int row, int column)
{
    return table->cells + rows_bytes(table, row) + (size_t)column * CLI_CELL_BYTES;
}

void cli_table_row(struct cli_table *table, const char *const *cells)
{
    if (table->status == MT_OK && table->row_count == table->row_capacity) {
        int capacity = table->row_capacity > 0 ? table->row_capacity * 2 : FIRST_ROWS;
        void *block = table->cells;
        table->status = mt_reallocate(table->ctx, rows_bytes(table, table->row_capacity),
                                      rows_bytes(table, capacity), &block);
        table->cells = block;
        if (table->status == MT_OK) table->row_capacity = capacity;
    }
    if (table->status != MT_OK) return;
    for (int column = 0; column < table->column_count; column++) {
        (void)mt_columns_copy(cell(table, table->row_count, column), CLI_CELL_BYTES,
                              cells[column] != NULL ? cells[column] : "", INT_MAX, true);
    }
    table->row_count += 1;
}

void cli_table_add(struct cli_table *table, const char *format, ...)
{
    char row[CLI_TABLE_COLUMNS * CLI_CELL_BYTES];
    const char *cells[CLI_TABLE_COLUMNS] = {row};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(row, sizeof row, format, arguments);
    va_end(arguments);
    char *tab = strchr(row, '\t');
    for (int column = 1; column < table->column_count && tab != NULL; column++) {
        *tab = '\0';
        cells[column] = tab + 1;
        tab = strchr(tab + 1, '\t');
    }
    if (tab != NULL) *tab = '\0'; // more cells than columns
    cli_table_row(table, cells);
}

static int text_columns(const char *text)
{
    char copy[CLI_CELL_BYTES];
    return mt_columns_copy(copy, sizeof copy, text, INT_MAX, true);
}

static int column_width(const struct cli_table *table, int column)
{
    int width = text_columns(table->columns[column].title);
    for (int row = 0; row < table->row_count; row++) {
        int columns = text_columns(cell(table, row, column));
        if (columns > width) width = columns;
    }
    return width;
}

// ------------------------------------------------------------------ cells that are wider than their column

/* Takes what fits `width` columns off the front of a text: up to a space, or after a sign that joins words.
 */
static int take_piece(const char **rest, int width, char piece[CLI_CELL_BYTES])
{
    int columns = mt_columns_copy(piece, CLI_CELL_BYTES, *rest, width, true);
    size_t bytes = strlen(piece);
    if (bytes == 0) columns = mt_columns_copy(piece, CLI_CELL_BYTES, *rest, 2, true); // wider than the column
    if (bytes == 0) bytes = strlen(piece);
    size_t whole = bytes;
    while ((*rest)[bytes] != '\0' && whole > 0 && (*rest)[whole] != ' ' &&
           strchr("|,/", piece[whole - 1]) == NULL)
        whole--;
    if (whole > 0 && whole < bytes) {
        piece[whole] = '\0';
        bytes = whole;
        columns = text_columns(piece);
    }
    *rest += bytes;
    while (**rest == ' ') *rest += 1;
    return columns;
}

/* The columns of a table that are printed beside each other. */
struct part {
    int column[CLI_TABLE_COLUMNS];
    int count;
};

/*
 * Prints a row of cells, -1: the titles, in as many lines as the longest text takes. Spaces wait for the text
 * after them: none end a line.
 */
static void print_row(const struct cli_table *table, FILE *stream, const struct part *part, const int *widths,
                      int row)
{
    const char *rest[CLI_TABLE_COLUMNS];
    bool more = true;
    for (int i = 0; i < part->count; i++) {
        int column = part->column[i];
        rest[i] = row < 0 ? table->columns[column].title : cell(table, row, column);
    }
    while (more) {
        int spaces = 0;
        more = false;
        for (int i = 0; i < part->count; i++) {
            char piece[CLI_CELL_BYTES];
            int column = part->column[i];
            int padding = widths[column] - take_piece(&rest[i], widths[column], piece);
            if (table->columns[column].right) spaces += padding;
            if (piece[0] != '\0') {
                (void)fprintf(stream, "%*s%s", spaces, "", piece);
                spaces = 0;
            }
            if (!table->columns[column].right) spaces += padding;
            spaces += GAP;
            more = more || *rest[i] != '\0';
        }
        (void)fputc('\n', stream);
    }
}

static void print_part(const struct cli_table *table, FILE *stream, const struct part *part,
                       const int *widths)
{
    for (int row = -1; row < table->row_count; row++) print_row(table, stream, part, widths, row);
}

// ------------------------------------------------------------------ a terminal that is narrower than the
// table

static int table_width(const struct cli_table *table, const int *widths)
{
    int width = -GAP;
    for (int column = 0; column < table->column_count; column++) width += widths[column] + GAP;
    return width;
}

/* Makes columns of text narrower, the widest first, until the table fits; the first has names, which stay. */
static bool make_fit(const struct cli_table *table, int *widths, int limit)
{
    while (table_width(table, widths) > limit) {
        int widest = 0;
        for (int column = 1; column < table->column_count; column++) {
            if (table->columns[column].right) continue;
            if (widest == 0 || widths[column] > widths[widest]) widest = column;
        }
        if (widest == 0 || widths[widest] <= LEAST_TEXT) return false;
        widths[widest]--;
    }
    return true;
}

/* Numbers: the table in parts, one below the other, each with the first column. */
static void print_parts(const struct cli_table *table, FILE *stream, const int *widths, int limit)
{
    for (int next = 1; next < table->column_count;) {
        struct part part = {.column = {0}, .count = 1};
        int width = widths[0];
        if (next > 1) (void)fputc('\n', stream);
        do {
            width += GAP + widths[next];
            part.column[part.count++] = next++;
        } while (next < table->column_count && width + GAP + widths[next] <= limit);
        print_part(table, stream, &part, widths);
    }
}

/* Texts: every row as lines of title and text below the first cell. */
static void print_stacked(const struct cli_table *table, FILE *stream, int limit)
{
    int label = 0;
    for (int column = 1; column < table->column_count; column++) {
        int columns = text_columns(table->columns[column].title);
        if (columns > label) label = columns;
    }
    int room = limit - label - 2 * GAP;
    for (int row = 0; row < table->row_count; row++) {
        if (cell(table, row, 0)[0] != '\0') (void)fprintf(stream, "%s\n", cell(table, row, 0));
        for (int column = 1; column < table->column_count; column++) {
            const char *title = table->columns[column].title;
            const char *rest = cell(table, row, column);
            while (*rest != '\0') {
                char piece[CLI_CELL_BYTES];
                (void)take_piece(&rest, room > LEAST_TEXT ? room : LEAST_TEXT, piece);
                (void)fprintf(stream, "%*s%s%*s%s\n", GAP, "", title, label - text_columns(title) + GAP, "",
                              piece);
                title = "";
            }
        }
    }
}

enum mt_status cli_table_print(struct cli_table *table, FILE *stream)
{
    int widths[CLI_TABLE_COLUMNS];
    struct part all = {.count = table->column_count};
    bool texts = false;
    int limit = mt_columns_of_terminal(stream) - 1; // the last column stays free: some terminals wrap there
    for (int column = 0; column < table->column_count; column++) {
        widths[column] = column_width(table, column);
        all.column[column] = column;
        texts = texts || (column > 0 && !table->columns[column].right);
    }
    bool whole = table->status == MT_OK;
    if (whole && (limit < 0 || make_fit(table, widths, limit)))
        print_part(table, stream, &all, widths);
    else if (whole && texts)
        print_stacked(table, stream, limit);
    else if (whole)
        print_parts(table, stream, widths, limit);
    mt_release(table->ctx, table->cells, rows_bytes(table, table->row_capacity));
    enum mt_status status = table->status;
    cli_table_init(table, table->ctx, table->columns, table->column_count);
    return status;
}

// ------------------------------------------------------------------ lines

void cli_print_text(int indent, const char *text)
{
    char piece[CLI_CELL_BYTES];
    int room = mt_columns_of_terminal(stdout) - 1 - indent;
    while (room >= LEAST_TEXT && (int)strlen(text) > room) {
        (void)take_piece(&text, room < CLI_CELL_BYTES ? room : CLI_CELL_BYTES - 1, piece);
        printf(*text != '\0' ? "%s\n%*s" : "%s", piece, indent, "");
    }
    printf("%s\n", text);
}

enum mt_status cli_print_keys(const struct mt_keys *keys, int width)
{
    struct mt_key key = {0};
    while (mt_key_next(keys, &key)) {
        char second[512];
        (void)snprintf(second, sizeof second, "%s; default %s", key.row->values, key.standard);
        int taken = printf("%-*s ", width, key.name);
        cli_print_text(taken, key.row->meaning);
        printf("%-*s   ", width, "");
        cli_print_text(width + 3, second);
    }
    return MT_OK;
}

enum mt_status cli_print_schema(struct mt_context *ctx, const struct mt_keys *keys, const char *title)
{
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    enum mt_status status = mt_keys_schema(keys, title, &text);
    if (status == MT_OK) (void)fwrite(text.bytes, 1, text.length, stdout);
    mt_json_text_free(&text);
    return status;
}
