/* Numbers in prose: how they are written, and which of them is the answer. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "eval/answers/extract.h"
#include "eval/answers/sentence.h"
#include "eval/answers/statement.h"

#define MOST_SENTENCE 512 // bytes of a statement that are looked at

/* A number as it stands in a text. */
struct number {
    size_t start, end; // with its sign
    size_t digits;     // where they begin
    size_t fraction;   // where the one behind whole digits begins, or 0
    size_t factor;     // where a factor begins, or the end
    long words;        // its value, where words say it; -1: digits do
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

/* The end of what follows a decimal comma at `end`, "3,5", unless it parts a list; 0: there is none. */
static size_t comma_end(struct mt_text text, size_t at, size_t end)
{
    size_t stop = mt_text_has(text, end, ",") ? past_digits(text, end + 1) : end;
    bool listed = (at > 0 && strchr(",([{", text.text[at - 1]) != NULL) ||
                  (mt_text_has(text, stop, ",") && is_digit(text, stop + 1));
    return stop > end + 1 && stop <= end + 3 && !listed ? stop : 0;
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
        return past_digits(text, end + 1);
    size_t decimals = comma_end(text, at, end);
    return decimals > 0 ? decimals : end;
}

#define FACTOR_BYTES 32

/* What words or signs behind a number do to it, as mathematics writes it: "*10^{6}" for a million. Returns
 * where they end; `at`: there are none, and the factor is empty. */
static size_t factor_at(struct mt_text text, size_t at, char factor[FACTOR_BYTES])
{
    static const struct {
        const char *word, *factor;
    } words[] = {{"hundred", "*10^{2}"},   {"thousand", "*10^{3}"},  {"million", "*10^{6}"},
                 {"billion", "*10^{9}"},   {"trillion", "*10^{12}"}, {"k", "*10^{3}"},
                 {"万", "*10^{4}"},        {"亿", "*10^{8}"},        {"dozen", "*12"},
                 {"and a half", "+1/2"},   {"quarters of", "/4"},    {"thirds of", "/3"},
                 {"and a quarter", "+1/4"}};
    static const char *const times[] = {"*", "x", "\\times", "\\cdot"};
    size_t word = past_spaces(text, at);
    factor[0] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);
        if (word + length > text.bytes || strncasecmp(text.text + word, words[i].word, length) != 0) continue;
        if (is_letter(text, word + length) || (length == 1 && word != at)) continue;
        (void)snprintf(factor, FACTOR_BYTES, "%s", words[i].factor);
        return word + length;
    }
    static const char dollars[] = "dollars and ";
    size_t cents = word + sizeof dollars - 1;
    if (mt_text_has(text, word, dollars) && mt_text_has(text, past_digits(text, cents), " cent")) {
        size_t end = past_digits(text, cents);
        if (end == cents || end > cents + 2) return at;
        (void)snprintf(factor, FACTOR_BYTES, "+%.*s/100", (int)(end - cents), text.text + cents);
        return end;
    }
    size_t power = text.bytes;
    if (word == at && at < text.bytes && (text.text[at] == 'e' || text.text[at] == 'E')) power = at + 1;
    for (size_t i = 0; i < sizeof times / sizeof times[0] && power == text.bytes; i++) {
        if (!mt_text_has(text, word, times[i])) continue;
        size_t ten = past_spaces(text, word + strlen(times[i]));
        if (mt_text_has(text, ten, "10^")) power = ten + 3;
    }
    if (power < text.bytes && text.text[power] == '{') power++;
    size_t digits = power;
    if (power < text.bytes && (text.text[power] == '-' || text.text[power] == '+')) digits++;
    size_t end = past_digits(text, digits);
    if (end == digits || end - digits > 3 || is_letter(text, end)) return at;
    if (text.text[power] == '+') power = digits;
    (void)snprintf(factor, FACTOR_BYTES, "*10^{%.*s}", (int)(end - power), text.text + power);
    return end < text.bytes && text.text[end] == '}' ? end + 1 : end;
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

/* "twenty-four", "one hundred and fifty": the value, and *end behind it; -1: no number. A single "one" is
 * more often a pronoun. */
