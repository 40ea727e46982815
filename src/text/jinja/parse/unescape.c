/* String literals: Python's escapes, as jinja2 reads them (through "unicode-escape"). */
#include <stdio.h>

#include "formats/text/utf8.h"
#include "text/jinja/parse/ast.h"

struct reader {
    struct jinja_parser *parser;
    int line;
    const char *raw;
    size_t bytes;
    size_t at;
    char *out;
    size_t length;
};

static void put(struct reader *r, uint32_t character)
{
    uint8_t encoded[4];
    size_t count = mt_utf8_encode(character, encoded);
    for (size_t i = 0; i < count; i++) r->out[r->length++] = (char)encoded[i];
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* "\xhh", "\uhhhh" and "\Uhhhhhhhh"; r->at is behind the letter. */
static enum mt_status put_hex(struct reader *r, size_t digits)
{
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++, r->at++) {
        int digit = r->at < r->bytes ? hex_digit(r->raw[r->at]) : -1;
        if (digit < 0)
            return jinja_parse_fail(r->parser, MT_ERR_FORMAT, r->line, "a string has a broken escape");
        value = value << 4 | (uint32_t)digit;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return jinja_parse_fail(r->parser, MT_ERR_UNSUPPORTED, r->line,
                                "a string has the escape of a character that is none (U+%04X)", value);
    }
    put(r, value);
    return MT_OK;
}

static void put_octal(struct reader *r)
{
    uint32_t value = 0;
    for (int i = 0; i < 3 && r->at < r->bytes && r->raw[r->at] >= '0' && r->raw[r->at] <= '7'; i++, r->at++)
        value = value << 3 | (uint32_t)(r->raw[r->at] - '0');
    put(r, value);
}

/* A backslash before a character beyond ASCII: jinja2 has made an escape of that one by then, and spoils it.
 */
static void put_spoiled(struct reader *r)
{
    size_t length = 0;
    uint32_t character = mt_utf8_decode((const uint8_t *)r->raw + r->at, &length);
    char spelled[12];
    const char *format = character < 0x100 ? "x%02x" : character < 0x10000 ? "u%04x" : "U%08x";
    int count = snprintf(spelled, sizeof spelled, format, character);
    put(r, '\\');
    for (int i = 0; i < count; i++) put(r, (uint8_t)spelled[i]);
    r->at += length;
}

static enum mt_status put_escape(struct reader *r)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char meanings[] = "\\'\"\a\b\f\n\r\t\v";
    char c = r->raw[r->at];
    if ((unsigned char)c >= 0x80) {
        put_spoiled(r);
        return MT_OK;
    }
    if (c >= '0' && c <= '7') {
        put_octal(r);
        return MT_OK;
    }
    r->at++;
    if (c == '\n') return MT_OK;
    if (c == 'x') return put_hex(r, 2);
    if (c == 'u') return put_hex(r, 4);
    if (c == 'U') return put_hex(r, 8);
    if (c == 'N') {
        return jinja_parse_fail(r->parser, MT_ERR_UNSUPPORTED, r->line,
                                "a string has the escape \\N, which is not known here");
    }
    for (size_t i = 0; i + 1 < sizeof letters; i++) {
        if (letters[i] != c) continue;
        put(r, (uint8_t)meanings[i]);
        return MT_OK;
    }
    put(r, '\\');
    put(r, (uint8_t)c);
    return MT_OK;
}

enum mt_status jinja_unescape(struct jinja_parser *parser, int line, const char *raw, size_t bytes,
                              struct mt_marked *text)
{
    void *memory = NULL;
    // A spoiled escape is the longest: 2 bytes of a backslash and a letter become 5, 5 become 10.
    enum mt_status status = mt_arena_allocate(parser->arena, bytes * 4 + 1, &memory);
    struct reader r = {.parser = parser, .line = line, .raw = raw, .bytes = bytes, .out = memory};
    while (status == MT_OK && r.at < bytes) {
        if (raw[r.at] != '\\') {
            r.out[r.length++] = raw[r.at++];
            continue;
        }
        r.at++;
        status = put_escape(&r);
    }
    if (status == MT_OK) *text = (struct mt_marked){r.out, NULL, r.length};
    return status;
}
