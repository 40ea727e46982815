/* Choices and texts that stand in the forms of statements. Numbers: statement_number.c; what is read at all:
 * statement_plain.c. */
#include "eval/answers/statement.h"

#include <ctype.h>
#include <strings.h>

#define RANKS 5

/* The next match behind *from, which moves behind its value. */
static bool next(struct mt_pattern *pattern, struct mt_text text, size_t *from, struct mt_text *value)
{
    struct mt_pattern_match match;
    while (*from < text.bytes && ((unsigned char)text.text[*from] & 0xC0u) == 0x80u) ++*from;
    if (*from >= text.bytes || !mt_pattern_find(pattern, text.text, text.bytes, *from, &match)) return false;
    *value = (struct mt_text){.text = text.text + match.start, .bytes = match.end - match.start};
    *from = match.to > *from ? match.to : *from + 1;
    return true;
}

/* What a value says: the place of a letter or word, SEVERAL for more than one, NOTHING for none. */
#define NOTHING (-1)
#define SEVERAL (-2)

/* How values are read. */
struct reading {
    int (*of)(struct mt_text value, const void *self);
    const void *self;
    int agree_from, agree_to; // the ranks whose statements must agree
    int ranks;                // how many count
    bool two;                 // what is not the one is the other
};

static bool is_word_byte(struct mt_text text, size_t at)
{
    return at < text.bytes && (isalnum((unsigned char)text.text[at]) || text.text[at] == '_');
}

static bool starts_with_word(struct mt_text text, size_t at, const char *word)
{
    size_t length = strlen(word);
    return text.bytes - at >= length && strncasecmp(text.text + at, word, length) == 0 &&
           !is_word_byte(text, at + length);
}

/* The end of a question a value stands in, behind "Is it valid?"; 0: it stands in none. */
static size_t question_end(struct mt_text plain, struct mt_text value)
{
    size_t at = (size_t)(value.text - plain.text) + value.bytes;
    plain.bytes = plain.bytes - at < 200 ? plain.bytes : at + 200; // work stays linear
    while (at < plain.bytes && strchr(".!?\n", plain.text[at]) == NULL) at++;
    if (at == plain.bytes || plain.text[at] != '?') return 0;
    while (at < plain.bytes && strchr("? \n*_\"'", plain.text[at]) != NULL) at++;
    return at;
}

/* What a value says in its clause, which may deny it, or ask for it. */
static int said_by(const struct mt_clauses *clauses, struct mt_text value, const struct reading *reading)
{
    int said = reading->of(value, reading->self);
    if (said == NOTHING) return NOTHING;
    struct mt_text plain = mt_text_in(&clauses->text);
    uint8_t found = clauses->denials.data[value.text - plain.text];
    if (found == MT_DENIAL_OPEN) return NOTHING;
    bool denied = found == MT_DENIAL_FOUND;
    size_t answer = reading->two ? question_end(plain, value) : 0;
    if (answer > 0) {
        bool no = starts_with_word(plain, answer, "no");
        if (!no && !starts_with_word(plain, answer, "yes")) return NOTHING;
        denied = denied != no;
    }
    if (!denied) return said;
    return reading->two && said >= 0 ? 1 - said : NOTHING;
}

/* True when two matches of a pattern say different things. */
static bool differ(struct mt_pattern *pattern, const struct mt_clauses *clauses,
                   const struct reading *reading)
{
    struct mt_text value;
    size_t from = 0;
    int said = NOTHING;
    while (next(pattern, mt_text_in(&clauses->text), &from, &value)) {
        int here = said_by(clauses, value, reading);
        if (here != NOTHING && said != NOTHING && here != said) return true;
        if (here != NOTHING) said = here;
    }
    return false;
}

/* Of the best rank that says something: what its last statement says. Where that is several answers, a
 * conclusion behind it may say which. */