static long words_at(struct mt_text text, size_t at, size_t *end)
{
    static const char *const ones[] = {"zero",    "one",     "two",       "three",    "four",
                                       "five",    "six",     "seven",     "eight",    "nine",
                                       "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                       "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
    static const char *const tens[] = {"twenty", "thirty",  "forty",  "fifty",
                                       "sixty",  "seventy", "eighty", "ninety"};
    static const struct {
        const char *word;
        long value;
    } scales[] = {{"hundred", 100}, {"thousand", 1000}, {"million", 1000000}};
    long total = 0;   // of what is complete
    long current = 0; // of what a scale may follow
    size_t words = 0;
    for (;;) {
        char word[16];
        size_t stop = at;
        while (is_letter(text, stop)) stop++;
        if (stop == at || stop - at >= sizeof word) break;
        for (size_t i = 0; i < stop - at; i++) word[i] = (char)tolower((unsigned char)text.text[at + i]);
        word[stop - at] = '\0';
        int one = mt_name_place(ones, 20, word);
        int ten = mt_name_place(tens, 8, word);
        long scale = 0;
        for (size_t i = 0; i < 3; i++) scale = strcmp(word, scales[i].word) == 0 ? scales[i].value : scale;
        bool joins = strcmp(word, "and") == 0 && words > 0 && total + current >= 100;
        if (one == 20 && ten == 8 && (scale == 0 || words == 0) && !joins) break;
        if (total > 1000000000L) break;
        current += one < 20 ? one : (ten < 8 ? 10 * (ten + 2) : 0);
        if (scale == 100) current *= 100;
        if (scale > 100) total += current * scale;
        if (scale > 100) current = 0;
        if (!joins) *end = stop;
        words++;
        at = stop < text.bytes && (text.text[stop] == ' ' || text.text[stop] == '-') ? stop + 1 : stop;
    }
    return words == 0 || (words == 1 && total + current == 1) ? -1 : total + current;
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
        if (money < length || strncasecmp(text.text + money - length, words[i], length) != 0) continue;
        size_t left = money - length;
        while (left > 0 && text.text[left - 1] == ' ') left--;
        bool between =
            left > 0 && (isdigit((unsigned char)text.text[left - 1]) || text.text[left - 1] == ')');
        return between ? at : money - length; // "40 minus 25"
    }
    if (money == 0 || text.text[money - 1] != '-') return at;
    size_t before = money - 1;
    bool between = before > 0 && (isalnum((unsigned char)text.text[before - 1]) ||
                                  strchr(")]}-", text.text[before - 1]) != NULL);
    return between ? at : before;
}

/* The end of the fraction behind whole digits: "2 1/2", "2\\frac{1}{2}"; 0: there is none. */
static size_t mixed_end(struct mt_text text, size_t digits, size_t end)
{
    if (past_digits(text, digits) != end || end == digits) return 0;
    size_t fraction = fraction_end(text, past_spaces(text, end));
    if (fraction > 0 || !mt_text_has(text, end, " ")) return fraction;
    size_t bar = past_digits(text, end + 1);
    if (bar == end + 1 || !mt_text_has(text, bar, "/") || !is_digit(text, bar + 1)) return 0;
    size_t stop = past_digits(text, bar + 1);
    return mt_text_has(text, stop, "/") ? 0 : stop;
}

