/* JSON being written: a growing text with correct strings in it. */
#ifndef MT_FORMATS_JSON_TEXT_H
#define MT_FORMATS_JSON_TEXT_H

#include <stddef.h>

#include "metier/context.h"

struct mt_json_text {
    struct mt_context *ctx; // borrowed
    char *bytes;            // owned; not terminated
    size_t length;
    size_t capacity;
};

/* Prepares a caller-owned, empty text. */
void mt_json_text_init(struct mt_json_text *text, struct mt_context *ctx);

/* Appends formatted text as it is; at most 256 bytes at a time. */
enum mt_status mt_json_text_format(struct mt_json_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a quoted, escaped string; refuses what is not UTF-8. */
enum mt_status mt_json_text_string(struct mt_json_text *text, const char *string);

/* The same of `count` bytes, NUL among them allowed. */
enum mt_status mt_json_text_bytes(struct mt_json_text *text, const void *bytes, size_t count);

/* Frees the text; it can be used again. */
void mt_json_text_free(struct mt_json_text *text);

#endif
