/* What all cells need before the first: files of built-in problems, and the device. */
#ifndef MT_COMPARE_PREPARE_H
#define MT_COMPARE_PREPARE_H

#include "compare/compare.h"

/* Writes OUT/data, as far as it is not there. */
enum mt_status mt_comparison_write_problems(const struct mt_cell_job *job);

/* Reads OUT/device: what the cells that are there were computed on; "" where there is none. */
enum mt_status mt_comparison_read_device(struct mt_comparison *comparison);

/* Cells are compared with each other: all are computed on one device, by whatever command. Notes it. */
enum mt_status mt_comparison_choose_device(struct mt_comparison *comparison, FILE *terminal);

#endif