/* The next number at or behind `at`. */
static bool next_number(struct mt_text text, size_t at, struct number *number)
{
    for (; at < text.bytes; at++) {
        size_t end = fraction_end(text, at);
        size_t fraction = 0;
        bool point = text.text[at] == '.' && is_digit(text, at + 1) && (at == 0 || text.text[at - 1] != '.');
        if (end == 0 && (is_digit(text, at) || point)) {
            end = decimal_end(text, at);
            size_t mixed = mixed_end(text, at, end);
            if (mixed > 0) {
                fraction = past_spaces(text, end);
                end = mixed;
            } else if (end < text.bytes && text.text[end] == '/' && is_digit(text, end + 1)) {
                size_t under = decimal_end(text, end + 1);
                bool date = under < text.bytes && text.text[under] == '/';
                end = date ? end : under;
            }
        }
        long words = -1;
        if (end == 0 && is_letter(text, at) && (at == 0 || !isalnum((unsigned char)text.text[at - 1])))
            words = words_at(text, at, &end);
        if (words < 0 && is_letter(text, at)) end = 0;
        if (end == 0) continue;
        char factor[FACTOR_BYTES];
        *number = (struct number){.start = sign_before(text, at),
                                  .end = factor_at(text, end, factor),
                                  .digits = at,
                                  .fraction = fraction,
                                  .factor = end,
                                  .words = words};
        return true;
    }
    return false;
}

/* Appends it as mathematics reads it. */
static enum mt_status append_number(struct mt_text text, const struct number *number,
                                    struct mt_byte_list *out)
{
    enum mt_status status = number->start < number->digits ? mt_byte_list_append_text(out, "-") : MT_OK;
    char written[FACTOR_BYTES] = "";
    size_t plain = number->fraction > 0 ? number->fraction : number->factor; // digits and separators up to it
    if (number->words >= 0) (void)snprintf(written, sizeof written, "%ld", number->words);
    if (number->words >= 0 || text.text[number->digits] == '\\') plain = number->digits;
    if (number->fraction > 0) (void)snprintf(written, sizeof written, "(");
    if (status == MT_OK) status = mt_byte_list_append_text(out, written);
    for (size_t i = number->digits; i < plain && status == MT_OK; i++) {
        bool comma = text.text[i] == ',' && is_digit(text, i + 1) && past_digits(text, i + 1) < i + 4;
        bool kept = is_digit(text, i) || text.text[i] == '.' || text.text[i] == '/';
        if (comma || kept) status = mt_byte_list_append(out, comma ? "." : text.text + i, 1);
    }
    if (status == MT_OK && number->fraction > 0) status = mt_byte_list_append_text(out, "+");
    if (status == MT_OK && number->words < 0 && plain < number->factor)
        status = mt_byte_list_append(out, text.text + plain, number->factor - plain);
    if (status == MT_OK && number->fraction > 0) status = mt_byte_list_append_text(out, ")");
    (void)factor_at(text, number->factor, written);
    return status == MT_OK ? mt_byte_list_append_text(out, written) : status;
}

// ------------------------------------------------------------------ which one

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
    if (number->start == at && before != '$' && mt_sentence_follows(text, at, labels)) return true;
    static const char *const ordinals[] = {"st", "nd", "rd", "th"};
    for (size_t i = 0; i < 4; i++) {
        if (mt_text_has(text, end, ordinals[i]) && !is_letter(text, end + 2)) return true;
    }
    bool hour = mt_text_has(text, end, ":00") && !is_digit(text, end + 3);
    if (mt_text_has(text, end, ":") && is_digit(text, end + 1) && !hour) return true; // 3:45, not 3:00
    if (before == ':' && at > 1 && is_digit(text, at - 2)) return true;
    // "2. Multiply" at the beginning of a line
    size_t line = at;
    while (line > 0 && strchr(" \t*#>-", text.text[line - 1]) != NULL) line--;
    bool first = line > 0 && text.text[line - 1] == '\n';
    bool dotted = end + 1 < text.bytes && strchr(".):", text.text[end]) != NULL;
    size_t word = dotted ? past_spaces(text, end + 1) : end;
    while (word < text.bytes && text.text[word] == '*') word++;
    if (!dotted || word == end + 1 || word >= text.bytes || text.text[word] == '\n') return false;
    // "Day 3: 12" likewise, with a word before it
    while (line > 0 && line < at && isalpha((unsigned char)text.text[line - 1])) line--;
    return first || (text.text[end] == ':' && line < at && (line == 0 || text.text[line - 1] == '\n'));
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

static size_t sentence_end(struct mt_text text, size_t at)
{
    while (at < text.bytes && !mt_sentence_ends(text, at)) at++;
    return at;
}

