/* Which of the numbers in prose is the answer. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "eval/answers/number.h"
#include "eval/answers/sentence.h"
#include "eval/answers/statement.h"

#define MOST_SENTENCE 512 // bytes of a statement that are looked at
#define MOST_VALUE    160 // of one that begins with its number

/* True for numbers that only name something: of a name (x2, B-52), of a list, of a day, 3rd; or that are
 * denied. */
static bool is_name(struct mt_text text, const struct mt_number *number)
{
    static const char *const labels[] = {"day",      "week",   "step",  "part",    "question", "problem",
                                         "chapter",  "page",   "no",    "number",  "example",  "case",
                                         "equation", "line",   "room",  "round",   "level",    "version",
                                         "option",   "figure", "table", "section", "not",      NULL};
    size_t at = number->digits;
    size_t end = number->end;
    char before = at > 0 ? text.text[at - 1] : '\0';
    if (isalpha((unsigned char)before) || before == '_') return true;
    if (before == '-' && at > 1 && mt_is_letter(text, at - 2)) return true;
    if (number->start == at && before != '$' && mt_sentence_follows(text, at, labels)) return true;
    static const char *const ordinals[] = {"st", "nd", "rd", "th"};
    for (size_t i = 0; i < 4; i++) {
        if (mt_text_has(text, end, ordinals[i]) && !mt_is_letter(text, end + 2)) return true;
    }
    bool hour = mt_text_has(text, end, ":00") && !mt_is_digit(text, end + 3);
    if (mt_text_has(text, end, ":") && mt_is_digit(text, end + 1) && !hour) return true; // 3:45, not 3:00
    if (before == ':' && at > 1 && mt_is_digit(text, at - 2)) return true;
    // "2. Multiply" at the beginning of a line
    size_t line = at;
    while (line > 0 && strchr(" \t*#>-", text.text[line - 1]) != NULL) line--;
    bool first = line > 0 && text.text[line - 1] == '\n';
    bool dotted = end + 1 < text.bytes && strchr(".):", text.text[end]) != NULL;
    size_t word = dotted ? mt_past_spaces(text, end + 1) : end;
    while (word < text.bytes && text.text[word] == '*') word++;
    if (!dotted || word == end + 1 || word >= text.bytes || text.text[word] == '\n') return false;
    // "Day 3: 12" likewise, with a word before it
    while (line > 0 && line < at && isalpha((unsigned char)text.text[line - 1])) line--;
    return first || (text.text[end] == ':' && line < at && (line == 0 || text.text[line - 1] == '\n'));
}

/* The next number that is no name. */
static bool next_value(struct mt_text text, size_t at, struct mt_number *number)
{
    while (mt_number_next(text, at, number)) {
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
        if (text.text[at] == ';' || (text.text[at] == ',' && space) || mt_text_has(text, at, "##")) return at;
        if (text.text[at] == '(' && at > 0 && text.text[at - 1] == ' ') return at;
    }
    return at;
}

