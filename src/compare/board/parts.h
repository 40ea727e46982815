/* What the parts of a leaderboard's page share. */
#ifndef MT_COMPARE_BOARD_PARTS_H
#define MT_COMPARE_BOARD_PARTS_H

#include "compare/board/cells.h"
#include "report/page.h"

#define MT_BOARD_SEEDS       1024 // of one row
#define MT_BOARD_ALL_DOMAINS "all domains"

/* What a row is of; domain NULL: the mean over domains. */
struct mt_board_row {
    const char *source, *base, *domain, *method;
};

bool mt_board_is_of(const struct mt_board_cell *cell, const struct mt_board_row *row);

/* Cells of the same base in the same file: what is ranked together, domain by domain. */
bool mt_board_is_beside(const struct mt_board_cell *cell, const struct mt_board_row *row);

/* Domains of a base in a file. */
size_t mt_board_domains(const struct mt_board *board, const struct mt_board_row *row);

/* What every figure of the page needs. */
struct mt_board_page {
    const struct mt_board *board;
    struct mt_page *page;
    bool sources;                    // there are several: a column names them
    size_t column[MT_BOARD_METRICS]; // metrics of the table at hand
    size_t columns;
};

/* The verdict with its picture, and what was compared. */
void mt_board_add_head(const struct mt_board_page *s);

/* At the end: which comparison is which file. */
void mt_board_add_files(const struct mt_board_page *s);

#endif
