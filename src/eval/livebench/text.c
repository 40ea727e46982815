/* Patterns, pieces, sentences and JSON of answers. */
#include "eval/livebench/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "eval/answers/pattern.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

/* Lines end with \n alone, and white space and digits are Unicode's: as Python's re has it. */
#define LIKE_PYTHON "(*LF)(*UCP)"
#define MOST_DEPTH  512 // of JSON

struct mt_text mt_livebench_stripped(struct mt_text text)
{
    const uint8_t *data = (const uint8_t *)text.text;
    size_t start = 0;
    size_t end = text.bytes;
    size_t bytes = 0;
    while (start < end && mt_unicode_is_space(mt_utf8_decode(data + start, &bytes))) start += bytes;
    while (end > start) {
        size_t last = mt_utf8_previous(data, end);
        if (!mt_unicode_is_space(mt_utf8_decode(data + last, &bytes))) break;
        end = last;
    }
    return (struct mt_text){.text = text.text + start, .bytes = end - start};
}

bool mt_livebench_last_between(struct mt_text text, const char *before, const char *behind,
                               struct mt_text *inner)
{
    bool found = false;
    for (size_t at = mt_text_find(text, 0, before); at < text.bytes; at = mt_text_find(text, at, before)) {
        size_t start = at + strlen(before);
        size_t stop = mt_text_find(text, start, behind);
        if (stop == text.bytes) break;
        *inner = (struct mt_text){.text = text.text + start, .bytes = stop - start};
        found = true;
        at = stop + strlen(behind);
    }
    return found;
}

struct mt_text mt_livebench_solution(struct mt_text text)
{
    struct mt_text inner;
    while (mt_livebench_last_between(text, "<solution>", "</solution>", &inner))
        text = mt_livebench_stripped(inner);
    return text;
}

/* Appends a pattern that matches the text and nothing else. */
static enum mt_status append_quoted(struct mt_byte_list *pattern, struct mt_text literal)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < literal.bytes && status == MT_OK; i++) {
        unsigned char byte = (unsigned char)literal.text[i];
        // A backslash before a letter or digit would mean something, before other ASCII it quotes.
        if (byte < 0x80 && !isalnum(byte)) status = mt_byte_list_append(pattern, "\\", 1);
        if (status == MT_OK) status = mt_byte_list_append(pattern, &byte, 1);
    }
    return status;
}

enum mt_status mt_livebench_count(struct mt_context *ctx, const char *before, struct mt_text literal,
                                  const char *behind, struct mt_text text, size_t *count)
{
    struct mt_byte_list whole = {.ctx = ctx};
    struct mt_pattern *pattern = NULL;
    *count = 0;
    enum mt_status status = mt_byte_list_append_text(&whole, LIKE_PYTHON);
    if (status == MT_OK) status = mt_byte_list_append_text(&whole, before);
    if (status == MT_OK) status = append_quoted(&whole, literal);
    if (status == MT_OK) status = mt_byte_list_append(&whole, behind, strlen(behind) + 1);
    if (status == MT_OK) status = mt_pattern_create(ctx, (const char *)whole.data, &pattern);
    size_t from = 0;
    bool more = status == MT_OK;
    while (more) {
        (void)mt_livebench_next_piece(pattern, text, &from, &more);
        if (more) *count += 1;
    }
    if (status == MT_OK) status = mt_pattern_status(pattern);
    mt_pattern_free(pattern);
    mt_byte_list_free(&whole);
    return status;
}

struct mt_text mt_livebench_next_piece(struct mt_pattern *separator, struct mt_text text, size_t *from,
                                       bool *more)
{
    struct mt_pattern_match match;
    struct mt_text piece = {.text = text.text + *from, .bytes = text.bytes - *from};
    *more = mt_pattern_find(separator, text.text, text.bytes, *from, &match) && match.to > match.from;
    if (!*more) return piece;
    piece.bytes = match.from - *from;
    *from = match.to;
    return piece;
}

// ------------------------------------------------------------------ sentences

/* With their dot they end no sentence. */
static const char *const abbreviations[] = {
    "mr",  "mrs", "ms",  "dr",  "prof", "st",  "sr",  "jr",   "vs",  "gen", "col", "lt",    "capt",
    "sgt", "rev", "hon", "sen", "rep",  "gov", "mt",  "no",   "inc", "ltd", "co",  "corp",  "etc",
    "e.g", "i.e", "jan", "feb", "mar",  "apr", "aug", "sept", "oct", "nov", "dec", "approx"};

/* The word before the dot at `dot` is one of those, a single letter, or letters with dots between (U.S). */
static bool is_abbreviated(const char *text, size_t dot)
{
    size_t start = dot;
    while (start > 0 && (isalpha((unsigned char)text[start - 1]) || text[start - 1] == '.')) start--;
    size_t bytes = dot - start;
    if (bytes == 0) return false;
    bool letters = bytes % 2 == 1; // A, U.S, U.S.A
    for (size_t i = 0; i < bytes && letters; i++)
        letters = (text[start + i] == '.') == (i % 2 == 1) && text[start + i] != 'I';
    for (size_t i = 0; i < sizeof abbreviations / sizeof abbreviations[0] && !letters; i++)
        letters =
            strlen(abbreviations[i]) == bytes && strncasecmp(abbreviations[i], text + start, bytes) == 0;
    return letters;
}

