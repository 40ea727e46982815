/* JSON being written. */
#include "formats/text/json_text.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/lists.h"
#include "formats/text/printable.h"

#define FORMAT_BYTES 256

void mt_json_text_init(struct mt_json_text *text, struct mt_context *ctx)
{
    *text = (struct mt_json_text){.ctx = ctx};
}

static enum mt_status append(struct mt_json_text *text, const char *bytes, size_t count)
{
    void *block = text->bytes;
    if (count > SIZE_MAX - text->length) return mt_fail(text->ctx, MT_ERR_MEMORY, "JSON text too long");
    enum mt_status status = mt_list_reserve(text->ctx, &block, &text->capacity, 1, text->length + count);
    if (status != MT_OK) return status;
    text->bytes = block;
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    return MT_OK;
}

enum mt_status mt_json_text_format(struct mt_json_text *text, const char *format, ...)
{
    char piece[FORMAT_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof piece) {
        return mt_fail(text->ctx, MT_ERR_INTERNAL, "a piece of JSON text is longer than %d bytes",
                       FORMAT_BYTES);
    }
    return append(text, piece, (size_t)length);
}

/* Appends a JSON value and lets it go. */
static enum mt_status append_value(struct mt_json_text *text, json_t *value)
{
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (quoted == NULL) return mt_fail(text->ctx, MT_ERR_MEMORY, "out of memory while writing JSON");
    enum mt_status status = append(text, quoted, strlen(quoted));
    // jansson hands out memory from its own allocator, which is malloc unless the program changed it.
    json_free_t release = NULL;
    json_get_alloc_funcs(NULL, &release);
    release(quoted);
    return status;
}

enum mt_status mt_json_text_string(struct mt_json_text *text, const char *string)
{
    json_t *value = json_string(string);
    if (value != NULL) return append_value(text, value);
    return mt_fail(text->ctx, MT_ERR_USAGE, "'%s' is not UTF-8 and cannot be written as JSON",
                   mt_printable(string).text);
}

enum mt_status mt_json_text_bytes(struct mt_json_text *text, const void *bytes, size_t count)
{
    json_t *value = json_stringn(bytes != NULL ? bytes : "", count);
    if (value != NULL) return append_value(text, value);
    return mt_fail(text->ctx, MT_ERR_USAGE, "a text of %zu bytes is not UTF-8 and cannot be written as JSON",
                   count);
}

void mt_json_text_free(struct mt_json_text *text)
{
    mt_release(text->ctx, text->bytes, text->capacity);
    mt_json_text_init(text, text->ctx);
}