/* True for the first number of "24 or 32" and of "24-32", and for both of "between 24 and 32". */
static bool has_other(struct mt_text text, const struct mt_number *number)
{
    static const char *const between[] = {"between", "both", NULL};
    static const char *const joints[] = {"or ", "or maybe ", "or possibly ", "or it could be "};
    struct mt_number other;
    size_t after = mt_past_spaces(text, number->end);
    for (size_t i = 0; i < sizeof joints / sizeof joints[0]; i++) {
        bool joined = mt_text_has(text, after, joints[i]) && next_value(text, after, &other);
        if (joined && other.digits == after + strlen(joints[i])) return true;
    }
    bool range = mt_text_has(text, number->end, "-") || mt_text_has(text, number->end, " to ");
    if (range && mt_number_next(text, number->end, &other) && other.words < 0) {
        size_t second = number->end + (mt_text_has(text, number->end, "-") ? 1 : 4);
        if (other.digits == second && !mt_text_has(text, mt_past_spaces(text, other.end), "=")) return true;
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

/* The end of the sign for an operation at `at`, or 0. */
static size_t operator_end(struct mt_text text, size_t at)
{
    static const char *const signs[] = {"+", "*", "/", "-", "^", "x ", "\\times", "\\cdot", "\\div"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (mt_text_has(text, at, signs[i])) return at + strlen(signs[i]);
    }
    return 0;
}

/* True when what ends at `at` is taken together with something: "6 * 8". Not "6/day". */
static bool is_operand(struct mt_text text, size_t at)
{
    size_t end = operator_end(text, past_markup(text, at));
    if (end == 0) { // "8 boys + 16 girls"
        at = mt_past_spaces(text, at);
        while (mt_is_letter(text, at)) at++;
        at = mt_past_spaces(text, at);
        if (!mt_text_has(text, at, "+ ")) return false;
        end = at + 1;
    }
    while (end < text.bytes && strchr(" ($\\{", text.text[end]) != NULL) end++;
    return mt_is_digit(text, end) || text.text[end - 1] == '\\' ||
           (mt_is_letter(text, end) && !mt_is_letter(text, end + 1));
}

bool mt_statement_marked(struct mt_text text, size_t at)
{
    while (at < text.bytes && strchr(" *$\\(-", text.text[at]) != NULL) at++;
    if (mt_text_has(text, at, "frac") || mt_text_has(text, at, "boxed")) return true;
    if (!mt_is_digit(text, at)) return false;
    size_t end = mt_number_end(text, at);
    bool dotted = end < text.bytes && strchr(".):", text.text[end]) != NULL;
    size_t word = mt_past_spaces(text, dotted ? end + 1 : end);
    if (word >= text.bytes || text.text[word] == '\n') return true;
    return !dotted && !isupper((unsigned char)text.text[word]);
}

// ------------------------------------------------------------------ without a statement

/* True for what follows in "8 altogether" and "8 apples in total". */
static bool is_sum(struct mt_text text, size_t at)
{
    static const char *const words[] = {"altogether", "in total", "in all", "total"};
    for (int skipped = 0; skipped < 2; skipped++) {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            if (mt_text_has(text, at, words[i]) && !mt_is_letter(text, at + strlen(words[i]))) return true;
        }
        while (mt_is_letter(text, at)) at++;
        at = mt_past_spaces(text, at);
    }
    return false;
}

/* True when words compare: "3 times as many", "5 more than". */
static bool compares(struct mt_text text, size_t from, size_t to)
{
    static const char *const words[] = {" times", " than", " out of", "% of", "percent of", NULL};
    struct mt_text part = {.text = text.text + from, .bytes = to - from};
    return mt_text_until(part, words).bytes < part.bytes;
}

static enum mt_sentence_weight weight_of(struct mt_text text, const struct mt_number *number)
{
    size_t before = 0;
    enum mt_sentence_weight weight = mt_sentence_weight(text, number->start, &before);
    size_t after = past_markup(text, number->end);
    bool operand = is_operand(text, number->end);
    bool sum = (before > 0 && text.text[before - 1] == '=') || is_sum(text, after);
    if (sum && weight < MT_WEIGHS_TOTAL) weight = MT_WEIGHS_TOTAL;
    if (weight >= MT_WEIGHS_TOTAL) return operand ? MT_WEIGHS_NAMED : weight;
    bool some = mt_text_has(text, number->end, " more ") || mt_text_has(text, number->end, " of the ");
    if (weight == MT_WEIGHS_CONTEXT && some) return MT_WEIGHS_NAMED; // "with 8 of the 11 apples"
    static const char which[] = "which is";
    bool aside = before >= sizeof which - 1 && mt_text_has(text, before - (sizeof which - 1), which);
    if (aside && compares(text, number->end, clause_end(text, number->end))) return MT_WEIGHS_CONTEXT;
    bool share = weight == MT_WEIGHS_NAMED && mt_text_has(text, number->end, "%");
    return share ? MT_WEIGHS_CONTEXT : weight;
}

/* The number of the last sentence that has one outside brackets that is more than context: the weightiest, of
 * two the first, of totals the last. Else the last number, outside brackets if there is one. */
static bool concluded(struct mt_text text, struct mt_number *number)
{
    struct mt_number next;
    bool outside = false; // of brackets is *number, where nothing is found
    enum mt_sentence_weight best = MT_WEIGHS_CONTEXT;
    bool found = false;
    bool any = false;
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
        enum mt_sentence_weight weight = open > 0 ? MT_WEIGHS_CONTEXT : weight_of(text, &next);
        if (weight > best || (weight >= MT_WEIGHS_TOTAL && weight == best)) {
            *number = next;
            best = weight;
            found = true;
        }
        if (!found && (open == 0 || !outside)) *number = next;
        outside = outside || open == 0;
        any = true;
    }
    return any;
}