static int read_statements(const struct mt_forms *forms, const struct mt_clauses *clauses,
                           const struct reading *reading)
{
    struct mt_text plain = mt_text_in(&clauses->text);
    int found = NOTHING;
    const char *behind = plain.text; // of statements: what stands before it is settled
    for (int rank = 0; rank < reading->ranks && (found == NOTHING || (found == SEVERAL && rank < 3));
         rank++) {
        int said = NOTHING;
        struct mt_text last = {.text = behind}; // what says so
        for (size_t i = 0; i < forms->count; i++) {
            const struct mt_form *form = &forms->each[i];
            struct mt_text value;
            size_t from = 0;
            if (form->rank != rank || (form->corrects && said == NOTHING)) continue;
            bool several = form->once && differ(form->pattern, clauses, reading);
            while (next(form->pattern, plain, &from, &value)) {
                int here = said_by(clauses, value, reading);
                if (here == NOTHING) from = (size_t)(value.text - plain.text) + 1;
                if (here >= 0 && several) here = SEVERAL;
                if (here == NOTHING || (here == SEVERAL && rank > 1)) continue;
                bool agree = rank >= reading->agree_from && rank <= reading->agree_to;
                bool differs = agree && said != NOTHING && here != said;
                if (value.text >= last.text) {
                    said = here;
                    last = value;
                }
                if (differs) said = SEVERAL;
            }
        }
        if (said == NOTHING) continue;
        found = said;
        behind = last.text + last.bytes;
    }
    return found;
}

// ------------------------------------------------------------------ letters

/* The letter of a value, 0 for A. `self`: how many there are. */
static int letter_of(struct mt_text value, const void *self)
{
    int found = NOTHING;
    for (size_t i = 0; i < value.bytes; i++) {
        bool alone = isalpha((unsigned char)value.text[i]) &&
                     (i == 0 || !isalpha((unsigned char)value.text[i - 1])) &&
                     (i + 1 == value.bytes || !isalpha((unsigned char)value.text[i + 1]));
        if (!alone) continue;
        int letter = toupper((unsigned char)value.text[i]) - 'A';
        if (found >= 0 && letter != found) return SEVERAL;
        found = letter;
    }
    return found < *(const int *)self ? found : NOTHING;
}

bool mt_statement_letter(const struct mt_forms *forms, const struct mt_clauses *clauses, int choices,
                         struct mt_text *letter)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (choices <= 0 || choices > 26) choices = 26;
    const struct reading reading = {
        .of = letter_of, .self = &choices, .agree_from = 3, .agree_to = 4, .ranks = RANKS};
    int found = read_statements(forms, clauses, &reading);
    if (found >= 0) *letter = (struct mt_text){.text = alphabet + found, .bytes = 1};
    return found >= 0;
}

// ------------------------------------------------------------------ words

/* True when two words of a list stand for no other. */
static bool are_two(const char *const *words)
{
    int count = 0;
    for (; *words != NULL; words++) count += strchr(*words, '=') == NULL ? 1 : 0;
    return count == 2;
}

/* The place of the word a value holds. Before the first one only "not" can stand. `self`: the words. */
static int word_of(struct mt_text value, const void *self)
{
    const char *const *words = self;
    int found = NOTHING;
    bool negated = true;
    for (int k = 0; words[k] != NULL; k++) {
        size_t length = strcspn(words[k], "=");
        int meaning = k;
        if (words[k][length] == '=') {
            meaning = 0;
            while (words[meaning] != NULL && strcmp(words[meaning], words[k] + length + 1) != 0) meaning++;
            if (words[meaning] == NULL) continue;
        }
        for (size_t i = 0; i + length <= value.bytes; i++) {
            if (strncasecmp(value.text + i, words[k], length) != 0) continue;
            if ((i > 0 && is_word_byte(value, i - 1)) || is_word_byte(value, i + length)) continue;
            if (found >= 0 && found != meaning) return SEVERAL;
            found = meaning;
            negated = negated && i > 0;
        }
    }
    return negated && are_two(words) && found >= 0 ? 1 - found : found;
}

