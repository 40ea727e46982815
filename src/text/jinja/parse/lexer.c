/*
 * Tokens of a template, as jinja2 finds them with trim_blocks and lstrip_blocks: text, and between "{{ }}"
 * and
 * "{% %}" names, numbers, strings and operators. White space is decided here: "-" takes all of it away, "+"
 * keeps it, a newline after "%}" and blanks before "{%" at the start of a line go by themselves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/utf8.h"
#include "text/jinja/library/unicode.h"
#include "text/jinja/parse/ast.h"

#define BRACKETS 256 // open at once

struct lexer {
    struct jinja_parser *parser;
    const char *text; // newlines are \n
    size_t bytes;
    size_t at;
    int line;
    bool line_starting; // what came last ended a line
    char open[BRACKETS];
    size_t open_count;
};

enum mt_status mt_jinja_arena_grow(struct mt_arena *arena, void **items, size_t *capacity, size_t item_bytes,
                                   size_t needed)
{
    if (needed <= *capacity) return MT_OK;
    size_t wanted = *capacity * 2 > needed ? *capacity * 2 : needed + 8;
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(arena, wanted * item_bytes, &memory);
    if (status != MT_OK) return status;
    if (*items != NULL) memcpy(memory, *items, *capacity * item_bytes);
    *items = memory;
    *capacity = wanted;
    return MT_OK;
}

static void add_token(struct lexer *lexer, struct jinja_token token)
{
    struct jinja_tokens *tokens = &lexer->parser->tokens;
    void *data = tokens->data;
    if (mt_jinja_parse_failed(lexer->parser)) return;
    enum mt_status status = mt_jinja_arena_grow(lexer->parser->arena, &data, &tokens->capacity,
                                                sizeof *tokens->data, tokens->count + 1);
    if (!mt_jinja_parse_check(lexer->parser, status)) return;
    tokens->data = data;
    tokens->data[tokens->count++] = token;
}

static void add(struct lexer *lexer, enum jinja_token_kind kind, const char *text, size_t bytes)
{
    add_token(lexer, (struct jinja_token){kind, lexer->line, text, bytes, 0, 0});
}

static void lex_fail(struct lexer *lexer, const char *message)
{
    mt_jinja_parse_fail(lexer->parser, MT_ERR_FORMAT, lexer->line, "%s", message);
}

/* Moves on, counting lines. */
static void step(struct lexer *lexer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) lexer->line += lexer->text[lexer->at + i] == '\n';
    if (bytes != 0) lexer->line_starting = lexer->text[lexer->at + bytes - 1] == '\n';
    lexer->at += bytes;
}

static bool at_text(const struct lexer *lexer, size_t at, const char *text)
{
    size_t length = strlen(text);
    return lexer->bytes - at >= length && memcmp(lexer->text + at, text, length) == 0;
}

/* Bytes of white space from `at` on. */
static size_t spaces(const struct lexer *lexer, size_t at)
{
    size_t start = at;
    while (at < lexer->bytes) {
        size_t length = 0;
        if (!mt_jinja_is_space(mt_utf8_decode((const uint8_t *)lexer->text + at, &length))) break;
        at += length;
    }
    return at - start;
}

/* Where trailing white space of text[start .. end) begins. */
static size_t spaces_before(const struct lexer *lexer, size_t start, size_t end)
{
    const uint8_t *text = (const uint8_t *)lexer->text;
    while (end > start) {
        size_t length = 0;
        size_t previous = mt_utf8_previous(text, end);
        if (previous < start || !mt_jinja_is_space(mt_utf8_decode(text + previous, &length))) break;
        end = previous;
    }
    return end;
}

/* Where the text before a tag ends, given the sign after the tag's opening. */
static size_t text_end(const struct lexer *lexer, size_t start, size_t end, char sign, bool variable)
{
    if (sign == '-') return spaces_before(lexer, start, end);
    if (sign == '+' || variable) return end;
    size_t line = end;
    while (line > start && lexer->text[line - 1] != '\n') line--;
    if (line == start && !lexer->line_starting) return end;
    return spaces_before(lexer, line, end) == line ? line : end;
}

