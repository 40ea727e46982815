/*
 * Text from outside, made fit for messages and terminals: what a hostile file calls its tensors, what a
 * program writes or a model says must neither drive the terminal nor pass for something else.
 */
#ifndef MT_FORMATS_PRINTABLE_H
#define MT_FORMATS_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/columns.h"

#define MT_PRINTABLE_BYTES 160

struct mt_printable {
    char text[MT_PRINTABLE_BYTES]; // NUL-terminated
};

/*
 * Writes a piece of a text: to a file or a pipe as it is, to a terminal made printable. Returns how many
 * bytes it took: for a terminal not the beginning of a character at the end, which comes with the next piece.
 */
size_t mt_show_text(FILE *stream, const char *text, size_t bytes);

/* A text for a message, without control characters and line ends; a long text is cut at a character boundary
 * and ends in "...". */
struct mt_printable mt_printable(const char *text);

/* The same for `bytes` bytes that need not be terminated. */
struct mt_printable mt_printable_bytes(const char *text, size_t bytes);

#endif
