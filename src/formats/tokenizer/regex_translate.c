/*
 * From the patterns tokenizers carry (Oniguruma's Ruby syntax, or Rust's) to PCRE2's. Most of a pattern is
 * the same in all of them and is copied. What is not:
 *   - \s \w \d \h \v \b and \p{...} name other sets: they are spelled out, with the characters PCRE2 is too
 * old to know added;
 *   - classes nest and intersect: [a[bc]], [\p{L}&&[^\p{Han}]] become alternatives and look-aheads;
 *   - {,n} means {0,n}; (?m) means "dot matches newline"; \uHHHH is a character.
 * What cannot be carried over is refused by name.
 */
#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/unicode.h"

#include <stdio.h>

#define MAX_CLASS_DEPTH 8

static const char space_set[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"
                                "\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

struct translator {
    struct mt_context *ctx;
    const char *pattern; // whole, for messages
    const char *at;      // NUL-terminated
};

/* One operand of a class: what fits between brackets, and whole alternatives ("|[^...]") for what does not.
 */
struct class_operand {
    struct mt_byte_list simple;
    struct mt_byte_list others;
};

static enum mt_status refuse(const struct translator *t, const char *what)
{
    return mt_fail(t->ctx, MT_ERR_UNSUPPORTED, "the regular expression '%s' uses %s, which is not supported",
                   mt_printable(t->pattern).text, what);
}

static enum mt_status append_range(struct mt_byte_list *out, uint32_t first, uint32_t last)
{
    char text[48];
    (void)snprintf(text, sizeof text, first == last ? "\\x{%x}" : "\\x{%x}-\\x{%x}", first, last);
    return mt_byte_list_append_text(out, text);
}

static enum mt_status append_ranges(struct mt_byte_list *out, const struct mt_code_range *ranges,
                                    size_t count)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        status = append_range(out, ranges[i].first, ranges[i].last);
    }
    return status;
}

/* A general category of one or two letters: PCRE2's set and the newer characters. */
static enum mt_status append_category(struct mt_byte_list *out, const char *name)
{
    char text[16];
    (void)snprintf(text, sizeof text, "\\p{%s}", name);
    enum mt_status status = mt_byte_list_append_text(out, text);
    for (size_t i = 0; status == MT_OK && i < mt_unicode_added_count; i++) {
        const struct mt_category_range *range = &mt_unicode_added[i];
        if (range->category[0] != name[0] || (name[1] != '\0' && range->category[1] != name[1])) continue;
        status = append_range(out, range->first, range->last);
    }
    return status;
}

static enum mt_status append_alphabetic(struct mt_byte_list *out)
{
    enum mt_status status = mt_byte_list_append_text(out, "\\p{Alphabetic}");
    if (status != MT_OK) return status;
    return append_ranges(out, mt_unicode_alphabetic_added, mt_unicode_alphabetic_added_count);
}

static enum mt_status append_word(struct mt_byte_list *out)
{
    // Oniguruma also counts the superscript digits and fractions of Latin-1.
    enum mt_status status = mt_byte_list_append_text(out, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
    if (status == MT_OK) status = append_alphabetic(out);
    if (status == MT_OK) status = append_category(out, "M");
    if (status == MT_OK) status = append_category(out, "Nd");
    if (status == MT_OK) status = append_category(out, "Pc");
    return status;
}

static bool is_category(const char *name)
{
    static const char *const seconds[][2] = {{"L", "ultmo"}, {"M", "nce"}, {"N", "dlo"},  {"P", "cdseifo"},
                                             {"S", "mcko"},  {"Z", "slp"}, {"C", "cfnos"}};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        if (name[0] != seconds[i][0][0]) continue;
        if (name[1] == '\0') return true;
        return name[2] == '\0' && strchr(seconds[i][1], name[1]) != NULL;
    }
    return false;
}

