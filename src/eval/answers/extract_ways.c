/* The ways to find an answer. */
#include "eval/answers/extract_ways.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "formats/text/lists.h"

struct mt_way_span mt_way_trimmed(struct mt_way_span span)
{
    while (span.bytes > 0 && isspace((unsigned char)span.text[0])) {
        span.text++;
        span.bytes--;
    }
    while (span.bytes > 0 && isspace((unsigned char)span.text[span.bytes - 1])) span.bytes--;
    return span;
}

// ------------------------------------------------------------------ numbers

static bool is_digit(const char *text, size_t bytes, size_t at)
{
    return at < bytes && isdigit((unsigned char)text[at]);
}

/* The end of a number whose first digit (or point) is at `at`. */
static size_t number_end(const char *text, size_t bytes, size_t at)
{
    size_t end = at;
    while (is_digit(text, bytes, end)) end++;
    size_t lead = end - at;
    bool grouped = lead >= 1 && lead <= 3;
    while (grouped && end < bytes && text[end] == ',' && is_digit(text, bytes, end + 1) &&
           is_digit(text, bytes, end + 2) && is_digit(text, bytes, end + 3) &&
           !is_digit(text, bytes, end + 4)) {
        end += 4;
    }
    if (end < bytes && text[end] == '.' && is_digit(text, bytes, end + 1)) {
        end++;
        while (is_digit(text, bytes, end)) end++;
    }
    return end;
}

/* Bytes of a minus sign that ends at `at`, when it is one and no hyphen. */
static size_t minus_before(const char *text, size_t at)
{
    size_t length = 0;
    if (at >= 1 && text[at - 1] == '-') length = 1;
    if (at >= 3 && memcmp(text + at - 3, "\xE2\x88\x92", 3) == 0) length = 3; // U+2212
    if (length == 0) return 0;
    size_t before = at - length;
    // "5-3", "covid-19", "(2)-1": a sign between two things is not the number's own.
    if (before > 0 && (isalnum((unsigned char)text[before - 1]) || strchr(")]}-", text[before - 1]) != NULL))
        return 0;
    return length;
}

bool mt_way_last_number(const char *text, size_t bytes, struct mt_way_span *span)
{
    bool found = false;
    for (size_t at = 0; at < bytes;) {
        bool point = text[at] == '.' && is_digit(text, bytes, at + 1) && (at == 0 || text[at - 1] != '.');
        if (!is_digit(text, bytes, at) && !point) {
            at++;
            continue;
        }
        // Digits inside a name, as in x2 or H2O, are not numbers.
        bool in_name = at > 0 && (isalpha((unsigned char)text[at - 1]) || text[at - 1] == '_');
        size_t end = number_end(text, bytes, at);
        if (end < bytes && text[end] == '/' && is_digit(text, bytes, end + 1)) {
            size_t under = number_end(text, bytes, end + 1);
            bool date = under < bytes && text[under] == '/';
            if (!date) end = under;
        }
        if (!in_name) {
            size_t before = at > 0 && text[at - 1] == '$' ? at - 1 : at;
            size_t minus = minus_before(text, before);
            size_t start = minus > 0 ? before - minus : at;
            *span = (struct mt_way_span){.text = text + start, .bytes = end - start};
            found = true;
        }
        at = end;
    }
    return found;
}

// ------------------------------------------------------------------ boxes, lines, programs

/* The end of a group whose opening brace is before `at`; `bytes` + 1 when it never closes. */
static size_t closing_brace(const char *text, size_t bytes, size_t at)
{
    int open = 1;
    for (; at < bytes; at++) {
        if (text[at] == '\\' && at + 1 < bytes) {
            at++; // \{ and \} are no group's
        } else if (text[at] == '{') {
            open++;
        } else if (text[at] == '}') {
            open--;
            if (open == 0) return at;
        }
    }
    return bytes + 1;
}

/* True when the brace at `at` stands behind a backslash that is not itself behind one. */
static bool is_escaped(const char *text, size_t at)
{
    size_t slashes = 0;
    while (slashes < at && text[at - 1 - slashes] == '\\') slashes++;
    return slashes % 2 == 1;
}

/* The box at `at`. `closed`: the brace behind its name, if there is one, closes. */
static bool box_at(const char *text, size_t bytes, size_t at, bool closed, struct mt_way_span *span)
{
    static const char *const names[] = {"\\boxed", "\\fbox"};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(names[i]);
        if (at + length >= bytes || memcmp(text + at, names[i], length) != 0) continue;
        size_t start = at + length;
        while (start < bytes && text[start] == ' ') start++;
        if (start == bytes) return false;
        if (text[start] != '{') { // \boxed 5
            size_t end = start;
            if (start == at + length) return false;
            while (end < bytes && !isspace((unsigned char)text[end]) && strchr("$.,", text[end]) == NULL)
                end++;
            *span = (struct mt_way_span){.text = text + start, .bytes = end - start};
            return end > start;
        }
        if (!closed) return false;
        size_t end = closing_brace(text, bytes, start + 1);
        if (end > bytes) return false;
        *span = (struct mt_way_span){.text = text + start + 1, .bytes = end - start - 1};
        return true;
    }
    return false;
}

