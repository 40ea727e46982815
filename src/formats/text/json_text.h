/*
 * JSON being written: a growing text with correct strings and numbers in it.
 *
 * The first failure stays in text->status, and nothing is appended after it: a text can be put together piece
 * by piece and asked once, at its end. Every function that appends returns text->status.
 */
#ifndef MT_FORMATS_JSON_TEXT_H
#define MT_FORMATS_JSON_TEXT_H

#include <stddef.h>

#include "metier/context.h"

struct mt_json_text {
    struct mt_context *ctx; // borrowed
    char *bytes;            // owned; not terminated
    size_t length;
    size_t capacity;
    enum mt_status status;
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

/* The shortest text that reads back as the same double; null for what is not finite. */
enum mt_status mt_json_text_number(struct mt_json_text *text, double number);

/* A number to so many digits, for pictures. */
enum mt_status mt_json_text_rounded(struct mt_json_text *text, double number, int digits);

/* [1, 2, null] */
enum mt_status mt_json_text_numbers(struct mt_json_text *text, const double *numbers, int count);

/* Writes a whole text as a file, and frees it. Returns the first failure of all. */
enum mt_status mt_json_text_save(struct mt_json_text *text, const char *path);

/* Frees the text; it can be used again. */
void mt_json_text_free(struct mt_json_text *text);

#endif