static char sign_at(const struct lexer *lexer, size_t at)
{
    bool sign = at < lexer->bytes && (lexer->text[at] == '-' || lexer->text[at] == '+');
    return sign ? lexer->text[at] : 0;
}

/* Emits text[at .. tag) without what the tag strips, and moves to the tag. */
static void emit_text(struct lexer *lexer, size_t tag, char sign, bool variable)
{
    size_t end = text_end(lexer, lexer->at, tag, sign, variable);
    if (end > lexer->at) add(lexer, JINJA_TOKEN_DATA, lexer->text + lexer->at, end - lexer->at);
    step(lexer, tag - lexer->at);
}

/* The end of a tag at `at`: "%}" with what trim_blocks takes, "-%}" with white space, "+%}"; 0: none. */
static size_t tag_end(const struct lexer *lexer, size_t at, const char *end, bool trim)
{
    char sign = sign_at(lexer, at);
    bool plus = sign == '+' && trim; // "+}}" is none
    size_t mark = sign == '-' || plus ? 1 : 0;
    if (!at_text(lexer, at + mark, end)) return 0;
    size_t after = at + mark + 2;
    if (sign == '-') return 3 + spaces(lexer, after);
    bool newline = trim && mark == 0 && after < lexer->bytes && lexer->text[after] == '\n';
    return mark + 2 + (newline ? 1 : 0);
}

static void lex_comment(struct lexer *lexer)
{
    size_t at = lexer->at + 2 + (sign_at(lexer, lexer->at + 2) != 0 ? 1 : 0);
    size_t length = 0;
    bool empty = at == lexer->bytes; // an opening with nothing behind it is none to jinja2
    while (at < lexer->bytes && (length = tag_end(lexer, at, "#}", true)) == 0) at++;
    if (length == 0 && !empty) lex_fail(lexer, "a comment is not closed");
    step(lexer, at + length - lexer->at);
}

/* Bytes of "{% WORD %}" at `at`, 0: it is something else. *sign: the one that begins it. */
static size_t raw_tag(const struct lexer *lexer, size_t at, const char *word, bool trim, char *sign)
{
    if (!at_text(lexer, at, "{%")) return 0;
    *sign = sign_at(lexer, at + 2);
    size_t place = at + 2 + (*sign != 0 ? 1 : 0);
    place += spaces(lexer, place);
    if (!at_text(lexer, place, word)) return 0;
    place += strlen(word);
    place += spaces(lexer, place);
    char ending = sign_at(lexer, place);
    if (!trim && ending == '+') return 0;
    size_t end = tag_end(lexer, place, "%}", true);
    if (end == 0) return 0;
    bool newline = !trim && ending == 0 && end == 3; // "{% raw %}" keeps its newline
    return place + end - at - (newline ? 1 : 0);
}

static void lex_raw(struct lexer *lexer, size_t head)
{
    step(lexer, head);
    if (lexer->at == lexer->bytes) return; // as with comments
    for (size_t at = lexer->at; at < lexer->bytes; at++) {
        char sign = 0;
        size_t tag = raw_tag(lexer, at, "endraw", true, &sign);
        if (tag == 0) continue;
        emit_text(lexer, at, sign, false);
        step(lexer, tag);
        return;
    }
    lex_fail(lexer, "a raw block is not closed");
}

// ------------------------------------------------------------------ inside tags

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

/* Bytes of digits, which "_" may separate, at `at`. */
static size_t digits(const struct lexer *lexer, size_t at)
{
    size_t start = at;
    while (at < lexer->bytes) {
        bool separated =
            at > start && lexer->text[at] == '_' && at + 1 < lexer->bytes && is_digit(lexer->text[at + 1]);
        if (!is_digit(lexer->text[at]) && !separated) break;
        at++;
    }
    return at - start;
}

