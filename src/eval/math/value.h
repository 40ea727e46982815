/* The value of a tree in double, for what has no exact form: functions of numbers and of variables. */
#ifndef MT_EVAL_MATH_VALUE_H
#define MT_EVAL_MATH_VALUE_H

#include <complex.h>

#include "eval/math/tree.h"

#define MT_MATH_POINTS 7 // at which values are compared

/* The number a symbol stands for at a point: π, e and i are the same everywhere. */
double complex mt_math_symbol_value(int64_t symbol, int point);

/*
 * The value with every variable set to a number of its own, different for each `point`; ± means `sign`.
 * False: the tree has no value (a list, words), or none at this point.
 */
bool mt_math_value_at(const struct mt_math_node *node, int point, int sign, double complex *value);

/* The same, false also where a logarithm or a root on the way is of a negative number. */
bool mt_math_real_at(const struct mt_math_node *node, int point, int sign, double complex *value);

/* Equal as far as double can tell, where the largest of what was added up is `size`. */
bool mt_math_is_close(double complex a, double complex b, double size);

#endif
