/* Numbers in prose: how they are written, and which of them is the answer. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "eval/answers/extract.h"
#include "eval/answers/statement.h"

#define MOST_SENTENCE 512 // bytes of a statement that are looked at

/* A number as it stands in a text. */
struct number {
    size_t start, end; // with its sign
    size_t digits;     // where they begin
};

static bool is_digit(struct mt_text text, size_t at)
{
    return at < text.bytes && isdigit((unsigned char)text.text[at]);
}

static bool is_letter(struct mt_text text, size_t at)
{
    return at < text.bytes && isalpha((unsigned char)text.text[at]);
}

static size_t past_digits(struct mt_text text, size_t at)
{
    while (is_digit(text, at)) at++;
    return at;
}

static size_t past_spaces(struct mt_text text, size_t at)
{
    while (at < text.bytes && text.text[at] == ' ') at++;
    return at;
}

// ------------------------------------------------------------------ reading one

/* What may stand between groups of three digits; 0: nothing here. */
static size_t separator(struct mt_text text, size_t at)
{
    static const char *const all[] = {",\\!", "{,}", "\\,", ",", " ", "'"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t length = strlen(all[i]);
        if (mt_text_has(text, at, all[i]) && is_digit(text, at + length) &&
            past_digits(text, at + length) == at + length + 3)
            return length;
    }
    return 0;
}

/* The end of digits with separators and a point. */
static size_t decimal_end(struct mt_text text, size_t at)
{
    size_t end = past_digits(text, at);
    size_t lead = end - at;
    for (size_t length = separator(text, end); lead >= 1 && lead <= 3 && length > 0;
         length = separator(text, end))
        end += length + 3;
    if (end < text.bytes && text.text[end] == '.' && is_digit(text, end + 1))
        end = past_digits(text, end + 1);
    return end;
}

/* The power of ten that words or signs behind a number stand for; *end moves behind them. */
static long scale_at(struct mt_text text, size_t *end)
{
    static const struct {
        const char *word;
        long exponent;
    } words[] = {{"hundred", 2},   {"thousand", 3}, {"million", 6}, {"billion", 9},
                 {"trillion", 12}, {"k", 3},        {"万", 4},      {"亿", 8}};
    static const char *const times[] = {"*", "x", "\\times", "\\cdot"};
    size_t at = past_spaces(text, *end);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);
        if (at + length > text.bytes || strncasecmp(text.text + at, words[i].word, length) != 0) continue;
        if (is_letter(text, at + length) || (length == 1 && at != *end)) continue;
        *end = at + length;
        return words[i].exponent;
    }
    size_t power = text.bytes;
    if (*end == at && at < text.bytes && (text.text[at] == 'e' || text.text[at] == 'E')) power = at + 1;
    for (size_t i = 0; i < sizeof times / sizeof times[0] && power == text.bytes; i++) {
        if (!mt_text_has(text, at, times[i])) continue;
        size_t ten = past_spaces(text, at + strlen(times[i]));
        if (mt_text_has(text, ten, "10^")) power = ten + 3;
    }
    if (power < text.bytes && text.text[power] == '{') power++;
    bool minus = power < text.bytes && text.text[power] == '-';
    if (power < text.bytes && (minus || text.text[power] == '+')) power++;
    size_t stop = past_digits(text, power);
    if (stop == power || stop - power > 3 || is_letter(text, stop)) return 0;
    long exponent = 0;
    for (; power < stop; power++) exponent = exponent * 10 + (text.text[power] - '0');
    *end = stop < text.bytes && text.text[stop] == '}' ? stop + 1 : stop;
    return minus ? -exponent : exponent;
}

/* \frac{5}{6}, \dfrac56; 0: there is none at `at`. */
static size_t fraction_end(struct mt_text text, size_t at)
{
    static const char *const names[] = {"\\frac", "\\dfrac", "\\tfrac"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!mt_text_has(text, at, names[i])) continue;
        size_t end = at + strlen(names[i]);
        if (is_digit(text, end) && is_digit(text, end + 1)) return end + 2;
        for (int part = 0; part < 2; part++) {
            if (!mt_text_has(text, end, "{") || !is_digit(text, end + 1)) return 0;
            end = decimal_end(text, end + 1);
            if (!mt_text_has(text, end, "}")) return 0;
            end++;
        }
        return end;
    }
    return 0;
}

/* Where the sign of a number begins whose digits are at `at`: a minus that is no hyphen and not between two
 * things, or a word for it. `at` where there is none. */
static size_t sign_before(struct mt_text text, size_t at)
{
    static const char *const words[] = {"negative ", "minus "};
    size_t money = at;
    while (money > 0 && (text.text[money - 1] == '$' || text.text[money - 1] == '\\')) money--;
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(words[i]);
        if (money >= length && strncasecmp(text.text + money - length, words[i], length) == 0)
            return money - length;
    }
    if (money == 0 || text.text[money - 1] != '-') return at;
    size_t before = money - 1;
    bool between = before > 0 && (isalnum((unsigned char)text.text[before - 1]) ||
                                  strchr(")]}-", text.text[before - 1]) != NULL);
    return between ? at : before;
}

