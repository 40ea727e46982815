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

/* Fails once: the first failure is kept, and the translator then stands at an end, from where nothing may
 * step on: steps come before what may fail. */
struct translator {
    struct mt_context *ctx;
    enum mt_status status;
    const char *pattern; // whole, for messages
    const char *at;      // NUL-terminated
};

/* One operand of a class: what fits between brackets, and whole alternatives ("|[^...]") for what does not.
 */
struct class_operand {
    struct mt_byte_list simple;
    struct mt_byte_list others;
};

static void fail(struct translator *t, enum mt_status status)
{
    if (t->status == MT_OK) t->status = status;
    if (t->status != MT_OK) t->at = "";
}

static void refuse(struct translator *t, const char *what)
{
    if (t->status == MT_OK)
        fail(t, mt_fail(t->ctx, MT_ERR_UNSUPPORTED,
                        "the regular expression '%s' uses %s, which is not supported",
                        mt_printable(t->pattern).text, what));
}

static void put_bytes(struct translator *t, struct mt_byte_list *out, const void *bytes, size_t count)
{
    if (t->status == MT_OK) fail(t, mt_byte_list_append(out, bytes, count));
}

static void put(struct translator *t, struct mt_byte_list *out, const char *text)
{
    put_bytes(t, out, text, strlen(text));
}

/* A list, with a text before it and one behind. */
static void put_between(struct translator *t, struct mt_byte_list *out, const char *before,
                        const struct mt_byte_list *list, const char *behind)
{
    put(t, out, before);
    put_bytes(t, out, list->data, list->count);
    put(t, out, behind);
}

// ------------------------------------------------------------------ sets

static void put_range(struct translator *t, struct mt_byte_list *out, uint32_t first, uint32_t last)
{
    char text[48];
    (void)snprintf(text, sizeof text, first == last ? "\\x{%x}" : "\\x{%x}-\\x{%x}", first, last);
    put(t, out, text);
}

static void put_ranges(struct translator *t, struct mt_byte_list *out, const struct mt_code_range *ranges,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) put_range(t, out, ranges[i].first, ranges[i].last);
}

/* A general category of one or two letters: PCRE2's set and the newer characters. */
static void put_category(struct translator *t, struct mt_byte_list *out, const char *name)
{
    char text[16];
    (void)snprintf(text, sizeof text, "\\p{%s}", name);
    put(t, out, text);
    for (size_t i = 0; i < mt_unicode_added_count; i++) {
        const struct mt_category_range *range = &mt_unicode_added[i];
        if (range->category[0] != name[0] || (name[1] != '\0' && range->category[1] != name[1])) continue;
        put_range(t, out, range->first, range->last);
    }
}

static void put_alphabetic(struct translator *t, struct mt_byte_list *out)
{
    put(t, out, "\\p{Alphabetic}");
    put_ranges(t, out, mt_unicode_alphabetic_added, mt_unicode_alphabetic_added_count);
}

