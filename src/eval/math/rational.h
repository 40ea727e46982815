/*
 * Exact fractions of whole numbers, by GMP. A value's digits lie in the arena and are only read, so a value
 * is copied freely and never freed. An operation that would need more than MT_RATIONAL_BITS, or more work
 * than is left, sets `failed` and gives 0: the caller looks once, at the end.
 *
 * GMP takes its short-lived memory from malloc and ends the process where there is none. With numbers this
 * small an operation needs some hundred kilobytes at most.
 */
#ifndef MT_EVAL_RATIONAL_H
#define MT_EVAL_RATIONAL_H

#include <gmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define MT_RATIONAL_BITS 32768 // of numerator and of denominator

struct mt_rational {
    __mpq_struct value; // lowest terms
};

/* Where numbers live, and what was made of them so far. */
struct mt_numbers {
    struct mt_arena *arena;
    enum mt_status status; // of memory
    bool failed;           // out of memory, too large, or a division by 0
    int64_t work;          // about the limbs read and written; the bound is mt_numbers_spend's
};

/* Counts work; false, and `failed`, when it was too much for one comparison. */
bool mt_numbers_spend(struct mt_numbers *numbers, int64_t work);

struct mt_rational mt_rational_make(struct mt_numbers *numbers, int64_t over, int64_t under);

/* The same for a whole number of any size. */
struct mt_rational mt_rational_from(struct mt_numbers *numbers, mpz_srcptr whole);

/* Digits alone, times ten to the `shift`. */
struct mt_rational mt_rational_read(struct mt_numbers *numbers, const char *digits, int64_t shift);

struct mt_rational mt_rational_add(struct mt_numbers *numbers, struct mt_rational a, struct mt_rational b);
struct mt_rational mt_rational_multiply(struct mt_numbers *numbers, struct mt_rational a,
                                        struct mt_rational b);
struct mt_rational mt_rational_divide(struct mt_numbers *numbers, struct mt_rational a, struct mt_rational b);
struct mt_rational mt_rational_power(struct mt_numbers *numbers, struct mt_rational base, int64_t exponent);
struct mt_rational mt_rational_factorial(struct mt_numbers *numbers, int64_t n);
struct mt_rational mt_rational_choose(struct mt_numbers *numbers, int64_t n, int64_t k); // both >= 0

bool mt_rational_equal(const struct mt_rational *a, const struct mt_rational *b);
int mt_rational_sign(const struct mt_rational *a); // -1, 0, 1

/* True, and the value, for a whole number that fits. */
bool mt_rational_small(const struct mt_rational *a, int64_t *value);

/* The nearest double towards 0; infinite when there is none. */
double mt_rational_double(const struct mt_rational *a);

#endif