static enum mt_status append_property(const struct translator *t, struct mt_byte_list *out, const char *name)
{
    static const char *const scripts[] = {"Hiragana", "Katakana", "Hangul",     "Latin",
                                          "Cyrillic", "Greek",    "Arabic",     "Hebrew",
                                          "Thai",     "Bopomofo", "Devanagari", "Common"};
    if (name[0] == 'C' && (name[1] == '\0' || (name[1] == 'n' && name[2] == '\0'))) {
        return refuse(t, "\\p{C} or \\p{Cn}"); // newer characters would have to be taken away, not added
    }
    if (is_category(name)) return append_category(out, name);
    if (strcmp(name, "Alphabetic") == 0) return append_alphabetic(out);
    if (strcmp(name, "White_Space") == 0) return mt_byte_list_append_text(out, space_set);
    if (strcmp(name, "Han") == 0) {
        enum mt_status status = mt_byte_list_append_text(out, "\\p{sc:Han}");
        if (status != MT_OK) return status;
        return append_ranges(out, mt_unicode_han_added, mt_unicode_han_added_count);
    }
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        if (strcmp(name, scripts[i]) != 0) continue;
        char text[48];
        (void)snprintf(text, sizeof text, "\\p{sc:%s}", name);
        return mt_byte_list_append_text(out, text);
    }
    char what[MT_PRINTABLE_BYTES + 32];
    (void)snprintf(what, sizeof what, "the property \\p{%s}", mt_printable(name).text);
    return refuse(t, what);
}

/* Reads the {Name} or {^Name} of \p; t->at stands behind the p. */
static enum mt_status read_property_name(struct translator *t, char name[32], bool *negated)
{
    if (t->at[0] != '{') return refuse(t, "\\p without braces");
    t->at++;
    if (t->at[0] == '^') {
        *negated = !*negated;
        t->at++;
    }
    const char *end = strchr(t->at, '}');
    if (end == NULL || end == t->at || end - t->at > 31) return refuse(t, "a malformed \\p{...}");
    size_t length = (size_t)(end - t->at);
    memcpy(name, t->at, length);
    name[length] = '\0';
    t->at = end + 1;
    return MT_OK;
}

/*
 * Reads one of the escapes that stand for a set (the letter is *t->at); appends what goes between brackets
 * and tells whether the set is meant, or its complement. *is_set is false, and nothing read, for other
 * letters.
 */
static enum mt_status read_set(struct translator *t, struct mt_byte_list *out, bool *negated, bool *is_set)
{
    char letter = t->at[0];
    *is_set = letter != '\0' && strchr("sSwWdDhHpP", letter) != NULL;
    *negated = letter >= 'A' && letter <= 'Z';
    if (!*is_set) return MT_OK;
    t->at++;
    switch (letter) {
    case 's':
    case 'S': return mt_byte_list_append_text(out, space_set);
    case 'w':
    case 'W': return append_word(out);
    case 'd':
    case 'D': return append_category(out, "Nd");
    case 'h':
    case 'H': return mt_byte_list_append_text(out, "0-9a-fA-F");
    default: break;
    }
    char name[32];
    enum mt_status status = read_property_name(t, name, negated);
    return status == MT_OK ? append_property(t, out, name) : status;
}

static bool read_hex(const char **at, size_t min_digits, size_t max_digits, uint32_t *value)
{
    size_t digits = 0;
    *value = 0;
    while (digits < max_digits) {
        char c = **at;
        uint32_t digit = 0;
        if (c >= '0' && c <= '9') {
            digit = (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)(c - 'A') + 10;
        } else {
            break;
        }
        *value = *value * 16 + digit;
        digits++;
        (*at)++;
    }
    return digits >= min_digits;
}

