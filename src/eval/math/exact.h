/*
 * The exact value of a mathematical tree: a fraction of two polynomials whose terms are
 *
 *     rational · Π prime^(fraction between 0 and 1) · i^(0 or 1) · Π symbol^rational
 *
 * Different terms of this kind are linearly independent over the rationals (roots of different products of
 * primes are; π, e and the variables are taken to be), so two values are equal exactly when cross-multiplying
 * leaves the same terms on both sides. What does not fit (functions, sums under a root, numbers too large,
 * too many terms) is "not exact", and the caller compares numbers instead.
 */
#ifndef MT_EVAL_MATH_EXACT_H
#define MT_EVAL_MATH_EXACT_H

#include "eval/math/tree.h"

#define MT_EXACT_FACTORS 8

struct mt_exact_factor {
    int64_t key; // > 0: a prime; < 0: minus the symbol
    struct mt_rational power;
};

struct mt_exact_term {
    struct mt_rational scale;                         // not 0
    struct mt_exact_factor factors[MT_EXACT_FACTORS]; // by key
    int count;
};

struct mt_polynomial {
    const struct mt_exact_term *terms; // in order of their factors, no two with the same
    int count;                         // 0: zero
};

struct mt_exact_form {
    struct mt_polynomial over;
    struct mt_polynomial under; // not zero
};

/* What a computation carries along: memory, and whether it still can be exact. */
struct mt_exact {
    struct mt_arena *arena;
    int sign;              // what ± means: 1 or -1
    bool failed;           // not exact
    enum mt_status status; // of memory
    long work;             // terms multiplied so far
};

/* The form of a tree; worth something only while exact->failed is false. */
struct mt_exact_form mt_exact_of(struct mt_exact *exact, const struct mt_math_node *node);

bool mt_exact_equal(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b);

/* True when a = c·b for a rational c that is not 0, both as polynomials: the same equation a = 0. */
bool mt_exact_same_zeros(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b);

struct mt_exact_form mt_exact_subtract(struct mt_exact *exact, struct mt_exact_form a,
                                       struct mt_exact_form b);

#endif