/* Behind the marks and brackets that close what ends at `at`. */
static size_t behind_closing(struct mt_text text, size_t at)
{
    static const char *const closing[] = {"\"", "'", ")", "]", "}", "*", "_", "\u201d", "\u2019"};
    size_t i = 0;
    while (i < sizeof closing / sizeof closing[0]) {
        size_t bytes = strlen(closing[i]);
        bool here = text.bytes - at >= bytes && memcmp(text.text + at, closing[i], bytes) == 0;
        at += here ? bytes : 0;
        i = here ? 0 : i + 1;
    }
    return at;
}

size_t mt_livebench_sentences(struct mt_text text)
{
    struct mt_text all = mt_livebench_stripped(text);
    size_t count = 0;
    size_t start = 0; // of the sentence in hand
    size_t at = 0;
    while (at < all.bytes) {
        size_t marks = at;
        bool only_dots = true;
        while (marks < all.bytes && strchr(".?!", all.text[marks]) != NULL && all.text[marks] != '\0') {
            only_dots = only_dots && all.text[marks] == '.';
            marks++;
        }
        if (marks == at) {
            at++;
            continue;
        }
        size_t dots = only_dots ? marks - at : 0;
        size_t end = behind_closing(all, marks);
        size_t next = end;
        while (next < all.bytes && isspace((unsigned char)all.text[next])) next++;
        bool ends = next == all.bytes || next > end;
        if (ends && dots == 1 && next < all.bytes && is_abbreviated(all.text, at)) ends = false;
        if (dots > 1 && next < all.bytes && !isupper((unsigned char)all.text[next])) ends = false;
        at = end;
        if (!ends) continue;
        count++;
        start = next;
    }
    return count + (start < all.bytes ? 1 : 0);
}

// ------------------------------------------------------------------ JSON

// jansson is stricter than what answers are held against: keys twice, NaN.
struct json_scan {
    struct mt_text rest;
    bool in_object[MOST_DEPTH]; // of every open bracket, whether it is a brace
    int depth;
};

static void skip_space(struct json_scan *scan)
{
    while (mt_text_take(&scan->rest, " ") || mt_text_take(&scan->rest, "\t") ||
           mt_text_take(&scan->rest, "\r") || mt_text_take(&scan->rest, "\n"))
        continue;
}

static bool take(struct json_scan *scan, const char *word)
{
    return mt_text_take(&scan->rest, word);
}

/* The next byte; 0 at the end. */
static unsigned char take_byte(struct json_scan *scan)
{
    if (scan->rest.bytes == 0) return 0;
    unsigned char byte = (unsigned char)scan->rest.text[0];
    scan->rest = mt_text_from(scan->rest, 1);
    return byte;
}

static bool take_string(struct json_scan *scan)
{
    if (!take(scan, "\"")) return false;
    for (unsigned char byte = take_byte(scan); byte >= 0x20; byte = take_byte(scan)) {
        if (byte == '"') return true;
        if (byte != '\\') continue;
        unsigned char escape = take_byte(scan);
        if (escape == '\0' || strchr("\"\\/bfnrtu", escape) == NULL) return false;
        for (int i = 0; escape == 'u' && i < 4; i++) {
            if (!isxdigit(take_byte(scan))) return false;
        }
    }
    return false;
}

static bool take_digits(struct json_scan *scan)
{
    size_t count = 0;
    while (count < scan->rest.bytes && isdigit((unsigned char)scan->rest.text[count])) count++;
    scan->rest = mt_text_from(scan->rest, count);
    return count > 0;
}

static bool take_number(struct json_scan *scan)
{
    (void)take(scan, "-");
    if (take(scan, "Infinity")) return true;
    if (!take(scan, "0") && !take_digits(scan)) return false;
    if (take(scan, ".") && !take_digits(scan)) return false;
    if (!take(scan, "e") && !take(scan, "E")) return true;
    if (!take(scan, "+")) (void)take(scan, "-");
    return take_digits(scan);
}

/* A value without others in it. */
static bool take_scalar(struct json_scan *scan)
{
    return take_string(scan) || take(scan, "true") || take(scan, "false") || take(scan, "null") ||
           take(scan, "NaN") || take_number(scan);
}

/* The key and colon of a member, where the innermost bracket is a brace. */
static bool take_key(struct json_scan *scan)
{
    if (!scan->in_object[scan->depth - 1]) return true;
    skip_space(scan);
    if (!take_string(scan)) return false;
    skip_space(scan);
    return take(scan, ":");
}

/* Behind a value: closes brackets until a comma asks for another value. False: neither fits. */
static bool take_end(struct json_scan *scan)
{
    while (scan->depth > 0) {
        skip_space(scan);
        if (take(scan, ",")) return take_key(scan);
        if (!take(scan, scan->in_object[scan->depth - 1] ? "}" : "]")) return false;
        scan->depth--;
    }
    return true;
}

bool mt_livebench_is_json(struct mt_text text)
{
    struct json_scan scan = {.rest = text};
    do {
        skip_space(&scan);
        bool brace = take(&scan, "{");
        if (!brace && !take(&scan, "[")) {
            if (!take_scalar(&scan) || !take_end(&scan)) return false;
            continue;
        }
        if (scan.depth == MOST_DEPTH) return false;
        scan.in_object[scan.depth++] = brace;
        skip_space(&scan);
        if (take(&scan, brace ? "}" : "]")) {
            scan.depth--;
            if (!take_end(&scan)) return false;
        } else if (!take_key(&scan)) {
            return false;
        }
    } while (scan.depth > 0);
    skip_space(&scan);
    return scan.rest.bytes == 0;
}
