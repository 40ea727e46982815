/* A table of short texts, printed with aligned columns once all of it is known. */
#ifndef MT_CLI_TABLE_H
#define MT_CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "metier/context.h"

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
};

/* Prepares a caller-owned, empty table. */
void cli_table_init(struct cli_table *table, struct mt_context *ctx, const struct cli_column *columns,
                    int column_count);

/* Appends a row of column_count texts, which are copied; NULL leaves a cell empty. */
enum mt_status cli_table_row(struct cli_table *table, const char *const *cells);

/*
 * Prints titles and rows. Columns are as wide as their widest text, two spaces apart. On a terminal that is
 * narrower texts go on below; where that is not enough, rows of texts become lines of title and text, and
 * columns of numbers that have no room come below the others.
 */
void cli_table_print(const struct cli_table *table, FILE *stream);

/* Frees the rows. */
void cli_table_free(struct cli_table *table);

#endif
