/* JSON being written. */
#include "formats/text/json_text.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/exact.h"
#include "base/files/file.h"
#include "formats/text/lists.h"
#include "formats/text/printable.h"

#define FORMAT_BYTES 256

void mt_json_text_init(struct mt_json_text *text, struct mt_context *ctx)
{
    *text = (struct mt_json_text){.ctx = ctx};
}

static enum mt_status append(struct mt_json_text *text, const char *bytes, size_t count)
{
    if (text->status == MT_OK && count > SIZE_MAX - text->length) {
        text->status = mt_fail(text->ctx, MT_ERR_MEMORY, "JSON text too long");
    }
    text->bytes =
        mt_list_reserve(text->ctx, text->bytes, &text->capacity, 1, text->length + count, &text->status);
    if (text->status != MT_OK) return text->status;
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
    if (length >= 0 && (size_t)length < sizeof piece) return append(text, piece, (size_t)length);
    if (text->status == MT_OK)
        text->status =
            mt_fail(text->ctx, MT_ERR_INTERNAL, "a piece of JSON text is longer than %d bytes", FORMAT_BYTES);
    return text->status;
}

/* Appends a JSON value and lets it go. */
static enum mt_status append_value(struct mt_json_text *text, json_t *value)
{
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (quoted == NULL) {
        text->status = mt_fail(text->ctx, MT_ERR_MEMORY, "out of memory while writing JSON");
        return text->status;
    }
    enum mt_status status = append(text, quoted, strlen(quoted));
    // jansson hands out memory from its own allocator, which is malloc unless the program changed it.
    json_free_t release = NULL;
    json_get_alloc_funcs(NULL, &release);
    release(quoted);
    return status;
}

enum mt_status mt_json_text_string(struct mt_json_text *text, const char *string)
{
    if (text->status != MT_OK) return text->status;
    json_t *value = json_string(string);
    if (value != NULL) return append_value(text, value);
    text->status = mt_fail(text->ctx, MT_ERR_USAGE, "'%s' is not UTF-8 and cannot be written as JSON",
                           mt_printable(string).text);
    return text->status;
}

enum mt_status mt_json_text_bytes(struct mt_json_text *text, const void *bytes, size_t count)
{
    if (text->status != MT_OK) return text->status;
    json_t *value = json_stringn(bytes != NULL ? bytes : "", count);
    if (value != NULL) return append_value(text, value);
    text->status = mt_fail(text->ctx, MT_ERR_USAGE,
                           "a text of %zu bytes is not UTF-8 and cannot be written as JSON", count);
    return text->status;
}

enum mt_status mt_json_text_number(struct mt_json_text *text, double number)
{
    char digits[MT_EXACT_BYTES];
    return mt_json_text_format(text, "%s", isfinite(number) ? mt_exact_text(number, digits) : "null");
}

enum mt_status mt_json_text_rounded(struct mt_json_text *text, double number, int digits)
{
    return isfinite(number) ? mt_json_text_format(text, "%.*g", digits, number)
                            : mt_json_text_format(text, "null");
}

enum mt_status mt_json_text_numbers(struct mt_json_text *text, const double *numbers, int count)
{
    mt_json_text_format(text, "[");
    for (int i = 0; i < count; i++) {
        if (i > 0) mt_json_text_format(text, ", ");
        mt_json_text_number(text, numbers[i]);
    }
    return mt_json_text_format(text, "]");
}

enum mt_status mt_json_text_save(struct mt_json_text *text, const char *path)
{
    enum mt_status status = text->status;
    if (status == MT_OK) status = mt_file_write_all(text->ctx, path, text->bytes, text->length);
    mt_json_text_free(text);
    return status;
}

void mt_json_text_free(struct mt_json_text *text)
{
    mt_release(text->ctx, text->bytes, text->capacity);
    mt_json_text_init(text, text->ctx);
}
