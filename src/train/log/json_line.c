/* JSON into a buffer of fixed size. */
#include "train/log/json_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact.h"

#include <utf8proc.h>

static void put(struct mt_json_line *text, const char *data, size_t bytes)
{
    if (text->full || bytes > text->room - text->bytes) {
        text->full = true;
        return;
    }
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
}

static void put_text(struct mt_json_line *text, const char *data)
{
    put(text, data, strlen(data));
}

/* The comma before a value that is not the first of its kind, and its name. */
static void begin_value(struct mt_json_line *text, const char *name)
{
    char last = text->bytes > 0 ? text->data[text->bytes - 1] : '{';
    if (last != '{' && last != '[' && last != '\n') put_text(text, ",");
    if (name == NULL) return;
    put_text(text, "\"");
    put_text(text, name);
    put_text(text, "\":");
}

void mt_json_put_open(struct mt_json_line *text, const char *name, char bracket)
{
    begin_value(text, name);
    put(text, &bracket, 1);
}

void mt_json_put_close(struct mt_json_line *text, char bracket)
{
    put(text, &bracket, 1);
}

void mt_json_put_number(struct mt_json_line *text, const char *name, double value)
{
    char digits[MT_EXACT_BYTES];
    begin_value(text, name);
    put_text(text, isfinite(value) ? mt_exact_text(value, digits) : "null");
}

void mt_json_put_count(struct mt_json_line *text, const char *name, uint64_t value)
{
    char digits[MT_JSON_NUMBER_BYTES];
    begin_value(text, name);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    put_text(text, digits);
}

void mt_json_put_bool(struct mt_json_line *text, const char *name, bool value)
{
    begin_value(text, name);
    put_text(text, value ? "true" : "false");
}

/* One character of a string, as JSON writes it; returns how many bytes of the value it took. */
static size_t put_character(struct mt_json_line *text, const char *value, size_t left)
{
    char escape[8];
    utf8proc_int32_t character = -1;
    utf8proc_ssize_t taken =
        utf8proc_iterate((const utf8proc_uint8_t *)value, (utf8proc_ssize_t)left, &character);
    if (taken <= 0) {
        put_text(text, "\xef\xbf\xbd");
        return 1;
    }
    if (character == '"' || character == '\\') {
        put_text(text, "\\");
    } else if (character < 0x20) {
        (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)character);
        put_text(text, escape);
        return 1;
    }
    put(text, value, (size_t)taken);
    return (size_t)taken;
}

void mt_json_put_string(struct mt_json_line *text, const char *name, const char *value, size_t most_bytes)
{
    size_t bytes = strlen(value);
    bool cut = bytes > most_bytes;
    if (cut) bytes = most_bytes;
    begin_value(text, name);
    put_text(text, "\"");
    for (size_t i = 0; i < bytes;) i += put_character(text, value + i, bytes - i);
    if (cut) put_text(text, "...");
    put_text(text, "\"");
}

void mt_json_put_newline(struct mt_json_line *text)
{
    put_text(text, "\n");
}
