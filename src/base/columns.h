/*
 * Text measured in terminal columns: a UTF-8 character is several bytes and takes 0, 1 or 2 columns.
 */
#ifndef MT_BASE_COLUMNS_H
#define MT_BASE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
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

#endif
