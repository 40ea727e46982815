/* Reading a number. */
#include "eval/answers/number.h"

#include <stdio.h>
#include <strings.h>

#include "eval/answers/sentence.h"

/* What may stand between groups of three digits; 0: nothing here. */
static size_t separator(struct mt_text text, size_t at)
{
    static const char *const all[] = {",\\!", "{,}", "\\,", ",", " ", "'"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t length = strlen(all[i]);
        if (mt_text_has(text, at, all[i]) && mt_is_digit(text, at + length) &&
            mt_past_digits(text, at + length) == at + length + 3)
            return length;
    }
    return 0;
}

/* The end of what follows a decimal comma at `end`, "3,5", unless it parts a list; 0: there is none. */
static size_t comma_end(struct mt_text text, size_t at, size_t end)
{
    size_t stop = mt_text_has(text, end, ",") ? mt_past_digits(text, end + 1) : end;
    bool listed = (at > 0 && strchr(",([{", text.text[at - 1]) != NULL) ||
                  (mt_text_has(text, stop, ",") && mt_is_digit(text, stop + 1));
    return stop > end + 1 && stop <= end + 3 && !listed ? stop : 0;
}

size_t mt_number_end(struct mt_text text, size_t at)
{
    size_t end = mt_past_digits(text, at);
    size_t lead = end - at;
    for (size_t length = separator(text, end); lead >= 1 && lead <= 3 && length > 0;
         length = separator(text, end))
        end += length + 3;
    if (end < text.bytes && text.text[end] == '.' && mt_is_digit(text, end + 1))
        return mt_past_digits(text, end + 1);
    size_t decimals = comma_end(text, at, end);
    return decimals > 0 ? decimals : end;
}

size_t mt_number_factor(struct mt_text text, size_t at, char factor[MT_FACTOR_BYTES])
{
    static const struct {
        const char *word, *factor;
    } words[] = {{"hundred", "*10^{2}"},   {"thousand", "*10^{3}"},  {"million", "*10^{6}"},
                 {"billion", "*10^{9}"},   {"trillion", "*10^{12}"}, {"k", "*10^{3}"},
                 {"万", "*10^{4}"},        {"亿", "*10^{8}"},        {"dozen", "*12"},
                 {"and a half", "+1/2"},   {"quarters of", "/4"},    {"thirds of", "/3"},
                 {"and a quarter", "+1/4"}};
    static const char *const times[] = {"*", "x", "\\times", "\\cdot"};
    size_t word = mt_past_spaces(text, at);
    factor[0] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);
        if (word + length > text.bytes || strncasecmp(text.text + word, words[i].word, length) != 0) continue;
        if (mt_is_letter(text, word + length) || (length == 1 && word != at)) continue;
        (void)snprintf(factor, MT_FACTOR_BYTES, "%s", words[i].factor);
        return word + length;
    }
    static const char dollars[] = "dollars and ";
    size_t cents = word + sizeof dollars - 1;
    if (mt_text_has(text, word, dollars) && mt_text_has(text, mt_past_digits(text, cents), " cent")) {
        size_t end = mt_past_digits(text, cents);
        if (end == cents || end > cents + 2) return at;
        (void)snprintf(factor, MT_FACTOR_BYTES, "+%.*s/100", (int)(end - cents), text.text + cents);
        return end;
    }
    size_t power = text.bytes;
    if (word == at && at < text.bytes && (text.text[at] == 'e' || text.text[at] == 'E')) power = at + 1;
    for (size_t i = 0; i < sizeof times / sizeof times[0] && power == text.bytes; i++) {
        if (!mt_text_has(text, word, times[i])) continue;
        size_t ten = mt_past_spaces(text, word + strlen(times[i]));
        if (mt_text_has(text, ten, "10^")) power = ten + 3;
    }
    if (power < text.bytes && text.text[power] == '{') power++;
    size_t digits = power;
    if (power < text.bytes && (text.text[power] == '-' || text.text[power] == '+')) digits++;
    size_t end = mt_past_digits(text, digits);
    if (end == digits || end - digits > 3 || mt_is_letter(text, end)) return at;
    if (text.text[power] == '+') power = digits;
    (void)snprintf(factor, MT_FACTOR_BYTES, "*10^{%.*s}", (int)(end - power), text.text + power);
    return end < text.bytes && text.text[end] == '}' ? end + 1 : end;
}

