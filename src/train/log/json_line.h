/*
 * JSON written into a buffer of fixed size: nothing is allocated, and a text that does not fit is noticed at
 * the end. Commas come by themselves.
 */
#ifndef MT_TRAIN_JSON_LINE_H
#define MT_TRAIN_JSON_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_JSON_NUMBER_BYTES 32 // a number, its comma included, is shorter

struct mt_json_line {
    char *data; // borrowed
    size_t room;
    size_t bytes; // so far; never more than room
    bool full;    // something did not fit
};

/* name NULL: an element of an array, or the outermost value. */
void mt_json_put_open(struct mt_json_line *text, const char *name, char bracket); // '{' or '['
void mt_json_put_close(struct mt_json_line *text, char bracket);                  // '}' or ']'

/* The shortest decimal that reads back as the same double; null for NaN and the infinities. */
void mt_json_put_number(struct mt_json_line *text, const char *name, double value);
void mt_json_put_count(struct mt_json_line *text, const char *name, uint64_t value);
void mt_json_put_bool(struct mt_json_line *text, const char *name, bool value);

/* UTF-8 stays, malformed bytes become U+FFFD. Of a longer one the first so many bytes are written. */
void mt_json_put_string(struct mt_json_line *text, const char *name, const char *value, size_t most_bytes);

/* Ends a line. */
void mt_json_put_newline(struct mt_json_line *text);

#endif