/* Bytes of a number with a fraction or an exponent at the current place; 0: it has neither. */
static size_t real_length(const struct lexer *lexer)
{
    size_t start = lexer->at;
    if (start > 0 && lexer->text[start - 1] == '.') return 0;
    size_t at = start + digits(lexer, start);
    size_t fraction = 0;
    if (at < lexer->bytes && lexer->text[at] == '.') fraction = digits(lexer, at + 1);
    if (fraction != 0) at += 1 + fraction;
    if (at < lexer->bytes && (lexer->text[at] == 'e' || lexer->text[at] == 'E')) {
        size_t sign = sign_at(lexer, at + 1) != 0 ? 1 : 0;
        size_t exponent = digits(lexer, at + 1 + sign);
        if (exponent != 0) return at + 1 + sign + exponent - start;
    }
    return fraction != 0 ? at - start : 0;
}

static void lex_real(struct lexer *lexer, size_t length)
{
    char digits_only[64];
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        if (lexer->text[lexer->at + i] == '_') continue;
        if (count + 1 >= sizeof digits_only) {
            lex_fail(lexer, "a number has more than 63 characters");
            return;
        }
        digits_only[count++] = lexer->text[lexer->at + i];
    }
    digits_only[count] = '\0';
    add_token(lexer, (struct jinja_token){JINJA_TOKEN_REAL, lexer->line, lexer->text + lexer->at, length, 0,
                                          strtod(digits_only, NULL)});
    step(lexer, length);
}

static int digit_of(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

static void lex_integer(struct lexer *lexer)
{
    const char *text = lexer->text + lexer->at;
    size_t left = lexer->bytes - lexer->at;
    char letter = left > 1 && text[0] == '0' ? (char)(text[1] | 0x20) : '\0';
    int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    size_t at = base == 10 ? 0 : 2;
    // A leading zero is a number of its own, as in jinja2: "012" is 0 and then 12.
    int highest = base == 10 && text[0] == '0' ? 1 : base;
    uint64_t value = 0;
    size_t count = 0;
    for (; at < left; at++) {
        if (text[at] == '_' && at + 1 < left && digit_of(text[at + 1]) < highest && (count > 0 || base != 10))
            continue;
        int digit = digit_of(text[at]);
        if (digit >= highest) break;
        if (value > ((uint64_t)INT64_MAX - (uint64_t)digit) / (uint64_t)base) {
            mt_jinja_parse_fail(lexer->parser, MT_ERR_UNSUPPORTED, lexer->line,
                                "an integer does not fit 64 bits");
            return;
        }
        value = value * (uint64_t)base + (uint64_t)digit;
        count++;
    }
    if (count == 0) at = 1; // "0x" alone: the number 0 and a name
    add_token(lexer, (struct jinja_token){JINJA_TOKEN_INTEGER, lexer->line, text, at, (int64_t)value, 0});
    step(lexer, at);
}

// ------------------------------------------------------------------ strings

/*
 * A string literal between its quotes, with Python's escapes, as jinja2 reads them (through
 * "unicode-escape").
 */
struct literal {
    struct lexer *lexer;
    const char *raw;
    size_t bytes;
    size_t at;
    char *out;
    size_t length;
};

static void put(struct literal *r, uint32_t character)
{
    r->length += mt_utf8_encode(character, (uint8_t *)r->out + r->length);
}

/* "\xhh", "\uhhhh" and "\Uhhhhhhhh"; r->at is behind the letter. */
static void put_hex(struct literal *r, size_t digits)
{
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++, r->at++) {
        int digit = r->at < r->bytes ? digit_of(r->raw[r->at]) : 99;
        if (digit > 15) {
            lex_fail(r->lexer, "a string has a broken escape");
            return;
        }
        value = value << 4 | (uint32_t)digit;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        mt_jinja_parse_fail(r->lexer->parser, MT_ERR_UNSUPPORTED, r->lexer->line,
                            "a string has the escape of a character that does not exist (U+%04X)", value);
    else
        put(r, value);
}

static void put_octal(struct literal *r)
{
    uint32_t value = 0;
    for (int i = 0; i < 3 && r->at < r->bytes && r->raw[r->at] >= '0' && r->raw[r->at] <= '7'; i++, r->at++)
        value = value << 3 | (uint32_t)(r->raw[r->at] - '0');
    put(r, value);
}

/* A backslash before a character beyond ASCII: jinja2 has made an escape of that one by then, and spoils it.
 */
static void put_spoiled(struct literal *r)
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

static void put_escape(struct literal *r)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char meanings[] = "\\'\"\a\b\f\n\r\t\v";
    char c = r->raw[r->at];
    const char *found = c != '\0' ? strchr(letters, c) : NULL;
    if ((unsigned char)c >= 0x80) {
        put_spoiled(r);
        return;
    }
    if (c >= '0' && c <= '7') {
        put_octal(r);
        return;
    }
    r->at++;
    if (c == 'x' || c == 'u' || c == 'U') {
        put_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
        mt_jinja_parse_fail(r->lexer->parser, MT_ERR_UNSUPPORTED, r->lexer->line,
                            "a string has the escape \\N, which is not known here");
    } else if (found != NULL) {
        put(r, (uint8_t)meanings[found - letters]);
    } else if (c != '\n') {
        put(r, '\\');
        put(r, (uint8_t)c);
    }
}