/* \frac{5}{6}, \dfrac56; 0: there is none at `at`. */
static size_t fraction_end(struct mt_text text, size_t at)
{
    static const char *const names[] = {"\\frac", "\\dfrac", "\\tfrac"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!mt_text_has(text, at, names[i])) continue;
        size_t end = at + strlen(names[i]);
        if (mt_is_digit(text, end) && mt_is_digit(text, end + 1)) return end + 2;
        for (int part = 0; part < 2; part++) {
            if (!mt_text_has(text, end, "{") || !mt_is_digit(text, end + 1)) return 0;
            end = mt_number_end(text, end + 1);
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
        while (mt_is_letter(text, stop)) stop++;
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
    size_t minus = money;
    while (minus > 0 && text.text[minus - 1] == ' ') minus--;
    if (minus == 0 || text.text[minus - 1] != '-') return at;
    size_t before = minus - 1;
    if (minus < money) { // "= - 5", but no dash and no item of a list
        static const char *const verbs[] = {"is", "be", "equals", NULL};
        while (before > 0 && text.text[before - 1] == ' ') before--;
        bool alone = before == 0 || text.text[before - 1] == '=' || mt_sentence_follows(text, before, verbs);
        return alone ? minus - 1 : at;
    }
    bool between = before > 0 && (isalnum((unsigned char)text.text[before - 1]) ||
                                  strchr(")]}-", text.text[before - 1]) != NULL);
    return between ? at : before;
}

/* The end of the fraction behind whole digits: "2 1/2", "2\\frac{1}{2}"; 0: there is none. */
static size_t mixed_end(struct mt_text text, size_t digits, size_t end)
{
    if (mt_past_digits(text, digits) != end || end == digits) return 0;
    size_t fraction = fraction_end(text, mt_past_spaces(text, end));
    if (fraction > 0 || !mt_text_has(text, end, " ")) return fraction;
    size_t bar = mt_past_digits(text, end + 1);
    if (bar == end + 1 || !mt_text_has(text, bar, "/") || !mt_is_digit(text, bar + 1)) return 0;
    size_t stop = mt_past_digits(text, bar + 1);
    return mt_text_has(text, stop, "/") ? 0 : stop;
}

bool mt_number_next(struct mt_text text, size_t at, struct mt_number *number)
{
    for (; at < text.bytes; at++) {
        size_t end = fraction_end(text, at);
        size_t fraction = 0;
        bool point =
            text.text[at] == '.' && mt_is_digit(text, at + 1) && (at == 0 || text.text[at - 1] != '.');
        if (end == 0 && (mt_is_digit(text, at) || point)) {
            end = mt_number_end(text, at);
            size_t mixed = mixed_end(text, at, end);
            if (mixed > 0) {
                fraction = mt_past_spaces(text, end);
                end = mixed;
            } else if (end < text.bytes && text.text[end] == '/' && mt_is_digit(text, end + 1)) {
                size_t under = mt_number_end(text, end + 1);
                bool date = under < text.bytes && text.text[under] == '/';
                end = date ? end : under;
            }
        }
        long words = -1;
        if (end == 0 && mt_is_letter(text, at) && (at == 0 || !isalnum((unsigned char)text.text[at - 1])))
            words = words_at(text, at, &end);
        if (words < 0 && mt_is_letter(text, at)) end = 0;
        if (end == 0) continue;
        char factor[MT_FACTOR_BYTES];
        *number = (struct mt_number){.start = sign_before(text, at),
                                     .end = mt_number_factor(text, end, factor),
                                     .digits = at,
                                     .fraction = fraction,
                                     .factor = end,
                                     .words = words};
        return true;
    }
    return false;
}

enum mt_status mt_number_append(struct mt_text text, const struct mt_number *number, struct mt_byte_list *out)
{
    enum mt_status status = number->start < number->digits ? mt_byte_list_append_text(out, "-") : MT_OK;
    char written[MT_FACTOR_BYTES] = "";
    size_t plain = number->fraction > 0 ? number->fraction : number->factor; // digits and separators up to it
    if (number->words >= 0) (void)snprintf(written, sizeof written, "%ld", number->words);
    if (number->words >= 0 || text.text[number->digits] == '\\') plain = number->digits;
    if (number->fraction > 0) (void)snprintf(written, sizeof written, "(");
    if (status == MT_OK) status = mt_byte_list_append_text(out, written);
    for (size_t i = number->digits; i < plain && status == MT_OK; i++) {
        bool comma = text.text[i] == ',' && mt_is_digit(text, i + 1) && mt_past_digits(text, i + 1) < i + 4;
        bool kept = mt_is_digit(text, i) || text.text[i] == '.' || text.text[i] == '/';
        if (comma || kept) status = mt_byte_list_append(out, comma ? "." : text.text + i, 1);
    }
    if (status == MT_OK && number->fraction > 0) status = mt_byte_list_append_text(out, "+");
    if (status == MT_OK && number->words < 0 && plain < number->factor)
        status = mt_byte_list_append(out, text.text + plain, number->factor - plain);
    if (status == MT_OK && number->fraction > 0) status = mt_byte_list_append_text(out, ")");
    (void)mt_number_factor(text, number->factor, written);
    return status == MT_OK ? mt_byte_list_append_text(out, written) : status;
}