/* True for a number that one behind it says in the answer's unit, or worked out: no whole one, one of
 * several, or one that is compared. `end`: of what is looked at. */
static bool is_unsettled(struct mt_text text, const struct mt_number *number, size_t end)
{
    struct mt_number next;
    size_t start = number->start;
    int count = 0;
    if (compares(text, number->end, end)) return true;
    if (start > 0 && text.text[start - 1] == '$') return false;
    for (size_t i = number->digits; i < number->end; i++) {
        if (text.text[i] == '.' || text.text[i] == '/') return true;
    }
    if (weight_of(text, number) >= MT_WEIGHS_TOTAL) return false;
    while (start > 0 && !mt_sentence_ends(text, start - 1)) start--;
    for (size_t from = start; next_value(text, from, &next) && next.digits < end; from = next.end) {
        bool bracketed = next.start > 0 && text.text[next.start - 1] == '('; // "sixty (60)"
        count += weight_of(text, &next) > MT_WEIGHS_CONTEXT && !bracketed ? 1 : 0;
    }
    return count > 1;
}

/* Of "5 + 3, or 8", "5 feet 10 inches, i.e. 70 inches" and "33.33, so 33" the second number, where the first
 * is unsettled. */
static void restated(struct mt_text text, struct mt_number *number)
{
    static const char *const joints[] = {", or ",
                                         ", i.e.",
                                         ", which is ",
                                         ", so ",
                                         ", which equals ",
                                         ", which gives ",
                                         ", which comes out to ",
                                         ", which rounds up to ",
                                         ", which rounds to ",
                                         " ≈ ",
                                         " ("};
    struct mt_text sentence = {.text = text.text, .bytes = sentence_end(text, number->end)};
    struct mt_number next;
    for (size_t i = 0; i < sizeof joints / sizeof joints[0]; i++) {
        size_t joint = mt_text_find(sentence, number->end, joints[i]);
        if (joint == sentence.bytes || !next_value(sentence, joint, &next)) continue;
        size_t at = joint + strlen(joints[i]);
        while (at < next.start && strchr(" ,*$", text.text[at]) != NULL) at++;
        if (at < next.start || is_operand(text, next.end)) continue; // "i.e. sold 11"
        if (compares(text, next.end, clause_end(sentence, next.end))) continue;
        if (!is_unsettled(text, number, joint)) return;
        *number = next;
        return;
    }
}

/* True when nothing but a name or a word like "about" stands before a number: it is not told in a sentence.
 */
static bool is_bare(struct mt_text text, const struct mt_number *number)
{
    static const char *const words[] = {"about", "approximately", "around", "roughly", "exactly", NULL};
    size_t letters = 0;
    for (size_t i = 0; i < number->start; i++) letters += mt_is_letter(text, i) ? 1 : 0;
    return letters <= 1 || mt_sentence_follows(text, number->start, words);
}

/*
 * The number a statement gives, as its first sentence tells it. One that begins with a number gives that, or
 * what an equation or a label's short sentence ("12 pencils cost $6") comes to. *several: it gives two.
 */
static bool stated_number(struct mt_text text, bool label, struct mt_number *number, bool *several)
{
    struct mt_number other;
    *several = false;
    if (!next_value(text, 0, number) || sentence_end(text, 0) < number->digits) return false;
    struct mt_text part = {.text = text.text, .bytes = sentence_end(text, number->end)};
    if (is_bare(text, number)) {
        enum mt_sentence_weight best = label ? MT_WEIGHS_NAMED : MT_WEIGHS_COPULA;
        part.bytes = clause_end(text, number->end);
        if (part.bytes > number->end + MOST_VALUE) part.bytes = number->end + MOST_VALUE;
        for (size_t from = number->end; next_value(part, from, &other); from = other.end) {
            enum mt_sentence_weight weight = weight_of(part, &other);
            if (weight < best || (weight == best && weight < MT_WEIGHS_TOTAL)) continue;
            *number = other;
            best = weight;
        }
    } else if (!concluded(part, number)) {
        return false;
    }
    restated(text, number);
    *several = has_other(text, number);
    return true;
}

