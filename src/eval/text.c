/* Looking into texts, and writing JSON. */
#define _GNU_SOURCE // memmem
#include "eval/text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/exact.h"
#include "formats/text/utf8.h"

struct mt_text mt_text_trimmed(struct mt_text text)
{
    while (text.bytes > 0 && isspace((unsigned char)text.text[0])) text = mt_text_from(text, 1);
    while (text.bytes > 0 && isspace((unsigned char)text.text[text.bytes - 1])) text.bytes--;
    return text;
}

size_t mt_text_find(struct mt_text text, size_t from, const char *what)
{
    if (from >= text.bytes) return text.bytes;
    const char *found = memmem(text.text + from, text.bytes - from, what, strlen(what));
    return found != NULL ? (size_t)(found - text.text) : text.bytes;
}

struct mt_text mt_text_until(struct mt_text text, const char *const *ends)
{
    for (size_t i = 0; ends[i] != NULL; i++) text.bytes = mt_text_find(text, 0, ends[i]);
    return text;
}

bool mt_text_next_line(struct mt_text text, size_t *at, struct mt_text *line)
{
    if (*at >= text.bytes) return false;
    size_t end = mt_text_find(text, *at, "\n");
    *line = (struct mt_text){.text = text.text + *at, .bytes = end - *at};
    *at = end + 1;
    return true;
}

int mt_name_place(const char *const *names, int count, const char *name)
{
    int place = 0;
    while (place < count && strcmp(names[place], name) != 0) place++;
    return place;
}

static void put_bytes(struct mt_text_writer *writer, const void *data, size_t bytes)
{
    if (writer->status == MT_OK) writer->status = mt_byte_list_append(&writer->text, data, bytes);
}

void mt_text_put(struct mt_text_writer *writer, const char *text)
{
    put_bytes(writer, text, strlen(text));
}

void mt_text_putf(struct mt_text_writer *writer, const char *format, ...)
{
    char text[256];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    mt_text_put(writer, text);
}

void mt_text_put_string(struct mt_text_writer *writer, const char *before, struct mt_text text)
{
    struct mt_byte_list valid = {.ctx = writer->text.ctx};
    mt_text_put(writer, before);
    if (writer->status == MT_OK)
        writer->status = mt_utf8_append_repaired(&valid, (const uint8_t *)text.text, text.bytes);
    mt_text_put(writer, "\"");
    for (size_t i = 0; i < valid.count && writer->status == MT_OK; i++) {
        uint8_t byte = valid.data[i];
        if (byte == '"' || byte == '\\') {
            mt_text_putf(writer, "\\%c", byte);
        } else if (byte == '\n') {
            mt_text_put(writer, "\\n");
        } else if (byte == '\0') {
            // Valid in JSON, but many readers, ours among them, refuse it.
            mt_text_put(writer, "\\ufffd");
        } else if (byte < 0x20) {
            mt_text_putf(writer, "\\u%04x", byte);
        } else {
            put_bytes(writer, &byte, 1);
        }
    }
    mt_text_put(writer, "\"");
    mt_byte_list_free(&valid);
}

void mt_text_put_number(struct mt_text_writer *writer, const char *before, double number)
{
    char digits[MT_EXACT_BYTES];
    mt_text_put(writer, before);
    mt_text_put(writer, isfinite(number) ? mt_exact_text(number, digits) : "null");
}

/* Behind the last of them; 0: there is none. */
static size_t behind_last(struct mt_text text, const char *mark)
{
    size_t behind = 0;
    for (size_t at = mt_text_find(text, 0, mark); at < text.bytes; at = mt_text_find(text, behind, mark))
        behind = at + strlen(mark);
    return behind;
}

bool mt_text_is_thinking(struct mt_text text)
{
    return behind_last(text, "<think>") > behind_last(text, "</think>");
}