/* Reads an escape that stands for one character; t->at stands behind the backslash. */
static enum mt_status read_escaped_character(struct translator *t, bool in_class, uint32_t *character)
{
    static const char letters[] = "ntrfvae";
    static const char values[] = "\n\t\r\f\v\a\x1b";
    char letter = t->at[0];
    if (letter == '\0') return refuse(t, "a backslash at the end");
    const char *known = strchr(letters, letter);
    if (known != NULL || (in_class && letter == 'b')) {
        *character = known != NULL ? (uint32_t)values[known - letters] : '\b';
        t->at++;
        return MT_OK;
    }
    bool good = true;
    if (letter == 'x' && t->at[1] == '{') {
        t->at += 2;
        good = read_hex(&t->at, 1, 6, character) && t->at[0] == '}';
        t->at += good;
    } else if (letter == 'x' || letter == 'u') {
        t->at++;
        good = read_hex(&t->at, letter == 'x' ? 1 : 4, letter == 'x' ? 2 : 4, character);
    } else if ((letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
               (letter >= 'A' && letter <= 'Z')) {
        char what[32];
        (void)snprintf(what, sizeof what, "the escape \\%c", letter);
        return refuse(t, what);
    } else {
        size_t bytes = 0;
        *character = mt_utf8_decode((const uint8_t *)t->at, &bytes);
        t->at += bytes;
    }
    if (!good || *character > 0x10FFFF || (*character >= 0xD800 && *character <= 0xDFFF)) {
        return refuse(t, "a malformed escape");
    }
    return MT_OK;
}

static enum mt_status translate_class(struct translator *t, int depth, struct mt_byte_list *simple,
                                      struct mt_byte_list *whole);

/* A set escape inside a class: between the brackets when positive, an alternative of its own when negative.
 */
static enum mt_status class_set(struct translator *t, struct class_operand *operand, bool *is_set)
{
    struct mt_byte_list set = {.ctx = t->ctx};
    bool negated = false;
    enum mt_status status = read_set(t, &set, &negated, is_set);
    if (status == MT_OK && *is_set) {
        if (negated) status = mt_byte_list_append_text(&operand->others, "|[^");
        struct mt_byte_list *target = negated ? &operand->others : &operand->simple;
        if (status == MT_OK) status = mt_byte_list_append(target, set.data, set.count);
        if (status == MT_OK && negated) status = mt_byte_list_append_text(&operand->others, "]");
    }
    mt_byte_list_free(&set);
    return status;
}

/* One character of a class, plain or escaped. */
static enum mt_status class_character(struct translator *t, uint32_t *character)
{
    if (t->at[0] == '\\') {
        t->at++;
        return read_escaped_character(t, true, character);
    }
    size_t bytes = 0;
    *character = mt_utf8_decode((const uint8_t *)t->at, &bytes);
    t->at += bytes;
    return MT_OK;
}

/* A character or a range. */
static enum mt_status class_range(struct translator *t, struct class_operand *operand)
{
    uint32_t first = 0;
    enum mt_status status = class_character(t, &first);
    if (status != MT_OK) return status;
    uint32_t last = first;
    bool is_range = t->at[0] == '-' && t->at[1] != ']' && t->at[1] != '\0';
    if (is_range && t->at[1] == '[') return refuse(t, "a range that ends in a class");
    if (is_range && t->at[1] == '\\' && t->at[2] != '\0' && strchr("sSwWdDhHpP", t->at[2]) != NULL) {
        return refuse(t, "a range that ends in a set");
    }
    if (is_range) {
        t->at++;
        status = class_character(t, &last);
        if (status != MT_OK) return status;
        if (last < first) return refuse(t, "a range that runs backwards");
    }
    return append_range(&operand->simple, first, last);
}

/* One member of a class, at t->at: a nested class, a set, a character or a range. */
static enum mt_status class_member(struct translator *t, int depth, struct class_operand *operand)
{
    if (t->at[0] == '[') {
        if (t->at[1] == ':') return refuse(t, "a POSIX class [:...:]");
        t->at++;
        struct mt_byte_list whole = {.ctx = t->ctx};
        enum mt_status status = translate_class(t, depth + 1, &operand->simple, &whole);
        if (status == MT_OK && whole.count != 0) {
            status = mt_byte_list_append_text(&operand->others, "|");
            if (status == MT_OK) status = mt_byte_list_append(&operand->others, whole.data, whole.count);
        }
        mt_byte_list_free(&whole);
        return status;
    }
    if (t->at[0] == '\\') {
        bool is_set = false;
        t->at++;
        enum mt_status status = class_set(t, operand, &is_set);
        if (status != MT_OK || is_set) return status;
        t->at--;
    }
    return class_range(t, operand);
}

/* Appends an operand as something that matches one character. */
static enum mt_status append_operand(const struct translator *t, const struct class_operand *operand,
                                     struct mt_byte_list *out)
{
    if (operand->simple.count == 0 && operand->others.count == 0) return refuse(t, "an empty class");
    enum mt_status status = mt_byte_list_append_text(out, operand->others.count != 0 ? "(?:" : "");
    if (status == MT_OK && operand->simple.count != 0) {
        status = mt_byte_list_append_text(out, "[");
        if (status == MT_OK) status = mt_byte_list_append(out, operand->simple.data, operand->simple.count);
        if (status == MT_OK) status = mt_byte_list_append_text(out, "]");
    }
    if (status == MT_OK && operand->others.count != 0) {
        size_t skip = operand->simple.count == 0 ? 1 : 0; // the first '|'
        status = mt_byte_list_append(out, operand->others.data + skip, operand->others.count - skip);
        if (status == MT_OK) status = mt_byte_list_append_text(out, ")");
    }
    return status;
}

/*
 * Reads the operands behind '[' and an eventual '^', up to and with ']'. All but the first become look-aheads
 * in `conditions`; the first stays in `first`.
 */
static enum mt_status read_operands(struct translator *t, int depth, struct class_operand *first,
                                    struct mt_byte_list *conditions)
{
    struct class_operand later = {{.ctx = t->ctx}, {.ctx = t->ctx}};
    struct class_operand *operand = first;
    enum mt_status status = MT_OK;
    bool at_start = true;
    bool closed = false;
    while (status == MT_OK && !closed) {
        bool intersection = t->at[0] == '&' && t->at[1] == '&';
        closed = t->at[0] == ']' && !at_start;
        if (t->at[0] == '\0') {
            status = refuse(t, "a class without its ']'");
        } else if (closed || intersection) {
            t->at += closed ? 1 : 2;
            if (operand == &later) {
                status = mt_byte_list_append_text(conditions, "(?=");
                if (status == MT_OK) status = append_operand(t, operand, conditions);
                if (status == MT_OK) status = mt_byte_list_append_text(conditions, ")");
                later.simple.count = 0;
                later.others.count = 0;
            }
            operand = &later;
        } else {
            status = class_member(t, depth, operand);
        }
        at_start = false;
    }
    mt_byte_list_free(&later.simple);
    mt_byte_list_free(&later.others);
    return status;
}

/*
 * Reads a class; t->at stands behind its '['. A plain positive class is appended to `simple` (without
 * brackets, so that a parent can take it in); everything else to `whole`, as something that matches one
 * character.
 */
static enum mt_status translate_class(struct translator *t, int depth, struct mt_byte_list *simple,
                                      struct mt_byte_list *whole)
{
    if (depth > MAX_CLASS_DEPTH) return refuse(t, "classes nested too deeply");
    bool negated = t->at[0] == '^';
    if (negated) t->at++;
    struct class_operand first = {{.ctx = t->ctx}, {.ctx = t->ctx}};
    struct mt_byte_list conditions = {.ctx = t->ctx};
    enum mt_status status = read_operands(t, depth, &first, &conditions);
    bool plain = conditions.count == 0 && first.others.count == 0;
    if (status == MT_OK && plain && !negated) {
        status = mt_byte_list_append(simple, first.simple.data, first.simple.count);
    } else if (status == MT_OK && plain) {
        status = mt_byte_list_append_text(whole, "[^");
        if (status == MT_OK) status = mt_byte_list_append(whole, first.simple.data, first.simple.count);
        if (status == MT_OK) status = mt_byte_list_append_text(whole, "]");
    } else if (status == MT_OK) {
        status = mt_byte_list_append_text(whole, negated ? "(?:(?!" : "(?:");
        if (status == MT_OK) status = mt_byte_list_append(whole, conditions.data, conditions.count);
        if (status == MT_OK) status = append_operand(t, &first, whole);
        if (status == MT_OK) status = mt_byte_list_append_text(whole, negated ? ")(?s:.))" : ")");
    }
    mt_byte_list_free(&first.simple);
    mt_byte_list_free(&first.others);
    mt_byte_list_free(&conditions);
    return status;
}

static enum mt_status outer_class(struct translator *t, struct mt_byte_list *out)
{
    struct mt_byte_list simple = {.ctx = t->ctx};
    struct mt_byte_list whole = {.ctx = t->ctx};
    t->at++;
    enum mt_status status = translate_class(t, 0, &simple, &whole);
    if (status == MT_OK && simple.count == 0 && whole.count == 0) status = refuse(t, "an empty class");
    if (status == MT_OK && simple.count != 0) {
        status = mt_byte_list_append_text(out, "[");
        if (status == MT_OK) status = mt_byte_list_append(out, simple.data, simple.count);
        if (status == MT_OK) status = mt_byte_list_append_text(out, "]");
    } else if (status == MT_OK) {
        status = mt_byte_list_append(out, whole.data, whole.count);
    }
    mt_byte_list_free(&simple);
    mt_byte_list_free(&whole);
    return status;
}

/* \b and \B, by the same notion of a word as \w. */
static enum mt_status word_boundary(const struct translator *t, bool negated, struct mt_byte_list *out)
{
    static const char *const parts[2][5] = {
        {"(?:(?<=[", "])(?![", "])|(?<![", "])(?=[", "]))"},
        {"(?:(?<=[", "])(?=[", "])|(?<![", "])(?![", "]))"},
    };
    struct mt_byte_list word = {.ctx = t->ctx};
    enum mt_status status = append_word(&word);
    for (int i = 0; status == MT_OK && i < 5; i++) {
        status = mt_byte_list_append_text(out, parts[negated][i]);
        if (status == MT_OK && i < 4) status = mt_byte_list_append(out, word.data, word.count);
    }
    mt_byte_list_free(&word);
    return status;
}

static enum mt_status outer_escape(struct translator *t, struct mt_byte_list *out)
{
    t->at++;
    char letter = t->at[0];
    if (letter == 'b' || letter == 'B') {
        t->at++;
        return word_boundary(t, letter == 'B', out);
    }
    if (letter != '\0' && strchr("AzZKR", letter) != NULL) {
        char text[3] = {'\\', letter, '\0'};
        t->at++;
        return mt_byte_list_append_text(out, text);
    }
    struct mt_byte_list set = {.ctx = t->ctx};
    bool negated = false;
    bool is_set = false;
    enum mt_status status = read_set(t, &set, &negated, &is_set);
    if (status == MT_OK && is_set) {
        status = mt_byte_list_append_text(out, negated ? "[^" : "[");
        if (status == MT_OK) status = mt_byte_list_append(out, set.data, set.count);
        if (status == MT_OK) status = mt_byte_list_append_text(out, "]");
    }
    mt_byte_list_free(&set);
    if (status != MT_OK || is_set) return status;
    uint32_t character = 0;
    status = read_escaped_character(t, false, &character);
    return status == MT_OK ? append_range(out, character, character) : status;
}

/* "(" and what makes it special, up to and with the ':' or ')' of an option group. */
static enum mt_status group_start(struct translator *t, struct mt_byte_list *out)
{
    static const char *const copied[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (t->at[1] == '*') return refuse(t, "(*");
    if (t->at[1] != '?') {
        t->at++;
        return mt_byte_list_append_text(out, "(");
    }
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++) {
        size_t length = strlen(copied[i]);
        if (strncmp(t->at, copied[i], length) != 0) continue;
        t->at += length;
        return mt_byte_list_append(out, copied[i], length);
    }
    enum mt_status status = mt_byte_list_append_text(out, "(?");
    t->at += 2;
    while (status == MT_OK && (t->at[0] == 'i' || t->at[0] == 'm' || t->at[0] == '-')) {
        char option = t->at[0] == 'm' ? 's' : t->at[0];
        status = mt_byte_list_append(out, &option, 1);
        t->at++;
    }
    if (status != MT_OK) return status;
    if (t->at[0] != ':' && t->at[0] != ')') return refuse(t, "a group '(?...' of this kind");
    status = mt_byte_list_append(out, t->at, 1);
    t->at++;
    return status;
}

/* '{': a repetition, or the character itself. */
static enum mt_status brace(struct translator *t, struct mt_byte_list *out)
{
    const char *end = t->at + 1;
    bool digits_before = false;
    bool digits_after = false;
    bool comma = false;
    for (; (*end >= '0' && *end <= '9') || (*end == ',' && !comma); end++) {
        if (*end == ',') {
            comma = true;
        } else if (comma) {
            digits_after = true;
        } else {
            digits_before = true;
        }
    }
    if (*end != '}' || (!digits_before && !digits_after)) {
        t->at++;
        return mt_byte_list_append_text(out, "\\{");
    }
    if (end[1] == '+') return refuse(t, "a repetition {...}+"); // greedy in Ruby, possessive in PCRE2
    enum mt_status status = mt_byte_list_append_text(out, digits_before ? "{" : "{0");
    if (status == MT_OK) status = mt_byte_list_append(out, t->at + 1, (size_t)(end - t->at));
    t->at = end + 1;
    return status;
}

enum mt_status mt_regex_translate(struct mt_context *ctx, const char *pattern, struct mt_byte_list *out)
{
    struct translator t = {.ctx = ctx, .pattern = pattern, .at = pattern};
    enum mt_status status = MT_OK;
    while (status == MT_OK && t.at[0] != '\0') {
        switch (t.at[0]) {
        case '[': status = outer_class(&t, out); break;
        case '\\': status = outer_escape(&t, out); break;
        case '(': status = group_start(&t, out); break;
        case '{': status = brace(&t, out); break;
        default:
            status = mt_byte_list_append(out, t.at, 1);
            t.at++;
            break;
        }
    }
    return status;
}
