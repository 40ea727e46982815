/* Built-in problems as a comparison's files: OUT/data/train-DOMAIN.jsonl and test-DOMAIN.jsonl. */
#ifndef MT_COMPARE_PROBLEMS_H
#define MT_COMPARE_PROBLEMS_H

#include "compare/cell.h"

/* Writes those that are not there. */
enum mt_status mt_compare_write_problems(const struct mt_cell_job *job);

#endif