bool mt_way_boxed(const char *text, size_t bytes, struct mt_way_span *span)
{
    size_t closing = 0;  // braces behind `at` that close what is opened before them
    bool closed = false; // the first opening brace behind `at` is closed
    for (size_t at = bytes; at-- > 0;) {
        if (text[at] == '\\' && box_at(text, bytes, at, closed, span)) return true;
        if (text[at] == '}' && !is_escaped(text, at)) closing++;
        if (text[at] != '{' || is_escaped(text, at)) continue;
        closed = closing > 0;
        closing -= closed ? 1 : 0;
    }
    return false;
}

bool mt_way_line(const char *text, size_t bytes, bool last, struct mt_way_span *span)
{
    bool found = false;
    for (size_t at = 0; at < bytes && (last || !found);) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : bytes - at;
        struct mt_way_span line = mt_way_trimmed((struct mt_way_span){.text = text + at, .bytes = length});
        if (line.bytes > 0) {
            *span = line;
            found = true;
        }
        at += length + 1;
    }
    return found;
}

static const char *find(const char *text, const char *end, const char *what)
{
    size_t length = strlen(what);
    for (; (size_t)(end - text) >= length; text++) {
        if (memcmp(text, what, length) == 0) return text;
    }
    return NULL;
}

/* The first block between fences that defines a function, else the first; without a fence, all. */
bool mt_way_code(const char *text, size_t bytes, struct mt_way_span *span)
{
    const char *end = text + bytes;
    const char *fence = find(text, end, "```");
    bool found = false;
    *span = (struct mt_way_span){.text = text, .bytes = bytes};
    while (fence != NULL) {
        const char *line = memchr(fence, '\n', (size_t)(end - fence));
        if (line == NULL) break;
        const char *close = find(line, end, "```");
        struct mt_way_span block = {.text = line + 1,
                                    .bytes = (size_t)((close != NULL ? close : end) - line)};
        block.bytes -= block.bytes > 0 ? 1 : 0;
        bool defines = find(block.text, block.text + block.bytes, "def ") != NULL;
        if (!found || defines) *span = block;
        found = true;
        if (defines || close == NULL) break;
        fence = find(close + 3, end, "```");
    }
    return span->bytes > 0;
}

// ------------------------------------------------------------------ choices

/*
 * How an answer is announced, and what may stand between that and the answer. What a repeat has taken (++) it
 * does not give back: nothing else could take it, and trying takes a time quadratic in a run of spaces.
 */
#define ANNOUNCED                                                                                            \
    "(?i:\\b(?:answer|choice|option|conclusion)s?\\b(?:[ \\t]++(?:to|for)[^.:\\n]{0,80}?)?"                  \
    "(?:[ \\t]*+\\*\\*)?(?:[ \\t]++(?:is|are|would be|must be|should be|has to be|therefore is))?"           \
    "(?:[ \\t]++(?:indeed|then|thus|clearly|therefore|option|choice|letter|simply))?[ \\t]*+[:=]?+)"
#define OPENING                                                                                              \
    "(?:[\\s*_$(\\[\"'`]++|\\\\boxed\\{|\\\\text\\{|\\\\textbf\\{|\\\\mathrm\\{|(?i:option|choice|"          \
    "letter)[ ]){0,16}"