/* Where the clause ends in which a number stands: at a comma, a bracket, or the sentence's end. */
static size_t clause_end(struct mt_text text, size_t at)
{
    for (; at < text.bytes && !mt_sentence_ends(text, at); at++) {
        bool space = at + 1 == text.bytes || isspace((unsigned char)text.text[at + 1]);
        if (text.text[at] == ';' || (text.text[at] == ',' && space)) return at;
        if (text.text[at] == '(' && at > 0 && text.text[at - 1] == ' ') return at;
    }
    return at;
}

/* True for the first number of "24 or 32", and for both of "between 24 and 32". */
static bool has_other(struct mt_text text, const struct number *number)
{
    static const char *const between[] = {"between", "both", NULL};
    static const char *const joints[] = {"or ", "or maybe ", "or possibly ", "or it could be "};
    struct number other;
    size_t after = past_spaces(text, number->end);
    for (size_t i = 0; i < sizeof joints / sizeof joints[0]; i++) {
        bool joined = mt_text_has(text, after, joints[i]) && next_value(text, after, &other);
        if (joined && other.digits == after + strlen(joints[i])) return true;
    }
    size_t at = number->start;
    if (at > 5 && memcmp(text.text + at - 5, " and ", 5) == 0) {
        at -= 5;
        while (at > 0 && strchr("$.,0123456789", text.text[at - 1]) != NULL) at--;
    }
    return mt_sentence_follows(text, at, between);
}

/* Where the markup behind a number ends. */
static size_t past_markup(struct mt_text text, size_t at)
{
    while (at < text.bytes && (strchr(" _$)", text.text[at]) != NULL || mt_text_has(text, at, "**")))
        at += text.text[at] == '*' ? 2 : 1;
    return at;
}

/* True when what ends at `at` is taken together with something: "6 * 8". */
static bool is_operand(struct mt_text text, size_t at)
{
    at = past_markup(text, at);
    return at < text.bytes && strchr("+*/-^", text.text[at]) != NULL;
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
        bool equal = text.text[at] == '=' && next_value(text, at, &other) && other.digits < end;
        if (equal && !is_operand(text, other.end)) *number = other;
    }
    *several = has_other(text, number);
    return true;
}

bool mt_statement_marked(struct mt_text text, size_t at)
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

// ------------------------------------------------------------------ without a statement

/* The number behind `at`, which a word may stand before: "2 hours and 40 minutes", "0 to 100". */
static bool is_part(struct mt_text text, const struct number *number)
{
    struct number other;
    size_t end = past_spaces(text, number->end);
    size_t word = end;
    if (mt_text_has(text, number->end, "% of ")) return true;
    while (is_letter(text, word)) word++;
    bool more = word > end && mt_text_has(text, word, " and ") && next_number(text, word + 5, &other) &&
                other.digits == word + 5;
    if (more && is_letter(text, past_spaces(text, other.end))) return true; // the first of two
    size_t at = number->start;
    static const char *const joints[] = {" to ", " and "};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(joints[i]);
        if (at <= length || memcmp(text.text + at - length, joints[i], length) != 0) continue;
        size_t left = at - length;
        while (i == 1 && left > 0 && isalpha((unsigned char)text.text[left - 1])) left--;
        while (left > 0 && text.text[left - 1] == ' ') left--;
        if (left > 0 && isdigit((unsigned char)text.text[left - 1]) && is_letter(text, end)) return true;
    }
    return false;
}

/* True for what follows in "8 altogether" and "8 apples in total". */
static bool is_sum(struct mt_text text, size_t at)
{
    static const char *const words[] = {"altogether", "in total", "in all", "total"};
    for (int skipped = 0; skipped < 2; skipped++) {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            if (mt_text_has(text, at, words[i]) && !is_letter(text, at + strlen(words[i]))) return true;
        }
        while (is_letter(text, at)) at++;
        at = past_spaces(text, at);
    }
    return false;
}