bool mt_statement_word(const struct mt_forms *forms, const char *const *words,
                       const struct mt_clauses *clauses, struct mt_text *word)
{
    // Who is cut off in the middle, "= False or", has concluded nothing.
    static const char *const open_ends[] = {" and", " or", " not", "=", "("};
    struct mt_text whole = mt_text_trimmed(mt_text_in(&clauses->text));
    bool cut_off = false;
    for (size_t i = 0; i < sizeof open_ends / sizeof open_ends[0]; i++) {
        size_t length = strlen(open_ends[i]);
        cut_off = cut_off || (whole.bytes > length && mt_text_has(whole, whole.bytes - length, open_ends[i]));
    }
    const struct reading reading = {.of = word_of,
                                    .self = words,
                                    .agree_from = 2,
                                    .agree_to = 2,
                                    .ranks = cut_off ? 1 : RANKS,
                                    .two = are_two(words)};
    int found = read_statements(forms, clauses, &reading);
    if (found >= 0) *word = mt_text_of(words[found]);
    return found >= 0;
}

// ------------------------------------------------------------------ boxes

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
static bool box_at(const char *text, size_t bytes, size_t at, bool closed, struct mt_text *span)
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
            *span = (struct mt_text){.text = text + start, .bytes = end - start};
            return end > start;
        }
        if (!closed) return false;
        size_t end = closing_brace(text, bytes, start + 1);
        if (end > bytes) return false;
        *span = (struct mt_text){.text = text + start + 1, .bytes = end - start - 1};
        return true;
    }
    return false;
}

bool mt_statement_boxed(struct mt_text answer, struct mt_text *span)
{
    const char *text = answer.text;
    size_t bytes = answer.bytes;
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

// ------------------------------------------------------------------ texts

/* Where the sentence that begins a text ends: at a full stop, or at words that give reasons. */
static size_t sentence_end(struct mt_text text)
{
    static const char *const reasons[] = {" because", " since ", ", which ", ", so ", ", as ", NULL};
    size_t most = mt_text_until(text, reasons).bytes;
    for (size_t at = 0; at < most; at++) {
        bool stop = text.text[at] == '.' || text.text[at] == '!' || text.text[at] == '?';
        if (stop && (at + 1 == text.bytes || isspace((unsigned char)text.text[at + 1]))) return at;
    }
    return most;
}

/* Without markup, quotes, white space and full stops at the ends. A bracket stays: it may be the answer's. */
static struct mt_text bare(struct mt_text text)
{
    static const char dropped[] = " \t\r*_`\"'$.:";
    for (size_t before = text.bytes + 1; text.bytes < before;) {
        before = text.bytes;
        while (text.bytes > 0 && strchr(dropped, text.text[0]) != NULL) text = mt_text_from(text, 1);
        while (text.bytes > 0 && strchr(dropped, text.text[text.bytes - 1]) != NULL) text.bytes--;
        if (mt_text_has(text, 0, "\\(") || mt_text_has(text, 0, "\\[")) text = mt_text_from(text, 2);
        bool closes = text.bytes > 1 &&
                      (mt_text_has(text, text.bytes - 2, "\\)") || mt_text_has(text, text.bytes - 2, "\\]"));
        if (closes) text.bytes -= 2;
    }
    return text;
}

bool mt_statement_text(const struct mt_forms *forms, struct mt_text plain, struct mt_text *text)
{
    struct mt_text value;
    size_t from = 0;
    bool found = false;
    for (size_t i = 0; i < forms->count; from = 0, i++) {
        while (next(forms->each[i].pattern, plain, &from, &value)) {
            value.bytes = sentence_end(value);
            value = bare(value);
            if (value.bytes == 0 || (found && value.text < text->text)) continue;
            if (forms->each[i].corrects && !found) continue;
            *text = value;
            found = true;
        }
    }
    // A box that stands behind it, or within it, is the answer.
    if (mt_statement_boxed(plain, &value) && (!found || value.text >= text->text)) {
        *text = value;
        found = true;
    }
    return found;
}