/* The next number at or behind `at`. */
static bool next_number(struct mt_text text, size_t at, struct number *number)
{
    for (; at < text.bytes; at++) {
        size_t end = fraction_end(text, at);
        bool point = text.text[at] == '.' && is_digit(text, at + 1) && (at == 0 || text.text[at - 1] != '.');
        if (end == 0 && (is_digit(text, at) || point)) {
            end = decimal_end(text, at);
            if (end < text.bytes && text.text[end] == '/' && is_digit(text, end + 1)) {
                size_t under = decimal_end(text, end + 1);
                bool date = under < text.bytes && text.text[under] == '/';
                end = date ? end : under;
            }
            size_t scaled = end;
            if (scale_at(text, &scaled) != 0) end = scaled;
        }
        if (end == 0) continue;
        *number = (struct number){.start = sign_before(text, at), .end = end, .digits = at};
        return true;
    }
    return false;
}

/* Appends it as mathematics reads it. */
static enum mt_status append_number(struct mt_text text, const struct number *number,
                                    struct mt_byte_list *out)
{
    enum mt_status status = number->start < number->digits ? mt_byte_list_append_text(out, "-") : MT_OK;
    if (status != MT_OK) return status;
    size_t end = fraction_end(text, number->digits);
    if (end > 0) return mt_byte_list_append(out, text.text + number->digits, end - number->digits);
    end = decimal_end(text, number->digits);
    if (end < text.bytes && text.text[end] == '/' && is_digit(text, end + 1) && end + 1 < number->end)
        end = decimal_end(text, end + 1);
    for (size_t i = number->digits; i < end && status == MT_OK; i++) {
        bool kept = is_digit(text, i) || text.text[i] == '.' || text.text[i] == '/';
        if (kept) status = mt_byte_list_append(out, text.text + i, 1);
    }
    char power[32];
    long exponent = end < number->end ? scale_at(text, &end) : 0;
    (void)snprintf(power, sizeof power, "*10^{%ld}", exponent);
    return status == MT_OK && exponent != 0 ? mt_byte_list_append_text(out, power) : status;
}

// ------------------------------------------------------------------ which one

/* True when the word before `at` is one of a list; spaces and # may stand between. */
static bool follows(struct mt_text text, size_t at, const char *const *words)
{
    while (at > 0 && strchr(" #.", text.text[at - 1]) != NULL) at--;
    size_t end = at;
    while (at > 0 && isalpha((unsigned char)text.text[at - 1])) at--;
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == end - at && strncasecmp(text.text + at, words[i], end - at) == 0) return true;
    }
    return false;
}

/* True for numbers that only name something: of a name (x2, B-52), of a list, of a day, 3rd; or that are
 * denied. */
static bool is_name(struct mt_text text, const struct number *number)
{
    static const char *const labels[] = {"day",      "week",   "step",  "part",    "question", "problem",
                                         "chapter",  "page",   "no",    "number",  "example",  "case",
                                         "equation", "line",   "room",  "round",   "level",    "version",
                                         "option",   "figure", "table", "section", "not",      NULL};
    size_t at = number->digits;
    size_t end = number->end;
    char before = at > 0 ? text.text[at - 1] : '\0';
    if (isalpha((unsigned char)before) || before == '_') return true;
    if (before == '-' && at > 1 && is_letter(text, at - 2)) return true;
    if (number->start == at && before != '$' && follows(text, at, labels)) return true;
    static const char *const ordinals[] = {"st", "nd", "rd", "th"};
    for (size_t i = 0; i < 4; i++) {
        if (mt_text_has(text, end, ordinals[i]) && !is_letter(text, end + 2)) return true;
    }
    // "2. Multiply" at the beginning of a line
    size_t line = at;
    while (line > 0 && strchr(" \t*#>-", text.text[line - 1]) != NULL) line--;
    bool first = line > 0 && text.text[line - 1] == '\n';
    bool dotted = end + 1 < text.bytes && strchr(".):", text.text[end]) != NULL;
    size_t word = dotted ? past_spaces(text, end + 1) : end;
    while (word < text.bytes && text.text[word] == '*') word++;
    return first && dotted && word > end + 1 && word < text.bytes && text.text[word] != '\n';
}

/* The next number that is no name. */
static bool next_value(struct mt_text text, size_t at, struct number *number)
{
    while (next_number(text, at, number)) {
        if (!is_name(text, number)) return true;
        at = number->end;
    }
    return false;
}

static bool ends_sentence(struct mt_text text, size_t at)
{
    bool space = at + 1 >= text.bytes || isspace((unsigned char)text.text[at + 1]);
    return text.text[at] == '\n' || (strchr(".!?", text.text[at]) != NULL && space);
}

static size_t sentence_end(struct mt_text text, size_t at)
{
    while (at < text.bytes && !ends_sentence(text, at)) at++;
    return at;
}