enum mt_status mt_way_letter_patterns(struct mt_context *ctx, struct mt_pattern **patterns)
{
    static const char *const texts[] = {
        // "The answer is (C)", "Answer: **C**", "correct option is C"
        ANNOUNCED OPENING
        "([A-Z])(?![A-Za-z0-9])(?!'[a-z])(?! (?:think|believe|guess|would|am|bit|few|lot)\\b)",
        // "\boxed{\text{C}}"
        "\\\\boxed\\{[^A-Za-z{}]*+(?:(?<=\\\\)[a-z]++\\{[^A-Za-z{}]*+)?+([A-Z])(?![A-Za-z])",
        // "C is correct", "(C) is the best choice"
        "(?<![A-Za-z'])([A-Z])\\)?(?:\\*\\*)? (?:is|would be|must be) (?:the "
        ")?(?i:correct|right|best|true|answer)",
        // a line of its own: "C", "(C)", "**C**."
        "(?m)^[^A-Za-z0-9\\n]*([A-Z])[^A-Za-z0-9\\n]*$",
        // the beginning: "C. Paris", "(C) Paris", "C) Paris", "C: Paris"
        "\\A\\s*(?:\\*\\*)?\\(?([A-Z])(?:\\)|[.:](?!\\w)|\\*\\*|,(?= ))"
        "(?! (?:is|says|would|seems|can|and|or|implies|fails)\\b)",
        // the last "(C)" or "C)" or "**C"
        "(?:\\(([A-Z])\\)|(?<=[ \\n*])([A-Z])\\)|\\*\\*([A-Z])[.):]?(?: [^*\\n]*)?\\*\\*)",
        // the last capital letter that stands alone and is no word
        "(?<![A-Za-z0-9'])(?!(?:A|I) [a-z])([A-Z])(?![A-Za-z0-9'])",
    };
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == MT_OK; i++) {
        status = mt_pattern_create(ctx, texts[i], &patterns[i]);
    }
    return status;
}

bool mt_way_letter(struct mt_pattern *const *patterns, const char *text, size_t bytes, int choices,
                   struct mt_way_span *span)
{
    char last = (char)(choices > 0 && choices < 26 ? 'A' + choices - 1 : 'Z');
    for (int i = 0; i < MT_WAY_PATTERNS && patterns[i] != NULL; i++) {
        struct mt_pattern_match match;
        size_t from = 0;
        bool found = false;
        // The last match whose letter is one of the choices.
        while (from < bytes && mt_pattern_find(patterns[i], text, bytes, from, &match)) {
            from = match.to > from ? match.to : from + 1;
            while (from < bytes && ((unsigned char)text[from] & 0xC0u) == 0x80u) from++;
            if (text[match.start] > last) continue;
            *span = (struct mt_way_span){.text = text + match.start, .bytes = 1};
            found = true;
        }
        if (found) return true;
    }
    return false;
}

// ------------------------------------------------------------------ words

/* Appends "(?i:yes|no)", what is special in a pattern escaped. */
static enum mt_status append_words(struct mt_byte_list *out, const char *const *words)
{
    enum mt_status status = mt_byte_list_append_text(out, "((?i:");
    for (size_t i = 0; words[i] != NULL && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(out, "|");
        for (const char *at = words[i]; *at != '\0' && status == MT_OK; at++) {
            bool plain = isalnum((unsigned char)*at) || (unsigned char)*at >= 128;
            if (!plain) status = mt_byte_list_append_text(out, "\\");
            if (status == MT_OK) status = mt_byte_list_append(out, at, 1);
        }
    }
    return status == MT_OK ? mt_byte_list_append_text(out, "))") : status;
}

enum mt_status mt_way_word_patterns(struct mt_context *ctx, const char *const *words,
                                    struct mt_pattern **patterns)
{
    static const char *const around[][2] = {
        {ANNOUNCED OPENING, "(?![A-Za-z0-9_])"},
        {"\\\\boxed\\{(?:\\\\[a-z]+\\{)?\\s*", "(?![A-Za-z0-9_])"},
        {"(?m)^[^A-Za-z0-9\\n]*", "[^A-Za-z0-9\\n]*$"},
        {"\\A[^A-Za-z0-9]*", "(?![A-Za-z0-9_])"},
        {"(?<![A-Za-z0-9_])", "(?![A-Za-z0-9_])"},
    };
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof around / sizeof around[0] && status == MT_OK; i++) {
        struct mt_byte_list text = {.ctx = ctx};
        status = mt_byte_list_append_text(&text, around[i][0]);
        if (status == MT_OK) status = append_words(&text, words);
        if (status == MT_OK) status = mt_byte_list_append_text(&text, around[i][1]);
        if (status == MT_OK) status = mt_byte_list_append(&text, "", 1);
        if (status == MT_OK) status = mt_pattern_create(ctx, (const char *)text.data, &patterns[i]);
        mt_byte_list_free(&text);
    }
    return status;
}

bool mt_way_words(struct mt_pattern *const *patterns, const char *const *words, const char *text,
                  size_t bytes, struct mt_way_span *span)
{
    for (int i = 0; i < MT_WAY_PATTERNS && patterns[i] != NULL; i++) {
        struct mt_pattern_match match;
        if (!mt_pattern_find_last(patterns[i], text, bytes, &match)) continue;
        for (size_t k = 0; words[k] != NULL; k++) {
            size_t length = strlen(words[k]);
            if (length != match.end - match.start) continue;
            if (strncasecmp(words[k], text + match.start, length) != 0) continue;
            *span = (struct mt_way_span){.text = words[k], .bytes = length};
            return true;
        }
    }
    return false;
}
