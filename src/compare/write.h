/* compare.json: settings, every cell's figures, what is seen across them. docs/compare.md describes it. */
#ifndef MT_COMPARE_WRITE_H
#define MT_COMPARE_WRITE_H

#include "compare/compare.h"

/* Writes it. Numbers that differ from run to run stand apart, in lines that begin with "times". */
enum mt_status mt_comparison_write(const struct mt_comparison *comparison, const char *path);

#endif
