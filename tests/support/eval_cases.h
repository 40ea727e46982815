/* Cases of tests/eval/cases: files of rows, labelled by hand. */
#ifndef MT_TEST_EVAL_CASES_H
#define MT_TEST_EVAL_CASES_H

#include "eval/prompt.h"

/* Opens a file of cases that has at least so many, or fails the test; the caller closes. */
struct mt_dataset *eval_cases_open(struct mt_context *ctx, const char *name, uint64_t least);

/* A text of a case. */
struct mt_text eval_case_text(const struct mt_row *row, const char *name);

/* A text of the program. */
struct mt_text text_of(const char *text);

#endif
