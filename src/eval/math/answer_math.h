/*
 * Whether two answers to a mathematical question are the same: \frac{1}{2}, 0.5, 1/2 and 50\% are, 0.33 and
 * 1/3 are not. Decided by their values at several points (math/value.h), for words and what is not
 * mathematics by their letters.
 *
 * What answers leave open is read kindly: a unit, a base or a percent sign that only one side has, "x ="
 * before a value, the order of a set or of a bare list. Two different units, the order of a pair, and the
 * kind of an interval's brackets count.
 */
#ifndef MT_EVAL_ANSWER_MATH_H
#define MT_EVAL_ANSWER_MATH_H

#include <stdbool.h>
#include <stddef.h>

#include "metier/context.h"

enum mt_status mt_math_compare(struct mt_context *ctx, const char *one, size_t one_bytes, const char *other,
                               size_t other_bytes, bool *equal);

#endif