static enum mt_sentence_weight weight_of(struct mt_text text, const struct number *number)
{
    size_t before = 0;
    enum mt_sentence_weight weight = mt_sentence_weight(text, number->start, &before);
    size_t after = past_markup(text, number->end);
    bool operand = is_operand(text, number->end);
    bool result = (before > 0 && text.text[before - 1] == '=') || weight == MT_WEIGHS_TOTAL;
    if (result) return operand ? MT_WEIGHS_NAMED : MT_WEIGHS_TOTAL;
    if (is_sum(text, after)) return MT_WEIGHS_TOTAL;
    bool share = weight == MT_WEIGHS_NAMED && mt_text_has(text, number->end, "%");
    return share || is_part(text, number) ? MT_WEIGHS_CONTEXT : weight;
}

/* True for a number of a condition or a reason: "If she gave 17 away, ...", "The profit is $25 if he sells
 * 20". */
static bool is_supposed(struct mt_text text, const struct number *number, enum mt_sentence_weight weight)
{
    static const char *const conditions[] = {" if ",    ", when ", " compared ", " because ",
                                             " since ", ", as ",   NULL};
    static const char *const conclusions[] = {" so ", " thus ", " therefore ", " hence "};
    size_t start = number->start;
    size_t least = start > MOST_SENTENCE ? start - MOST_SENTENCE : 0;
    if (weight == MT_WEIGHS_TOTAL) return false;
    while (start > least && !mt_sentence_ends(text, start - 1)) start--;
    struct mt_text before = {.text = text.text + start, .bytes = number->start - start};
    for (size_t i = 0; i < sizeof conclusions / sizeof conclusions[0]; i++) {
        size_t word = mt_text_find(before, 0, conclusions[i]);
        if (word < before.bytes) before = mt_text_from(before, word + 1);
    }
    if (mt_text_has(before, past_spaces(before, 0), "If "))
        return weight < MT_WEIGHS_COPULA && mt_text_find(before, 0, ", ") == before.bytes;
    size_t condition = mt_text_until(before, conditions).bytes;
    if (condition == before.bytes || mt_text_find(before, condition + 1, ", ") < before.bytes) return false;
    if (mt_text_has(before, condition, ", as well")) return false;
    for (size_t i = 0; i < condition; i++) {
        if (isdigit((unsigned char)before.text[i])) return true;
    }
    return false;
}

/* The number of the last sentence that has one outside brackets that is more than context: the weightiest, of
 * two the first, of totals the last. Else the last number. */
static bool concluded(struct mt_text text, struct number *number)
{
    struct number next;
    struct number last;
    enum mt_sentence_weight best = MT_WEIGHS_CONTEXT;
    bool found = false;
    size_t sentence = 0; // where the next one begins
    size_t at = 0;       // up to here brackets are counted
    int open = 0;
    for (size_t from = 0; next_value(text, from, &next); from = next.end) {
        if (next.digits >= sentence) best = MT_WEIGHS_CONTEXT;
        while (sentence <= next.digits) sentence = mt_sentence_next(text, sentence);
        for (; at < next.digits; at++) {
            bool formula = at > 0 && text.text[at - 1] == '\\'; // \( and \)
            if (text.text[at] == '(' && !formula) open++;
            if ((text.text[at] == ')' && !formula) || text.text[at] == '\n') open -= open > 0 ? 1 : 0;
        }
        enum mt_sentence_weight weight = weight_of(text, &next);
        if (open > 0 || is_supposed(text, &next, weight)) weight = MT_WEIGHS_CONTEXT;
        if (weight > best || (weight == MT_WEIGHS_TOTAL && best == MT_WEIGHS_TOTAL)) {
            *number = next;
            best = weight;
            found = true;
        }
        last = next;
        if (!found) *number = last;
    }
    return found || next_value(text, 0, &next);
}

/* True when something is concluded behind `at`. */
static bool concludes(struct mt_text text, size_t at)
{
    static const char *const conclusions[] = {" so ", "So ", "Therefore", "Thus", "Hence", NULL};
    struct number number;
    size_t word = at + mt_text_until(mt_text_from(text, at), conclusions).bytes;
    return word < text.bytes && next_value(text, word, &number);
}