static void put_word(struct translator *t, struct mt_byte_list *out)
{
    // Oniguruma also counts the superscript digits and fractions of Latin-1.
    put(t, out, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
    put_alphabetic(t, out);
    put_category(t, out, "M");
    put_category(t, out, "Nd");
    put_category(t, out, "Pc");
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

static void put_property(struct translator *t, struct mt_byte_list *out, const char *name)
{
    static const char *const scripts[] = {"Hiragana", "Katakana", "Hangul",     "Latin",
                                          "Cyrillic", "Greek",    "Arabic",     "Hebrew",
                                          "Thai",     "Bopomofo", "Devanagari", "Common"};
    char text[MT_PRINTABLE_BYTES + 32];
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        if (strcmp(name, scripts[i]) != 0) continue;
        (void)snprintf(text, sizeof text, "\\p{sc:%s}", name);
        put(t, out, text);
        return;
    }
    if (strcmp(name, "C") == 0 || strcmp(name, "Cn") == 0) {
        refuse(t, "\\p{C} or \\p{Cn}"); // newer characters would have to be taken away, not added
    } else if (is_category(name)) {
        put_category(t, out, name);
    } else if (strcmp(name, "Alphabetic") == 0) {
        put_alphabetic(t, out);
    } else if (strcmp(name, "White_Space") == 0) {
        put(t, out, space_set);
    } else if (strcmp(name, "Han") == 0) {
        put(t, out, "\\p{sc:Han}");
        put_ranges(t, out, mt_unicode_han_added, mt_unicode_han_added_count);
    } else {
        (void)snprintf(text, sizeof text, "the property \\p{%s}", mt_printable(name).text);
        refuse(t, text);
    }
}

/* Puts the set of \p{Name} or \p{^Name}; t->at stands behind the p. */
static void read_property(struct translator *t, struct mt_byte_list *out, bool *negated)
{
    char name[32] = "";
    if (t->at[0] != '{') {
        refuse(t, "\\p without braces");
        return;
    }
    t->at++;
    if (t->at[0] == '^') {
        *negated = !*negated;
        t->at++;
    }
    const char *end = strchr(t->at, '}');
    if (end == NULL || end == t->at || end - t->at > 31) {
        refuse(t, "a malformed \\p{...}");
        return;
    }
    memcpy(name, t->at, (size_t)(end - t->at));
    t->at = end + 1;
    put_property(t, out, name);
}

static bool is_set_letter(char letter)
{
    return letter != '\0' && strchr("sSwWdDhHpP", letter) != NULL;
}

/*
 * Reads one of the escapes that stand for a set (the letter is *t->at); puts what goes between brackets.
 * True: its complement is meant.
 */
static bool read_set(struct translator *t, struct mt_byte_list *out)
{
    char letter = *t->at++;
    bool negated = letter >= 'A' && letter <= 'Z';
    switch (letter | 0x20) {
    case 's': put(t, out, space_set); break;
    case 'w': put_word(t, out); break;
    case 'd': put_category(t, out, "Nd"); break;
    case 'h': put(t, out, "0-9a-fA-F"); break;
    default: read_property(t, out, &negated); break;
    }
    return negated;
}

// ------------------------------------------------------------------ characters

static bool read_hex(const char **at, size_t min_digits, size_t max_digits, uint32_t *value)
{
    static const char digits[] = "0123456789abcdef";
    size_t count = 0;
    *value = 0;
    for (; count < max_digits && **at != '\0'; count++, (*at)++) {
        bool letter = (**at >= 'A' && **at <= 'F') || (**at >= 'a' && **at <= 'f');
        const char *digit = strchr(digits, letter ? **at | 0x20 : **at);
        if (digit == NULL) break;
        *value = *value * 16 + (uint32_t)(digit - digits);
    }
    return count >= min_digits;
}

/* Reads an escape that stands for one character; t->at stands behind the backslash. */
static uint32_t read_escaped_character(struct translator *t, bool in_class)
{
    static const char letters[] = "ntrfvae";
    static const char values[] = "\n\t\r\f\v\a\x1b";
    uint32_t character = 0;
    bool good = true;
    char letter = t->at[0];
    const char *known = letter != '\0' ? strchr(letters, letter) : NULL;
    if (letter == '\0') {
        refuse(t, "a backslash at the end");
    } else if (known != NULL || (in_class && letter == 'b')) {
        character = known != NULL ? (uint32_t)values[known - letters] : '\b';
        t->at++;
    } else if (letter == 'x' && t->at[1] == '{') {
        t->at += 2;
        good = read_hex(&t->at, 1, 6, &character) && t->at[0] == '}';
        t->at += good;
    } else if (letter == 'x' || letter == 'u') {
        t->at++;
        good = read_hex(&t->at, letter == 'x' ? 1 : 4, letter == 'x' ? 2 : 4, &character);
    } else if ((letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
               (letter >= 'A' && letter <= 'Z')) {
        char what[32];
        (void)snprintf(what, sizeof what, "the escape \\%c", letter);
        refuse(t, what);
    } else {
        size_t bytes = 0;
        character = mt_utf8_decode((const uint8_t *)t->at, &bytes);
        t->at += bytes;
    }
    if (!good || character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF))
        refuse(t, "a malformed escape");
    return character;
}

/* One character of a class, plain or escaped. */
static uint32_t class_character(struct translator *t)
{
    size_t bytes = 0;
    if (t->at[0] == '\\') {
        t->at++;
        return read_escaped_character(t, true);
    }
    uint32_t character = mt_utf8_decode((const uint8_t *)t->at, &bytes);
    t->at += bytes;
    return character;
}

// ------------------------------------------------------------------ classes

static void translate_class(struct translator *t, int depth, struct mt_byte_list *simple,
                            struct mt_byte_list *whole);

/* A character or a range. */
static void class_range(struct translator *t, struct class_operand *operand)
{
    uint32_t first = class_character(t);
    uint32_t last = first;
    if (t->at[0] == '-' && t->at[1] != ']' && t->at[1] != '\0') {
        if (t->at[1] == '[') refuse(t, "a range that ends in a class");
        if (t->at[0] != '\0' && t->at[1] == '\\' && is_set_letter(t->at[2]))
            refuse(t, "a range that ends in a set");
        if (t->status != MT_OK) return;
        t->at++;
        last = class_character(t);
        if (last < first) refuse(t, "a range that runs backwards");
    }
    put_range(t, &operand->simple, first, last);
}

/* One member of a class, at t->at: a nested class, a set, a character or a range. */
static void class_member(struct translator *t, int depth, struct class_operand *operand)
{
    struct mt_byte_list inner = {.ctx = t->ctx};
    if (t->at[0] == '[' && t->at[1] == ':') {
        refuse(t, "a POSIX class [:...:]");
    } else if (t->at[0] == '[') {
        t->at++;
        translate_class(t, depth + 1, &operand->simple, &inner);
        if (inner.count != 0) put_between(t, &operand->others, "|", &inner, "");
    } else if (t->at[0] == '\\' && is_set_letter(t->at[1])) {
        // Between the brackets when positive, an alternative of its own when negative.
        t->at++;
        if (read_set(t, &inner))
            put_between(t, &operand->others, "|[^", &inner, "]");
        else
            put_between(t, &operand->simple, "", &inner, "");
    } else {
        class_range(t, operand);
    }
    mt_byte_list_free(&inner);
}

/* Puts an operand as something that matches one character. */
static void put_operand(struct translator *t, const struct class_operand *operand, struct mt_byte_list *out)
{
    bool others = operand->others.count != 0;
    bool simple = operand->simple.count != 0;
    if (!simple && !others) refuse(t, "an empty class");
    if (others) put(t, out, "(?:");
    if (simple) put_between(t, out, "[", &operand->simple, "]");
    size_t skip = simple ? 0 : 1; // the first '|'
    if (others) put_bytes(t, out, operand->others.data + skip, operand->others.count - skip);
    if (others) put(t, out, ")");
}

/*
 * Reads the operands behind '[' and an eventual '^', up to and with ']'. All but the first become look-aheads
 * in `conditions`; the first stays in `first`.
 */
static void read_operands(struct translator *t, int depth, struct class_operand *first,
                          struct mt_byte_list *conditions)
{
    struct class_operand later = {{.ctx = t->ctx}, {.ctx = t->ctx}};
    struct class_operand *operand = first;
    bool at_start = true;
    bool closed = false;
    while (t->status == MT_OK && !closed) {
        bool intersection = t->at[0] == '&' && t->at[1] == '&';
        closed = t->at[0] == ']' && !at_start;
        if (t->at[0] == '\0') {
            refuse(t, "a class without its ']'");
        } else if (closed || intersection) {
            t->at += closed ? 1 : 2;
            if (operand == &later) {
                put(t, conditions, "(?=");
                put_operand(t, operand, conditions);
                put(t, conditions, ")");
                later.simple.count = 0;
                later.others.count = 0;
            }
            operand = &later;
        } else {
            class_member(t, depth, operand);
        }
        at_start = false;
    }
    mt_byte_list_free(&later.simple);
    mt_byte_list_free(&later.others);
}

/*
 * Reads a class; t->at stands behind its '['. A plain positive class is appended to `simple` (without
 * brackets, so that a parent can take it in); everything else to `whole`, as something that matches one
 * character.
 */
static void translate_class(struct translator *t, int depth, struct mt_byte_list *simple,
                            struct mt_byte_list *whole)
{
    if (depth > MAX_CLASS_DEPTH) refuse(t, "classes nested too deeply");
    if (t->status != MT_OK) return;
    bool negated = t->at[0] == '^';
    if (negated) t->at++;
    struct class_operand first = {{.ctx = t->ctx}, {.ctx = t->ctx}};
    struct mt_byte_list conditions = {.ctx = t->ctx};
    read_operands(t, depth, &first, &conditions);
    bool plain = conditions.count == 0 && first.others.count == 0;
    if (plain && negated) {
        put_between(t, whole, "[^", &first.simple, "]");
    } else if (plain) {
        put_between(t, simple, "", &first.simple, "");
    } else {
        put_between(t, whole, negated ? "(?:(?!" : "(?:", &conditions, "");
        put_operand(t, &first, whole);
        put(t, whole, negated ? ")(?s:.))" : ")");
    }
    mt_byte_list_free(&first.simple);
    mt_byte_list_free(&first.others);
    mt_byte_list_free(&conditions);
}

// ------------------------------------------------------------------ outside of classes

static void outer_class(struct translator *t, struct mt_byte_list *out)
{
    struct mt_byte_list simple = {.ctx = t->ctx};
    struct mt_byte_list whole = {.ctx = t->ctx};
    t->at++;
    translate_class(t, 0, &simple, &whole);
    if (simple.count == 0 && whole.count == 0) refuse(t, "an empty class");
    if (simple.count != 0)
        put_between(t, out, "[", &simple, "]");
    else
        put_between(t, out, "", &whole, "");
    mt_byte_list_free(&simple);
    mt_byte_list_free(&whole);
}

/* \b and \B, by the same notion of a word as \w. */
static void word_boundary(struct translator *t, bool negated, struct mt_byte_list *out)
{
    struct mt_byte_list word = {.ctx = t->ctx};
    put_word(t, &word);
    put_between(t, out, "(?:(?<=[", &word, negated ? "])(?=[" : "])(?![");
    put_between(t, out, "", &word, "])|(?<![");
    put_between(t, out, "", &word, negated ? "])(?![" : "])(?=[");
    put_between(t, out, "", &word, "]))");
    mt_byte_list_free(&word);
}

static void outer_escape(struct translator *t, struct mt_byte_list *out)
{
    t->at++;
    char letter = t->at[0];
    if (letter == 'b' || letter == 'B') {
        t->at++;
        word_boundary(t, letter == 'B', out);
    } else if (letter != '\0' && strchr("AzZKR", letter) != NULL) {
        t->at++;
        put_bytes(t, out, t->at - 2, 2);
    } else if (is_set_letter(letter)) {
        struct mt_byte_list set = {.ctx = t->ctx};
        bool negated = read_set(t, &set);
        put_between(t, out, negated ? "[^" : "[", &set, "]");
        mt_byte_list_free(&set);
    } else {
        uint32_t character = read_escaped_character(t, false);
        put_range(t, out, character, character);
    }
}

/* "(" and what makes it special, up to and with the ':' or ')' of an option group. */
static void group_start(struct translator *t, struct mt_byte_list *out)
{
    static const char *const copied[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (t->at[1] == '*') refuse(t, "(*");
    if (t->status != MT_OK) return;
    if (t->at[1] != '?') {
        t->at++;
        put(t, out, "(");
        return;
    }
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++) {
        size_t length = strlen(copied[i]);
        if (strncmp(t->at, copied[i], length) != 0) continue;
        t->at += length;
        put(t, out, copied[i]);
        return;
    }
    t->at += 2;
    put(t, out, "(?");
    while (t->at[0] == 'i' || t->at[0] == 'm' || t->at[0] == '-') {
        const char *option = t->at++;
        put_bytes(t, out, *option == 'm' ? "s" : option, 1);
    }
    if (t->at[0] != ':' && t->at[0] != ')') {
        refuse(t, "a group '(?...' of this kind");
        return;
    }
    t->at++;
    put_bytes(t, out, t->at - 1, 1);
}

/* '{': a repetition, or the character itself. */
static void brace(struct translator *t, struct mt_byte_list *out)
{
    const char *end = t->at + 1;
    bool digits_before = false;
    bool digits_after = false;
    bool comma = false;
    for (; (*end >= '0' && *end <= '9') || (*end == ',' && !comma); end++) {
        comma = comma || *end == ',';
        digits_before = digits_before || (!comma && *end != ',');
        digits_after = digits_after || (comma && *end != ',');
    }
    const char *start = t->at + 1;
    bool repetition = *end == '}' && (digits_before || digits_after);
    t->at = repetition ? end + 1 : start;
    if (repetition && *t->at == '+') refuse(t, "a repetition {...}+"); // greedy in Ruby, possessive in PCRE2
    put(t, out, !repetition ? "\\{" : digits_before ? "{" : "{0");
    if (repetition) put_bytes(t, out, start, (size_t)(end + 1 - start));
}

enum mt_status mt_regex_translate(struct mt_context *ctx, const char *pattern, struct mt_byte_list *out)
{
    struct translator t = {.ctx = ctx, .pattern = pattern, .at = pattern};
    while (t.at[0] != '\0') {
        switch (t.at[0]) {
        case '[': outer_class(&t, out); break;
        case '\\': outer_escape(&t, out); break;
        case '(': group_start(&t, out); break;
        case '{': brace(&t, out); break;
        default:
            t.at++;
            put_bytes(&t, out, t.at - 1, 1);
            break;
        }
    }
    return t.status;
}