/* Where the clause ends in which a number stands: at a comma, a bracket, or the sentence's end. */
static size_t clause_end(struct mt_text text, size_t at)
{
    for (; at < text.bytes && !ends_sentence(text, at); at++) {
        bool space = at + 1 == text.bytes || isspace((unsigned char)text.text[at + 1]);
        if (text.text[at] == ';' || (text.text[at] == ',' && space)) return at;
        if (text.text[at] == '(' && at > 0 && text.text[at - 1] == ' ') return at;
    }
    return at;
}

/*
 * The number a statement gives: the first of the sentence, or what an equation that begins with it comes to.
 * *several: it gives two.
 */
static bool stated_number(struct mt_text text, struct number *number, bool *several)
{
    *several = false;
    if (!next_value(text, 0, number) || sentence_end(text, 0) < number->digits) return false;
    size_t end = clause_end(text, number->end);
    struct number other;
    for (size_t at = number->end; at < end; at++) {
        if (text.text[at] == '=' && next_value(text, at, &other) && other.digits < end) *number = other;
    }
    size_t after = past_spaces(text, number->end);
    *several =
        mt_text_has(text, after, "or ") && next_value(text, after, &other) && other.digits == after + 3;
    return true;
}

/* True for what stands behind the marks in "#### 8" and "#### $1,024 in all", but not in a heading:
 * "#### 2. Multiply", "#### 2 Multiply", "#### Step 3". */
static bool is_marked(struct mt_text text, size_t at)
{
    while (at < text.bytes && strchr(" *$\\(-", text.text[at]) != NULL) at++;
    if (mt_text_has(text, at, "frac") || mt_text_has(text, at, "boxed")) return true;
    if (!is_digit(text, at)) return false;
    size_t end = decimal_end(text, at);
    bool dotted = end < text.bytes && strchr(".):", text.text[end]) != NULL;
    size_t word = past_spaces(text, dotted ? end + 1 : end);
    if (word >= text.bytes || text.text[word] == '\n') return true;
    return !dotted && !isupper((unsigned char)text.text[word]);
}

/* The last number of a text without a statement: of the last line that has one, what is bold in it, else the
 * last. */
static bool last_value(struct mt_text text, struct number *number)
{
    struct number next;
    bool found = false;
    bool bold = false; // the one found
    for (size_t at = 0; next_value(text, at, &next); at = next.end) {
        bool line = found && memchr(text.text + number->end, '\n', next.start - number->end) != NULL;
        bool here = next.start > 1 && memcmp(text.text + next.start - 2, "**", 2) == 0;
        if (found && !line && bold && !here) continue;
        *number = next;
        bold = here;
        found = true;
    }
    return found;
}

/* The last statement so far. */
struct stated {
    struct mt_text text; // it begins
    struct number number;
    bool found, several;
};

/* Takes a statement that begins with `at`, behind the last one, if it gives a number. `prose`: it may begin a
 * text of several sentences ("Answer: She had 3 ..."), which then states nothing where it begins. */
static void take(struct stated *last, struct mt_text plain, const char *at, bool prose)
{
    struct mt_text text = mt_text_from(plain, (size_t)(at - plain.text));
    struct mt_text sentence = text;
    struct number number;
    struct number later;
    bool several = false;
    if (sentence.bytes > MOST_SENTENCE) sentence.bytes = MOST_SENTENCE;
    if ((last->found && at < last->text.text) || !stated_number(sentence, &number, &several)) return;
    size_t letters = 0;
    for (size_t i = 0; i < number.start; i++) letters += isalpha((unsigned char)text.text[i]) ? 1 : 0;
    if (prose && letters > 1 && next_value(text, sentence_end(text, number.end), &later)) return;
    *last = (struct stated){.text = text, .number = number, .found = true, .several = several};
}

enum mt_status mt_statement_number(struct mt_pattern *const *patterns, struct mt_text plain,
                                   struct mt_byte_list *out)
{
    struct stated last = {0};
    struct mt_pattern_match match;
    struct mt_text box;
    for (size_t i = 0; i < MT_STATEMENT_FORMS; i++) {
        for (size_t from = 0; patterns[i] != NULL && from < plain.bytes &&
                              mt_pattern_find(patterns[i], plain.text, plain.bytes, from, &match);
             from = match.to > from ? match.to : from + 1) {
            size_t colon = match.from;
            while (colon < match.to && plain.text[colon] != ':' && plain.text[colon] != '\n') colon++;
            take(&last, plain, plain.text + match.to, colon < match.to);
        }
    }
    for (size_t at = mt_text_find(plain, 0, "###"); at < plain.bytes; at = mt_text_find(plain, at, "###")) {
        while (at < plain.bytes && plain.text[at] == '#') at++;
        if (is_marked(plain, at)) take(&last, plain, plain.text + at, false);
    }
    if (mt_extract_boxed(plain, &box)) take(&last, plain, box.text, false);
    if (!last.found) {
        last.text = plain;
        last.found = last_value(plain, &last.number);
    }
    return last.found && !last.several ? append_number(last.text, &last.number, out) : MT_OK;
}
