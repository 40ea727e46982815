/* Texts that fit the terminal: tables with aligned columns, printed once all of it is known, and lines. */
#ifndef MT_CLI_TABLE_H
#define MT_CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/keys/keys.h"

#define CLI_TABLE_COLUMNS 12  // at the most
#define CLI_CELL_BYTES    192 // of a cell with its NUL; a longer text is cut

struct cli_column {
    const char *title;
    bool right; // numbers: aligned at their end
};

struct cli_table {
    struct mt_context *ctx;           // borrowed
    const struct cli_column *columns; // borrowed
    int column_count;
    char *cells; // owned: [row_capacity][column_count][CLI_CELL_BYTES]
    int row_count;
    int row_capacity;
    enum mt_status status; // the first failure: no row is added after it
};

/* Prepares a caller-owned, empty table. */
void cli_table_init(struct cli_table *table, struct mt_context *ctx, const struct cli_column *columns,
                    int column_count);

/* Appends a row of column_count texts, which are copied; NULL leaves a cell empty. */
void cli_table_row(struct cli_table *table, const char *const *cells);

/* The same of texts as printf makes them, with a tab between cells: "%s\t%d". Cells that are missing are
 * empty. */
void cli_table_add(struct cli_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Prints titles and rows, unless one could not be added, and frees the rows. Columns are as wide as their
 * widest text, two spaces apart. On a terminal that is narrower texts go on below; where that is not enough,
 * rows of texts become lines of title and text, and columns of numbers that have no room come below the
 * others.
 */
enum mt_status cli_table_print(struct cli_table *table, FILE *stream);

/* Prints a text and ends the line, of which `indent` columns are taken. On a terminal that is narrower than
 * the text it goes on below, as far in. */
void cli_print_text(int indent, const char *text);

/* Two lines for each key of a file: its name, padded to `width` columns, and meaning; values and default. */
enum mt_status cli_print_keys(const struct mt_keys *keys, int width);

/* A JSON Schema of them, for editors. */
enum mt_status cli_print_schema(struct mt_context *ctx, const struct mt_keys *keys, const char *title);

#endif
