/* metier compare --dry-run. */
#ifndef MT_CLI_COMPARE_PLAN_H
#define MT_CLI_COMPARE_PLAN_H

#include "compare/compare.h"

/* Prints what would be trained and measured, and what it needs; nothing below OUT is touched. */
enum mt_status cli_compare_print_plan(struct mt_comparison *comparison);

#endif
