/*
 * Rows that the models of a comparison have read, as far as their folders say so (rows_read.hashes): they are
 * drawn by nobody, and refused in files, unless settings.allow_read_rows.
 */
#ifndef MT_COMPARE_READ_ROWS_H
#define MT_COMPARE_READ_ROWS_H

#include "compare/compare.h"
#include "formats/data/row_hashes.h"

/* Adds those of all models; nothing where they are allowed. */
enum mt_status mt_read_rows_add(const struct mt_cell_job *job, struct mt_row_hashes *rows);

/*
 * Refuses rows that a model has read in what its cells are still to be trained on. `given`: in files that the
 * settings name, before anything is written; else in those of OUT/data.
 */
enum mt_status mt_read_rows_check(const struct mt_comparison *comparison, bool given);

#endif
