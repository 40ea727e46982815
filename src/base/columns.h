/*
 * Text on a terminal: measured in columns, as a UTF-8 character is several bytes and takes 0, 1 or 2 of them;
 * and made harmless where it comes from outside.
 */
#ifndef MT_BASE_COLUMNS_H
#define MT_BASE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* True when the program's locale (setlocale) writes UTF-8. */
bool mt_columns_locale_is_utf8(void);

/* Columns of the terminal behind a stream; 0: there is none, or it does not say. */
int mt_columns_of_terminal(FILE *stream);

/*
 * Copies the longest start of `text` that fits `max_columns` columns and `target_bytes` bytes with its
 * NUL; never cuts a character. Control characters, malformed bytes and, without `utf8`, everything
 * outside ASCII become '?'. Returns the columns used.
 */
int mt_columns_copy(char *target, size_t target_bytes, const char *text, int max_columns, bool utf8);

/* Drives a terminal, or makes text look like another: controls, separators of lines, marks of direction. */
bool mt_is_treacherous(int32_t character);

/*
 * Writes '?' over every byte of what a terminal could obey or be fooled by: control characters and escape
 * sequences (U+0000 to U+001F, U+007F to U+009F), separators of lines, marks of direction, bytes that are no
 * UTF-8. `lines`: line ends and tabs stay.
 */
void mt_make_printable(char *text, size_t bytes, bool lines);

#endif
