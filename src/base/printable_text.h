/* Text from outside that is about to be read by people: nothing in it may drive a terminal, or pass for
 * something else. */
#ifndef MT_BASE_PRINTABLE_TEXT_H
#define MT_BASE_PRINTABLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Drives a terminal, or makes text look like another: controls, separators of lines, marks of direction. */
bool mt_is_treacherous(int32_t character);

/*
 * Writes '?' over every byte of what a terminal could obey or be fooled by: control characters and escape
 * sequences (U+0000 to U+001F, U+007F to U+009F), separators of lines, marks of direction, bytes that are no
 * UTF-8. `lines`: line ends and tabs stay.
 */
void mt_make_printable(char *text, size_t bytes, bool lines);

#endif
