/* The value of a mathematical tree in double, for what has no exact form. */
#ifndef MT_EVAL_MATH_NUMERIC_H
#define MT_EVAL_MATH_NUMERIC_H

#include <complex.h>

#include "eval/math/parse.h"

#define MT_NUMERIC_POINTS 5

/*
 * The value with every variable set to a number of its own, different for each `point`; ± means `sign`.
 * False: the tree has no value (a list, words), or none at this point. `varies` is set when a variable was
 * met.
 */
bool mt_numeric_of(const struct mt_math_node *node, int point, int sign, bool *varies, double complex *value);

/* Equal as far as double can tell. */
bool mt_numeric_close(double complex a, double complex b);

#endif
