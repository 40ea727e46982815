/* cell.json: what was measured of a cell, written and read back. */
#ifndef MT_COMPARE_CELL_FILE_H
#define MT_COMPARE_CELL_FILE_H

#include "compare/cell.h"

/* Writes cell->result; `identity`: checksum of the settings it was made under. */
enum mt_status mt_cell_file_write(const struct mt_cell_job *job, const struct mt_cell *cell,
                                  const char *identity);

/* Reads it, if it is there; refuses one of another identity. */
enum mt_status mt_cell_file_read(const struct mt_cell_job *job, struct mt_cell *cell, const char *identity);

#endif
