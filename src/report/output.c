/* A text in the making. */
#include "report/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/exact.h"
#include "base/files/file.h"
#include "base/files/folder.h"

#define FORMAT_BYTES 512

void mt_output_init(struct mt_output *out, struct mt_context *ctx)
{
    *out = (struct mt_output){.text = {.ctx = ctx}};
}

void mt_output_free(struct mt_output *out)
{
    mt_byte_list_free(&out->text);
}

enum mt_status mt_output_save(struct mt_output *out, const char *path)
{
    if (out->status != MT_OK) return out->status;
    enum mt_status status = mt_folder_make_above(out->text.ctx, path);
    return status == MT_OK ? mt_file_write_all(out->text.ctx, path, out->text.data, out->text.count) : status;
}

void mt_put_bytes(struct mt_output *out, const void *bytes, size_t count)
{
    if (out->status == MT_OK) out->status = mt_byte_list_append(&out->text, bytes, count);
}

void mt_put(struct mt_output *out, const char *text)
{
    mt_put_bytes(out, text, strlen(text));
}

void mt_putf(struct mt_output *out, const char *format, ...)
{
    char piece[FORMAT_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof piece) {
        if (out->status == MT_OK)
            out->status = mt_fail(out->text.ctx, MT_ERR_INTERNAL,
                                  "a piece of the report is longer than %d bytes", FORMAT_BYTES);
        return;
    }
    mt_put_bytes(out, piece, (size_t)length);
}

/* Puts a text whose characters `replace` writes differently, or says NULL to. */
static void put_replacing(struct mt_output *out, const char *text, const char *(*replace)(char c, char *room))
{
    char room[8];
    const char *start = text;
    for (const char *at = text; *at != '\0'; at++) {
        const char *other = replace(*at, room);
        if (other == NULL) continue;
        mt_put_bytes(out, start, (size_t)(at - start));
        mt_put(out, other);
        start = at + 1;
    }
    mt_put(out, start);
}

static const char *replace_html(char c, char *room)
{
    (void)room;
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return (unsigned char)c < 0x20 && c != '\n' ? " " : NULL;
    }
}

void mt_put_html(struct mt_output *out, const char *text)
{
    put_replacing(out, text, replace_html);
}

static const char *replace_json(char c, char *room)
{
    if (c == '"') return "\\\"";
    if (c == '\\') return "\\\\";
    if ((unsigned char)c >= 0x20 && c != '<' && c != '>' && c != '&') return NULL;
    (void)snprintf(room, 8, "\\u%04x", (unsigned)(unsigned char)c);
    return room;
}

void mt_put_json(struct mt_output *out, const char *text)
{
    mt_put(out, "\"");
    put_replacing(out, text, replace_json);
    mt_put(out, "\"");
}

static const char *replace_csv(char c, char *room)
{
    (void)room;
    return c == '"' ? "\"\"" : NULL;
}

void mt_put_csv(struct mt_output *out, const char *text)
{
    // Spreadsheets run what begins like this. A minus before a digit is a number.
    bool formula = strchr("=+@\t\r", text[0]) != NULL && text[0] != '\0';
    formula |= text[0] == '-' && (text[1] < '0' || text[1] > '9') && text[1] != '\0';
    bool quoted = formula || strpbrk(text, ",\"\r\n") != NULL;
    if (!quoted) {
        mt_put(out, text);
        return;
    }
    mt_put(out, formula ? "\"'" : "\"");
    put_replacing(out, text, replace_csv);
    mt_put(out, "\"");
}

static const char *replace_markdown(char c, char *room)
{
    if ((unsigned char)c < 0x20) return " ";
    if (c == '<') return "&lt;";
    if (c == '&') return "&amp;";
    if (strchr("|*_`[]\\#~$", c) == NULL) return NULL;
    (void)snprintf(room, 8, "\\%c", c);
    return room;
}

void mt_put_markdown(struct mt_output *out, const char *text)
{
    put_replacing(out, text, replace_markdown);
}

void mt_put_exact(struct mt_output *out, double number, const char *none)
{
    char digits[MT_EXACT_BYTES];
    mt_put(out, isfinite(number) ? mt_exact_text(number, digits) : none);
}

/* "1.234e-05" to "1.234e-5". */
static void shorten_exponent(char *text)
{
    char *digits = strchr(text, 'e');
    if (digits == NULL) return;
    digits++;
    if (*digits == '+') memmove(digits, digits + 1, strlen(digits));
    if (*digits == '-') digits++;
    while (*digits == '0' && digits[1] != '\0') memmove(digits, digits + 1, strlen(digits));
}

const char *mt_number_text(char text[MT_NUMBER_BYTES], double number)
{
    double size = fabs(number);
    if (isnan(number)) {
        (void)snprintf(text, MT_NUMBER_BYTES, "–");
    } else if (isinf(number)) {
        (void)snprintf(text, MT_NUMBER_BYTES, "%s∞", number < 0 ? "-" : "");
    } else if (size < 1e7 && number == rint(number)) {
        (void)snprintf(text, MT_NUMBER_BYTES, "%.0f", number == 0 ? 0.0 : number);
    } else if (size < 1e-3 || size >= 1e7) {
        (void)snprintf(text, MT_NUMBER_BYTES, "%.3e", number);
        shorten_exponent(text);
    } else {
        int decimals = 3 - (int)floor(log10(size));
        (void)snprintf(text, MT_NUMBER_BYTES, "%.*f", decimals > 0 ? decimals : 0, number);
    }
    return text;
}

const char *mt_fixed_text(char text[MT_NUMBER_BYTES], double number, int decimals, bool is_signed)
{
    if (!isfinite(number)) return mt_number_text(text, number);
    int length = snprintf(text, MT_NUMBER_BYTES, is_signed ? "%+.*f" : "%.*f", decimals, number);
    if (length < 0 || length >= MT_NUMBER_BYTES) return mt_number_text(text, number); // a huge one
    if (strspn(text, "+-0.") == strlen(text) && text[0] == '-') memmove(text, text + 1, strlen(text));
    if (text[0] != '-') return text;
    char digits[MT_NUMBER_BYTES];
    (void)snprintf(digits, sizeof digits, "%s", text + 1);
    (void)snprintf(text, MT_NUMBER_BYTES, "−%.*s", MT_NUMBER_BYTES - 4, digits);
    return text;
}
