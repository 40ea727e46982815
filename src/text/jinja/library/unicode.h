/* Characters as Python's str sees them. */
#ifndef MT_TEXT_JINJA_UNICODE_H
#define MT_TEXT_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* str.isspace. */
bool mt_jinja_is_space(uint32_t character);

/* str.isprintable: written as it is by repr. */
bool mt_jinja_is_printable(uint32_t character);

/* A line ends here for str.splitlines. */
bool mt_jinja_is_line_end(uint32_t character);

bool mt_jinja_is_letter(uint32_t character);  // str.isalpha
bool mt_jinja_is_decimal(uint32_t character); // str.isdecimal
bool mt_jinja_is_digit(uint32_t character);   // str.isdigit
bool mt_jinja_is_numeric(uint32_t character); // str.isnumeric
bool mt_jinja_is_upper(uint32_t character);
bool mt_jinja_is_lower(uint32_t character);
bool mt_jinja_is_cased(uint32_t character);
bool mt_jinja_is_case_ignorable(uint32_t character);

enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE };

/* A character in another case, up to three characters; returns how many. */
size_t mt_jinja_map_case(uint32_t character, enum jinja_case to, uint32_t mapped[3]);

/* Where Python's full case mapping is not the simple one of utf8proc; sorted by character. */
struct jinja_special_case {
    uint32_t character;
    uint32_t mapped[3]; // 0: no more
};
extern const struct jinja_special_case mt_jinja_special_upper[];
extern const size_t mt_jinja_special_upper_count;
extern const struct jinja_special_case mt_jinja_special_lower[];
extern const size_t mt_jinja_special_lower_count;
extern const struct jinja_special_case mt_jinja_special_title[];
extern const size_t mt_jinja_special_title_count;

struct jinja_characters {
    uint32_t first;
    uint32_t last;
};
extern const struct jinja_characters mt_jinja_lower_changed[]; // utf8proc says the opposite
extern const size_t mt_jinja_lower_changed_count;
extern const struct jinja_characters mt_jinja_digits_added[]; // digits that are not decimal
extern const size_t mt_jinja_digits_added_count;
extern const struct jinja_characters mt_jinja_numeric_added[]; // numeric, not digits
extern const size_t mt_jinja_numeric_added_count;

#endif
