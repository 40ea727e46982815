/*
 * Units and other words behind a value. "square inches", "inches^2" and "in^2" are the same; 1 m is 100 cm;
 * million is a factor, not a unit; "or more" says something about the value.
 */
#ifndef MT_EVAL_MATH_UNITS_H
#define MT_EVAL_MATH_UNITS_H

#include "eval/math/rational.h"

#define MT_UNIT_PARTS 6

struct mt_unit_part {
    char name[24]; // of the quantity for a known unit ("length"), else the word, lower case, singular
    int power;
};

struct mt_unit {
    struct mt_unit_part parts[MT_UNIT_PARTS]; // by name
    int count;
    struct mt_rational scale;  // of the unit in its quantity's own
    struct mt_rational factor; // of words such as million
    bool binding;              // may not be left off
};

/* True for a unit or a factor that is known. Letters that are often variables count only `behind` a number.
 */
bool mt_unit_is_word(const char *word, size_t bytes, bool behind);

/* Reads the words behind a value into a zeroed unit, whose scale and factor are set already; more than one
 * text may follow. */
void mt_unit_read(struct mt_numbers *numbers, const char *text, struct mt_unit *unit);

/* The same quantity; words for things that are counted ("ways", "units") are like any other. */
bool mt_unit_same(const struct mt_unit *a, const struct mt_unit *b);

#endif