static void lex_string(struct lexer *lexer)
{
    char quote = lexer->text[lexer->at];
    size_t end = lexer->at + 1;
    void *memory = NULL;
    while (end < lexer->bytes && lexer->text[end] != quote) end += lexer->text[end] == '\\' ? 2 : 1;
    if (end >= lexer->bytes) {
        lex_fail(lexer, "a string is not closed");
        return;
    }
    struct literal r = {.lexer = lexer, .raw = lexer->text + lexer->at + 1, .bytes = end - lexer->at - 1};
    // A spoiled escape is the longest: 2 bytes of a backslash and a letter become 5, 5 become 10.
    if (!mt_jinja_parse_check(lexer->parser,
                              mt_arena_allocate(lexer->parser->arena, r.bytes * 4 + 4, &memory)))
        return;
    r.out = memory;
    while (r.at < r.bytes && !mt_jinja_parse_failed(lexer->parser)) {
        if (r.raw[r.at] != '\\') {
            r.out[r.length++] = r.raw[r.at++];
            continue;
        }
        r.at++;
        put_escape(&r);
    }
    add(lexer, JINJA_TOKEN_STRING, r.out, r.length);
    step(lexer, end + 1 - lexer->at);
}

// ------------------------------------------------------------------ operators and tags

/* Keeps brackets in pairs: inside them "}}" and "%}" do not end the tag. */
static void balance(struct lexer *lexer, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (lexer->open_count == BRACKETS)
            lex_fail(lexer, "more than 256 brackets are open");
        else
            lexer->open[lexer->open_count++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    }
    if (c != ')' && c != ']' && c != '}') return;
    char expected = lexer->open_count > 0 ? lexer->open[--lexer->open_count] : '\0';
    if (expected == '\0')
        mt_jinja_parse_fail(lexer->parser, MT_ERR_FORMAT, lexer->line, "unexpected '%c'", c);
    else if (expected != c)
        mt_jinja_parse_fail(lexer->parser, MT_ERR_FORMAT, lexer->line, "unexpected '%c', expected '%c'", c,
                            expected);
}

static void lex_operator(struct lexer *lexer)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                            "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!at_text(lexer, lexer->at, operators[i])) continue;
        balance(lexer, operators[i][0]);
        add(lexer, JINJA_TOKEN_OPERATOR, operators[i], strlen(operators[i]));
        step(lexer, strlen(operators[i]));
        return;
    }
    unsigned char c = (unsigned char)lexer->text[lexer->at];
    if (c >= 0x80)
        mt_jinja_parse_fail(lexer->parser, MT_ERR_UNSUPPORTED, lexer->line,
                            "names beyond ASCII are not known here");
    else
        mt_jinja_parse_fail(lexer->parser, MT_ERR_FORMAT, lexer->line, "unexpected character 0x%02x", c);
}

