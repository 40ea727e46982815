/* The levels of the parser that call each other: a list (math/parse_lists.c) of relations of sums
 * (math/parse.c).
 */
#ifndef MT_EVAL_MATH_PARSE_H
#define MT_EVAL_MATH_PARSE_H

#include "eval/math/lex.h"

struct mt_math_node *mt_parse_list(struct mt_math_parser *parser);
struct mt_math_node *mt_parse_relation(struct mt_math_parser *parser);
struct mt_math_node *mt_parse_sum(struct mt_math_parser *parser);

/* What stands behind the bar of a set, {chosen | ...}: what the set is. */
struct mt_math_node *mt_parse_such_that(struct mt_math_parser *parser, struct mt_math_node *chosen);

bool mt_token_spells(const struct mt_math_token *token, const char *word);

/* "and", "or" and the like: they stand between answers, and are no unit. */
bool mt_token_joins(const struct mt_math_token *token);

#endif
