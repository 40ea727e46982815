/* Aligned columns; widths are counted in terminal columns, not bytes. */
#include "cli/table.h"

#include <assert.h>
#include <limits.h>

#include "base/columns.h"

#define FIRST_ROWS 16
#define GAP        2 // spaces between columns

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

enum mt_status cli_table_row(struct cli_table *table, const char *const *cells)
{
    if (table->row_count == table->row_capacity) {
        int capacity = table->row_capacity > 0 ? table->row_capacity * 2 : FIRST_ROWS;
        void *block = table->cells;
        enum mt_status status = mt_reallocate(table->ctx, rows_bytes(table, table->row_capacity),
                                              rows_bytes(table, capacity), &block);
        if (status != MT_OK) return status;
        table->cells = block;
        table->row_capacity = capacity;
    }
    for (int column = 0; column < table->column_count; column++) {
        (void)mt_columns_copy(cell(table, table->row_count, column), CLI_CELL_BYTES,
                              cells[column] != NULL ? cells[column] : "", INT_MAX, true);
    }
    table->row_count += 1;
    return MT_OK;
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

/* Prints a line of cells; row -1 is the titles. Spaces wait for the text after them: none end a line. */
static void print_line(const struct cli_table *table, FILE *stream, const int *widths, int row)
{
    int spaces = 0;
    for (int column = 0; column < table->column_count; column++) {
        const char *text = row < 0 ? table->columns[column].title : cell(table, row, column);
        int padding = widths[column] - text_columns(text);
        if (table->columns[column].right) spaces += padding;
        if (text[0] != '\0') {
            (void)fprintf(stream, "%*s%s", spaces, "", text);
            spaces = 0;
        }
        if (!table->columns[column].right) spaces += padding;
        spaces += GAP;
    }
    (void)fputc('\n', stream);
}

void cli_table_print(const struct cli_table *table, FILE *stream)
{
    int widths[CLI_TABLE_COLUMNS];
    for (int column = 0; column < table->column_count; column++) widths[column] = column_width(table, column);
    for (int row = -1; row < table->row_count; row++) print_line(table, stream, widths, row);
}

void cli_table_free(struct cli_table *table)
{
    mt_release(table->ctx, table->cells, rows_bytes(table, table->row_capacity));
    table->cells = NULL;
    table->row_count = 0;
    table->row_capacity = 0;
}
