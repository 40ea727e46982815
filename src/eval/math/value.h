/*
 * The value of a tree at a point, where every variable is a number. Fractions, complex ones too, stay exact.
 * Roots, logarithms and the like are computed to about MT_VALUE_BITS, with a bound on their error; what is
 * whole as far as this tells is taken to be. Two trees are equal where they are at several points.
 */
#ifndef MT_EVAL_MATH_VALUE_H
#define MT_EVAL_MATH_VALUE_H

#include "eval/math/tree.h"

#define MT_MATH_POINTS  6 // at which values are compared; whole numbers at the first three
#define MT_VALUE_BITS   512
#define MT_VALUE_EXACT  INT64_MIN
#define MT_VALUE_LOOSE  (-192) // a larger error than 2^this is no value
#define MT_VALUE_MARGIN 32     // bits by which errors may be larger than their bound, which adds nothing up

struct mt_value {
    struct mt_rational re, im;
    int64_t error; // less than 2^error; or MT_VALUE_EXACT
};

/* Where a tree gets its value. Values live in the arena, and only while numbers.failed is false. */
struct mt_math_point {
    struct mt_numbers numbers;
    int index;
    int sign;  // what ± means: 1 or -1
    bool real; // a logarithm or root of a negative number has no value
};

/* False, and numbers.failed: none here, too large, not close enough, or too much work. */
bool mt_math_value_at(struct mt_math_point *point, const struct mt_math_node *node, struct mt_value *value);

/* True for a tree with a variable in it. */
bool mt_math_varies(const struct mt_math_node *node);

/* The real part at the first point. False: none, or *status is set. */
bool mt_math_number(struct mt_arena *arena, enum mt_status *status, const struct mt_math_node *node,
                    double *number);

/* e^z, and the logarithm between -πi and πi of what is not 0. */
struct mt_value mt_value_exp(struct mt_numbers *numbers, const struct mt_value *z);
struct mt_value mt_value_log(struct mt_numbers *numbers, const struct mt_value *z);

/* Both are below 2^this, and one is not below a quarter of it; 0 is below anything. */
int64_t mt_value_size(const struct mt_value *z);

/* The same as far as the errors tell. */
bool mt_value_same(struct mt_numbers *numbers, const struct mt_value *a, const struct mt_value *b);

bool mt_value_is_zero(const struct mt_value *z);
struct mt_value mt_value_subtract(struct mt_numbers *numbers, const struct mt_value *a,
                                  const struct mt_value *b);
struct mt_value mt_value_multiply(struct mt_numbers *numbers, const struct mt_value *a,
                                  const struct mt_value *b);

#endif
