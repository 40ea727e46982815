/* Numbers as prose writes them: "1,024", "10 000", "\frac56", "$1 million", "twenty-four". */
#ifndef MT_EVAL_NUMBER_H
#define MT_EVAL_NUMBER_H

#include <ctype.h>

#include "eval/text.h"

#define MT_FACTOR_BYTES 32

/* A number as it stands in a text. */
struct mt_number {
    size_t start, end; // with its sign
    size_t digits;     // where they begin
    size_t fraction;   // where the one behind whole digits begins, or 0
    size_t factor;     // where a factor begins, or the end
    long words;        // its value, where words say it; -1: digits do
};

static inline bool mt_is_digit(struct mt_text text, size_t at)
{
    return at < text.bytes && isdigit((unsigned char)text.text[at]);
}

static inline bool mt_is_letter(struct mt_text text, size_t at)
{
    return at < text.bytes && isalpha((unsigned char)text.text[at]);
}

static inline size_t mt_past_digits(struct mt_text text, size_t at)
{
    while (mt_is_digit(text, at)) at++;
    return at;
}

static inline size_t mt_past_spaces(struct mt_text text, size_t at)
{
    while (at < text.bytes && text.text[at] == ' ') at++;
    return at;
}

/* The end of digits with separators and a point. */
size_t mt_number_end(struct mt_text text, size_t at);

/* What words or signs behind a number do to it, as mathematics writes it: "*10^{6}" for a million. Returns
 * where they end; `at`: there are none, and the factor is empty. */
size_t mt_number_factor(struct mt_text text, size_t at, char factor[MT_FACTOR_BYTES]);

/* The next number at or behind `at`. */
bool mt_number_next(struct mt_text text, size_t at, struct mt_number *number);

/* Appends it as mathematics reads it. */
enum mt_status mt_number_append(struct mt_text text, const struct mt_number *number,
                                struct mt_byte_list *out);

#endif
