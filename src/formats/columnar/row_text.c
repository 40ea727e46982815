/* Rows as lines of JSON: the text, its bounds, and strings. How a value is written says value_text.c. */
#include "formats/columnar/row_text.h"

#include <stdio.h>

#define HAND_ON_BYTES ((size_t)1 << 20)

enum mt_status mt_row_text_add(struct mt_row_text *out, const char *text, size_t bytes)
{
    // What is cut counts, too: a list of nothing must not keep us busy for ever.
    out->written += bytes;
    if (out->written > out->most) {
        return mt_fail(out->ctx, MT_ERR_FORMAT, "%s: its rows have more than %llu bytes, the limit",
                       out->file, (unsigned long long)out->most);
    }
    size_t used = out->text.count - out->start;
    size_t room = out->max_row_bytes + 1 - used;
    return mt_byte_list_append(&out->text, text, bytes < room ? bytes : room);
}

enum mt_status mt_row_text_quoted(struct mt_row_text *out, const char *text, size_t bytes)
{
    enum mt_status status = mt_row_text_add(out, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; i < bytes && status == MT_OK; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
        char escape[8] = {'\\', (char)byte, '\0'};
        if (byte < 0x20) (void)snprintf(escape, sizeof escape, "\\u%04x", byte);
        status = mt_row_text_add(out, text + from, i - from);
        if (status == MT_OK) status = mt_row_text_add(out, escape, strlen(escape));
        from = i + 1;
    }
    if (status == MT_OK && bytes > from) status = mt_row_text_add(out, text + from, bytes - from);
    return status == MT_OK ? mt_row_text_add(out, "\"", 1) : status;
}

enum mt_status mt_row_text_member(struct mt_row_text *out, bool first, const char *name, size_t bytes)
{
    enum mt_status status = first ? MT_OK : mt_row_text_add(out, ",", 1);
    if (status == MT_OK) status = mt_row_text_quoted(out, name, bytes);
    return status == MT_OK ? mt_row_text_add(out, ":", 1) : status;
}

enum mt_status mt_row_text_end(struct mt_row_text *out)
{
    out->written++;
    out->rows++;
    enum mt_status status = mt_byte_list_append(&out->text, "\n", 1);
    if (status == MT_OK && out->hand_on != NULL && out->text.count >= HAND_ON_BYTES)
        status = out->hand_on(out);
    out->start = out->text.count;
    return status;
}