/* True when what begins at `at` explains or checks what stands before it. */
static bool explains(struct mt_text text, size_t at)
{
    static const char *const heads[] = {"Explanation", "Verification", "Check",     "Note",
                                        "Here's",      "Breakdown",    "Reasoning", "Justification"};
    static const char *const checks[] = {"To double check", "To double-check", "Double-checking",
                                         "Let's double"};
    struct mt_text rest = mt_text_from(text, at);
    if (is_letter(text, at - 1)) return false;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (mt_text_has(rest, 0, checks[i])) return true;
    }
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (!mt_text_has(rest, 0, heads[i])) continue;
        size_t colon = mt_text_until(rest, (const char *const[]){":", ".", "\n", NULL}).bytes;
        return mt_text_has(rest, colon, ":");
    }
    return false;
}

struct mt_text mt_statement_unexplained(struct mt_text text)
{
    struct number first;
    if (!next_value(text, 0, &first)) return text;
    for (size_t at = first.end; at < text.bytes; at++) {
        if (!explains(text, at)) continue;
        return concludes(text, at) ? text : (struct mt_text){.text = text.text, .bytes = at};
    }
    return text;
}

/* Of "45. There are 10 teams ..." the first sentence, if nothing is concluded behind it. Not of "1. There
 * ...". */
static struct mt_text first_if_bare(struct mt_text text)
{
    struct number first;
    if (!next_number(text, 0, &first) || past_markup(text, 0) < first.start) return text;
    size_t end = past_markup(text, first.end);
    bool stops = mt_text_has(text, end, ". ") || mt_text_has(text, end, "\n\n");
    bool listed = first.end == first.digits + 1 && !mt_text_has(text, end, "\n\n"); // "2. Multiply ..."
    static const char *const results[] = {" = ", " get ", NULL};
    bool goes_on = mt_text_until(mt_text_from(text, end), results).bytes < text.bytes - end;
    if (!stops || listed || goes_on || concludes(text, end)) return text;
    return (struct mt_text){.text = text.text, .bytes = end};
}

/* Words that say how much where no number does. */
static enum mt_status append_amount(struct mt_text text, struct mt_byte_list *out)
{
    static const char *const words[][2] = {
        {"ne and a half", "3/2"}, {"half a dozen", "6"}, {"a dozen", "12"},
        {"half", "1/2"},          {"a third", "1/3"},    {"one third", "1/3"},
        {"quarter", "1/4"},       {"nothing left", "0"}, {"none left", "0"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (mt_text_find(text, 0, words[i][0]) < text.bytes)
            return mt_byte_list_append_text(out, words[i][1]);
    }
    return MT_OK;
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
            if (last.found || !mt_statement_corrects(i))
                take(&last, plain, plain.text + match.to, colon < match.to);
        }
    }
    for (size_t at = mt_text_find(plain, 0, "###"); at < plain.bytes; at = mt_text_find(plain, at, "###")) {
        while (at < plain.bytes && plain.text[at] == '#') at++;
        if (mt_statement_marked(plain, at)) take(&last, plain, plain.text + at, false);
    }
    if (mt_extract_boxed(plain, &box)) take(&last, plain, box.text, false);
    struct mt_text whole = mt_text_trimmed(plain);
    bool cut_off = whole.bytes > 0 && whole.text[whole.bytes - 1] == '=';
    if (!last.found && cut_off) return MT_OK;
    if (!last.found) {
        last.text = first_if_bare(mt_statement_unexplained(plain));
        last.found = concluded(last.text, &last.number);
        last.several = last.found && has_other(plain, &last.number);
    }
    if (!last.found) return append_amount(plain, out);
    if (last.several) return MT_OK;
    static const char *const by_twelve[] = {"/12", "/ 12", NULL};
    char factor[FACTOR_BYTES];
    (void)factor_at(last.text, last.number.factor, factor);
    // Who divides by twelve was asked for dozens.
    if (strcmp(factor, "*12") == 0 && mt_text_until(plain, by_twelve).bytes < plain.bytes)
        last.text.bytes = last.number.factor;
    return append_number(last.text, &last.number, out);
}
