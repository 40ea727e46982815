/* Cases of tests/eval/cases: files of rows, labelled by hand; and rules that score answers to rows. */
#ifndef MT_TEST_EVAL_CASES_H
#define MT_TEST_EVAL_CASES_H

#include "eval/tasks/prompt.h"

/*
 * Asserts that a file has at least so many cases, and that each is judged right; `right` prints what differs
 * where it is not.
 */
void eval_cases_check(const char *name, uint64_t least,
                      bool (*right)(struct mt_context *ctx, const struct mt_row *row));

/* A text of a case. */
struct mt_text eval_case_text(const struct mt_row *row, const char *name);

/* A text of the program. */
struct mt_text text_of(const char *text);

/* As eval/livebench/livebench.h has them. */
typedef enum mt_status (*eval_rule)(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                                    double *score);

/* Scores an answer to the only row of a text. */
enum mt_status eval_rule_score(struct mt_context *ctx, eval_rule rule, const char *rows, const char *answer,
                               double *score);

/* Asserts that the row is refused, in a message with these words. */
void eval_rule_refuses(eval_rule rule, const char *rows, const char *words);

#endif