/* True when something is concluded behind `at`. */
static bool concludes(struct mt_text text, size_t at)
{
    static const char *const conclusions[] = {" so ", "So ", "Therefore", "Thus", "Hence", NULL};
    struct mt_number number;
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
    if (mt_is_letter(text, at - 1)) return false;
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
    struct mt_number first;
    if (!next_value(text, 0, &first)) return text;
    for (size_t at = first.end; at < text.bytes; at++) {
        if (!explains(text, at)) continue;
        return concludes(text, at) ? text : (struct mt_text){.text = text.text, .bytes = at};
    }
    return text;
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
    struct mt_number number;
    bool found, several;
};

/* Takes a statement that begins with `at`, behind the last one, if it gives a number. `prose`: it may begin a
 * text of several sentences ("Answer: She had 3 ..."), which then states nothing where it begins. */
static void take(struct stated *last, struct mt_text plain, const char *at, bool prose)
{
    if (at > plain.text && at[-1] == '\n' && mt_text_has(plain, (size_t)(at - plain.text), "- "))
        at += 2; // an item of a list, no sign
    struct mt_text text = mt_text_from(plain, (size_t)(at - plain.text));
    struct mt_text sentence = text;
    struct mt_number number;
    struct mt_number later;
    bool several = false;
    if (sentence.bytes > MOST_SENTENCE) sentence.bytes = MOST_SENTENCE;
    if ((last->found && at < last->text.text) || !stated_number(sentence, prose, &number, &several)) return;
    size_t letters = 0;
    for (size_t i = 0; i < number.start; i++) letters += isalpha((unsigned char)text.text[i]) ? 1 : 0;
    if (prose && letters > 1 && next_value(text, sentence_end(text, number.end), &later)) return;
    *last = (struct stated){.text = text, .number = number, .found = true, .several = several};
}

enum mt_status mt_statement_number(const struct mt_forms *forms, struct mt_text plain,
                                   struct mt_byte_list *out)
{
    struct stated last = {0};
    struct mt_pattern_match match;
    struct mt_text box;
    for (size_t i = 0; i < forms->count; i++) {
        const struct mt_form *form = &forms->each[i];
        for (size_t from = 0;
             from < plain.bytes && mt_pattern_find(form->pattern, plain.text, plain.bytes, from, &match);
             from = match.to > from ? match.to : from + 1) {
            size_t colon = match.from;
            while (colon < match.to && plain.text[colon] != ':' && plain.text[colon] != '\n') colon++;
            if (last.found || !form->corrects) take(&last, plain, plain.text + match.to, colon < match.to);
        }
    }
    for (size_t at = mt_text_find(plain, 0, "###"); at < plain.bytes; at = mt_text_find(plain, at, "###")) {
        while (at < plain.bytes && plain.text[at] == '#') at++;
        if (mt_statement_marked(plain, at)) take(&last, plain, plain.text + at, false);
    }
    if (mt_statement_boxed(plain, &box)) take(&last, box, box.text, false);
    struct mt_text whole = mt_text_trimmed(plain);
    bool cut_off = whole.bytes > 0 && whole.text[whole.bytes - 1] == '=';
    if (!last.found && cut_off) return MT_OK;
    if (!last.found) {
        last.text = mt_statement_unexplained(plain);
        last.found = concluded(last.text, &last.number);
        if (last.found) restated(last.text, &last.number);
        last.several = last.found && has_other(plain, &last.number);
    }
    if (!last.found) return append_amount(plain, out);
    if (last.several) return MT_OK;
    static const char *const by_twelve[] = {"/12", "/ 12", NULL};
    char factor[MT_FACTOR_BYTES];
    (void)mt_number_factor(last.text, last.number.factor, factor);
    // Who divides by twelve was asked for dozens.
    if (strcmp(factor, "*12") == 0 && mt_text_until(plain, by_twelve).bytes < plain.bytes)
        last.text.bytes = last.number.factor;
    return mt_number_append(last.text, &last.number, out);
}
