/*
 * Text from a file, made fit for a message: what a hostile file calls its tensors must neither drive the
 * terminal nor fill the message.
 */
#ifndef MT_FORMATS_PRINTABLE_H
#define MT_FORMATS_PRINTABLE_H

#include <stddef.h>

#define MT_PRINTABLE_BYTES 160

struct mt_printable {
    char text[MT_PRINTABLE_BYTES]; // NUL-terminated
};

/* Control characters become '?'; a long text is cut at a character boundary and ends in "...". */
struct mt_printable mt_printable(const char *text);

/* The same for `bytes` bytes that need not be terminated. */
struct mt_printable mt_printable_bytes(const char *text, size_t bytes);

#endif
