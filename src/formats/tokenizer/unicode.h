/*
 * What tokenizers ask about characters. The answers follow the `tokenizers` library, whose parts know
 * different editions of Unicode (its regular expressions 16, its normal forms 9): ids must come out as they
 * did when the model was trained. The tables hold what PCRE2 and utf8proc do not say the same way.
 */
#ifndef MT_FORMATS_TOKENIZER_UNICODE_H
#define MT_FORMATS_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_code_range {
    uint32_t first;
    uint32_t last;
};

struct mt_category_range {
    uint32_t first;
    uint32_t last;
    char category[3]; // "Lu"
};

// Newer characters with their category, to be added to \p{...}; the same for \p{Han} and \p{Alphabetic}.
extern const struct mt_category_range mt_unicode_added[];
extern const size_t mt_unicode_added_count;
extern const struct mt_code_range mt_unicode_han_added[];
extern const size_t mt_unicode_han_added_count;
extern const struct mt_code_range mt_unicode_alphabetic_added[];
extern const size_t mt_unicode_alphabetic_added_count;

// Whole sets, sorted.
extern const struct mt_code_range mt_unicode_numeric[];
extern const size_t mt_unicode_numeric_count;
extern const struct mt_code_range mt_unicode_punctuation[];
extern const size_t mt_unicode_punctuation_count;
extern const struct mt_code_range mt_unicode_combining[];
extern const size_t mt_unicode_combining_count;
extern const struct mt_code_range mt_unicode_normal_unknown[];
extern const size_t mt_unicode_normal_unknown_count;

// Here `first` is the character and `last` its lower case; sorted.
extern const struct mt_code_range mt_unicode_lowercase_added[];
extern const size_t mt_unicode_lowercase_added_count;

/* White space: the Unicode property White_Space. */
bool mt_unicode_is_space(uint32_t character);

bool mt_unicode_is_numeric(uint32_t character);
bool mt_unicode_is_punctuation(uint32_t character);
bool mt_unicode_is_combining(uint32_t character);

/* True for characters the normal forms leave alone, whatever utf8proc knows about them. */
bool mt_unicode_is_normal_unknown(uint32_t character);

/* Lower case, one or two characters (U+0130 alone has two); returns how many. */
size_t mt_unicode_lowercase(uint32_t character, uint32_t lower[2]);

#endif