static void lex_inside(struct lexer *lexer)
{
    char c = lexer->text[lexer->at];
    size_t blank = spaces(lexer, lexer->at);
    if (blank != 0) {
        step(lexer, blank);
    } else if (is_digit(c)) {
        size_t length = real_length(lexer);
        if (length != 0)
            lex_real(lexer, length);
        else
            lex_integer(lexer);
    } else if (is_name_byte(c)) {
        size_t end = lexer->at;
        while (end < lexer->bytes && is_name_byte(lexer->text[end])) end++;
        add(lexer, JINJA_TOKEN_NAME, lexer->text + lexer->at, end - lexer->at);
        step(lexer, end - lexer->at);
    } else if (c == '"' || c == '\'') {
        lex_string(lexer);
    } else {
        lex_operator(lexer);
    }
}

/* "{{ ... }}" or "{% ... %}" from its opening on. */
static void lex_tag(struct lexer *lexer, bool variable)
{
    const char *end = variable ? "}}" : "%}";
    add(lexer, variable ? JINJA_TOKEN_VARIABLE_BEGIN : JINJA_TOKEN_BLOCK_BEGIN, NULL, 0);
    step(lexer, 2 + (sign_at(lexer, lexer->at + 2) != 0 ? 1 : 0));
    lexer->open_count = 0;
    // Where the template ends first, the parser says what is missing.
    while (lexer->at < lexer->bytes && !mt_jinja_parse_failed(lexer->parser)) {
        size_t length = lexer->open_count == 0 ? tag_end(lexer, lexer->at, end, !variable) : 0;
        if (length == 0) {
            lex_inside(lexer);
            continue;
        }
        add(lexer, variable ? JINJA_TOKEN_VARIABLE_END : JINJA_TOKEN_BLOCK_END, NULL, 0);
        step(lexer, length);
        return;
    }
}

static void lex_all(struct lexer *lexer)
{
    while (lexer->at < lexer->bytes && !mt_jinja_parse_failed(lexer->parser)) {
        size_t tag = lexer->at;
        while (tag < lexer->bytes && !at_text(lexer, tag, "{{") && !at_text(lexer, tag, "{%") &&
               !at_text(lexer, tag, "{#"))
            tag++;
        if (tag == lexer->bytes) {
            add(lexer, JINJA_TOKEN_DATA, lexer->text + lexer->at, tag - lexer->at);
            return;
        }
        char kind = lexer->text[tag + 1];
        emit_text(lexer, tag, sign_at(lexer, tag + 2), kind == '{');
        char sign = 0;
        size_t raw = kind == '%' ? raw_tag(lexer, tag, "raw", false, &sign) : 0;
        if (raw != 0)
            lex_raw(lexer, raw);
        else if (kind == '#')
            lex_comment(lexer);
        else
            lex_tag(lexer, kind == '{');
    }
}

/* A copy with every newline written \n and one at the end of the text left out, as jinja2 reads templates. */
static void normalize(struct lexer *lexer, const char *text, size_t bytes)
{
    enum mt_status status = MT_OK;
    char *copy = mt_arena_array(lexer->parser->arena, bytes + 1, 1, &status);
    if (!mt_jinja_parse_check(lexer->parser, status)) return;
    size_t out = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n') continue;
        copy[out++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (out > 0 && copy[out - 1] == '\n') out--;
    copy[out] = '\0';
    lexer->text = copy;
    lexer->bytes = out;
}

void mt_jinja_lex(struct jinja_parser *parser, const char *text, size_t bytes)
{
    struct lexer lexer = {.parser = parser, .line = 1, .line_starting = true};
    if (bytes > JINJA_TEMPLATE_BYTES)
        parser->status =
            mt_fail(parser->ctx, MT_ERR_UNSUPPORTED, "%s: the template has %zu bytes, the limit is %u",
                    parser->name, bytes, JINJA_TEMPLATE_BYTES);
    else if (!mt_utf8_valid((const uint8_t *)text, bytes))
        parser->status = mt_fail(parser->ctx, MT_ERR_FORMAT, "%s: the template is not UTF-8", parser->name);
    else
        normalize(&lexer, text, bytes);
    lex_all(&lexer);
    add(&lexer, JINJA_TOKEN_END, NULL, 0);
}
