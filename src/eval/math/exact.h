/*
 * The exact value of a mathematical tree: a fraction of two polynomials whose terms are
 *
 *     rational · Π prime^(fraction between 0 and 1) · i^(0 or 1) · Π symbol^rational · Π atom^rational
 *
 * An atom is what has no such form: a function, a power with a variable in the exponent, the root of a sum.
 * Different terms without atoms are linearly independent over the rationals (roots of different products of
 * primes are; π, e and the variables are taken to be), so two values are equal exactly when cross-multiplying
 * leaves the same terms on both sides. Where atoms are left over, the difference is computed in double: all
 * that cancels exactly is gone by then, so that 10^20 + sin 1 is not 10^20 + 1 + sin 1.
 */
#ifndef MT_EVAL_MATH_EXACT_H
#define MT_EVAL_MATH_EXACT_H

#include "eval/math/tree.h"

#define MT_EXACT_FACTORS 8
#define MT_EXACT_ATOMS   64
#define MT_EXACT_ROOTS   32

struct mt_exact_power {
    int64_t over, under; // lowest terms, under > 0, both small
};

struct mt_exact_factor {
    int64_t key; // a prime, a number of `roots`, minus a symbol, or an atom
    struct mt_exact_power power;
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

/* What the forms of one comparison share. Forms are worth something only while numbers.failed is false. */
struct mt_exact {
    struct mt_numbers numbers;
    int sign;  // what ± means: 1 or -1
    int point; // 0: variables stay; else each is a rational number, another one at every point
    const struct mt_math_node *atoms[MT_EXACT_ATOMS];
    int atom_signs[MT_EXACT_ATOMS]; // what ± means in them
    int atom_count;
    struct mt_rational roots[MT_EXACT_ROOTS]; // without small primes, in pairs without a common divisor
    int root_count;
};

/* How two values compare. */
enum mt_exact_verdict {
    MT_EXACT_UNKNOWN, // no value, too large, or too much work
    MT_EXACT_EQUAL,
    MT_EXACT_UNEQUAL,
    MT_EXACT_CLOSE, // equal as far as double can tell
};

struct mt_exact_form mt_exact_of(struct mt_exact *exact, const struct mt_math_node *node);

enum mt_exact_verdict mt_exact_compare(struct mt_exact *exact, struct mt_exact_form a,
                                       struct mt_exact_form b);

/* True when a = c·b for a rational c that is not 0, both as polynomials: the same equation a = 0. */
bool mt_exact_same_zeros(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b);

struct mt_exact_form mt_exact_subtract(struct mt_exact *exact, struct mt_exact_form a,
                                       struct mt_exact_form b);

/* True when both are the same tree, node by node. */
bool mt_math_same_tree(const struct mt_math_node *a, const struct mt_math_node *b);

/* True for a tree with |...| in it. */
bool mt_math_has_size(const struct mt_math_node *node);

#endif
