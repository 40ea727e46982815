/*
 * Fractions of whole numbers, exact or refused: numerator and denominator stay below 2^120, and an operation
 * that would leave that range says so instead of rounding.
 */
#ifndef MT_EVAL_RATIONAL_H
#define MT_EVAL_RATIONAL_H

#include <stdbool.h>
#include <stdint.h>

struct mt_rational {
    __int128 over;  // lowest terms
    __int128 under; // > 0
};

struct mt_rational mt_rational_whole(int64_t value);

/* over/under in lowest terms; false: under is 0, or a number too large. */
bool mt_rational_make(__int128 over, __int128 under, struct mt_rational *result);

/* False: the result is too large, or a division by 0. */
bool mt_rational_add(struct mt_rational a, struct mt_rational b, struct mt_rational *result);
bool mt_rational_multiply(struct mt_rational a, struct mt_rational b, struct mt_rational *result);
bool mt_rational_divide(struct mt_rational a, struct mt_rational b, struct mt_rational *result);
bool mt_rational_power(struct mt_rational base, int exponent, struct mt_rational *result);

bool mt_rational_equal(struct mt_rational a, struct mt_rational b);
bool mt_rational_is_whole(struct mt_rational a);
int mt_rational_sign(struct mt_rational a); // -1, 0, 1

#endif
