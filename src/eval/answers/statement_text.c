/*
 * Texts that are stated as the answer, mathematics above all: what an announcement is followed by, what boxes
 * hold, or what the last sentence that has a formula, a number or something bold comes to.
 */
#include <ctype.h>

#include "eval/answers/extract.h"
#include "eval/answers/sentence.h"
#include "eval/answers/statement.h"

#define MOST_FORMULA 300 // bytes

static struct mt_text between(struct mt_text text, size_t start, size_t end)
{
    return (struct mt_text){.text = text.text + start, .bytes = end - start};
}

/* Without markup, quotes, white space and full stops at the ends, and a brace that nobody opened. Other
 * brackets stay: they may be the answer's. */
static struct mt_text bare(struct mt_text text)
{
    static const char dropped[] = " \t\r\n*_`\"'$.:,;";
    for (size_t before = text.bytes + 1; text.bytes < before;) {
        before = text.bytes;
        while (text.bytes > 0 && strchr(dropped, text.text[0]) != NULL) text = mt_text_from(text, 1);
        while (text.bytes > 0 && strchr(dropped, text.text[text.bytes - 1]) != NULL) text.bytes--;
        if (mt_text_has(text, 0, "\\(") || mt_text_has(text, 0, "\\[")) text = mt_text_from(text, 2);
        bool closes = text.bytes > 1 &&
                      (mt_text_has(text, text.bytes - 2, "\\)") || mt_text_has(text, text.bytes - 2, "\\]"));
        if (closes) text.bytes -= 2;
        int open = 0;
        for (size_t i = 0; i < text.bytes; i++) open += (text.text[i] == '{') - (text.text[i] == '}');
        if (open < 0 && text.text[text.bytes - 1] == '}') text.bytes--;
    }
    return text;
}

// ------------------------------------------------------------------ formulas

/* The end of what `open` begins at `at`, in the same line; 0: it does not end. */
static size_t fence_end(struct mt_text text, size_t at, const char *open, const char *close)
{
    if (!mt_text_has(text, at, open)) return 0;
    size_t from = at + strlen(open);
    struct mt_text inside = mt_text_from(text, from);
    if (inside.bytes > MOST_FORMULA) inside.bytes = MOST_FORMULA;
    size_t end = mt_text_find(inside, 0, close);
    bool there = end > 0 && end < inside.bytes;
    return there && memchr(inside.text, '\n', end) == NULL ? from + end + strlen(close) : 0;
}

/* Where an equation without fences ends that goes on at `end`: "3 + 5 = 8". */
static size_t equation_end(struct mt_text text, size_t end)
{
    for (;;) {
        bool goes_on = end + 3 < text.bytes && text.text[end] == ' ' && text.text[end + 2] == ' ' &&
                       strchr("+-*/=", text.text[end + 1]) != NULL &&
                       !isspace((unsigned char)text.text[end + 3]);
        if (!goes_on) return end;
        for (end += 3; end < text.bytes && !isspace((unsigned char)text.text[end]);) end++;
    }
}

/* The next formula, bold text or word with a digit in it, at or behind `at`. */
static bool next_formula(struct mt_text text, size_t at, size_t *start, size_t *end)
{
    static const char *const fences[][2] = {
        {"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}, {"**", "**"}};
    for (; at < text.bytes; at++) {
        *start = at;
        for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
            *end = fence_end(text, at, fences[i][0], fences[i][1]);
            // Not from one price to the next: "$3 and $5".
            bool price =
                i == 1 && *end > 0 && isdigit((unsigned char)text.text[at + 1]) && text.text[*end - 2] == ' ';
            if (*end > 0 && !price) return true;
        }
        bool begins = at == 0 || isspace((unsigned char)text.text[at - 1]);
        if (!begins) continue;
        bool digit = false;
        for (*end = at; *end < text.bytes && !isspace((unsigned char)text.text[*end]); ++*end)
            digit = digit || isdigit((unsigned char)text.text[*end]);
        if (!digit || memchr(text.text + at, '$', *end - at) != NULL) continue;
        *end = equation_end(text, *end);
        return true;
    }
    return false;
}

/* True when only "," "and" "or" stand between two formulas: they are one answer. */
static bool is_joint(struct mt_text text)
{
    static const char *const joints[] = {",", "and", "or", ", and", ", or"};
    text = mt_text_trimmed(text);
    bool joint = false;
    for (size_t i = 0; i < sizeof joints / sizeof joints[0]; i++)
        joint = joint || mt_text_is(text, joints[i]);
    return joint;
}

/* What the formulas of a text come to: of the last sentence that has one outside brackets that is more than
 * context, the weightiest; of two the first, of bold ones the last. */
static bool concluded(struct mt_text text, struct mt_text *value)
{
    enum mt_sentence_weight best = MT_WEIGHS_CONTEXT;
    bool found = false;
    size_t sentence = 0;
    size_t start = 0;
    size_t end = 0;
    for (size_t from = 0; next_formula(text, from, &start, &end); from = end) {
        size_t before = 0;
        if (start >= sentence) best = MT_WEIGHS_CONTEXT;
        while (sentence <= start) sentence = mt_sentence_next(text, sentence);
        enum mt_sentence_weight weight = mt_sentence_weight(text, start, &before);
        if (mt_text_has(text, start, "**")) weight = MT_WEIGHS_TOTAL;
        bool bracket = start > 0 && text.text[start - 1] == '(';
        if (bracket || text.text[start] == '(')
            weight = text.text[start + 1] == '-' ? weight : MT_WEIGHS_CONTEXT;
        size_t last = end;
        size_t next = 0;
        while (next_formula(text, last, &next, &end) && is_joint(between(text, last, next))) last = end;
        end = last;
        if (weight < best || (weight == best && weight != MT_WEIGHS_TOTAL)) continue;
        if (weight == MT_WEIGHS_CONTEXT) continue;
        *value = between(text, start, last);
        best = weight;
        found = true;
    }
    return found;
}

// ------------------------------------------------------------------ statements

/* The answer at the beginning of a text: of its first sentence, without reasons, remarks and corrections. */
static struct mt_text announced(struct mt_text text)
{
    static const char *const remarks[] = {" because", " since ", ", which ", ", so ", ", as ",
                                          ", not ",   " (not ",  ", i.e.",   NULL};
    struct mt_text sentence = mt_text_until(text, remarks);
    for (size_t at = 0; at < sentence.bytes; at++) {
        if (mt_sentence_ends(text, at)) sentence.bytes = at;
    }
    size_t start = 0;
    size_t end = 0;
    struct mt_text value = sentence;
    struct mt_text all = mt_text_until(text, (const char *const[]){"\n", NULL});
    size_t letters = 0;
    if (next_formula(sentence, 0, &start, &end)) {
        // Prose with a formula in it: "The distance is $150$ miles."
        for (size_t i = 0; i < start; i++) letters += isalpha((unsigned char)text.text[i]) ? 1 : 0;
        if (letters > 3) (void)concluded(sentence, &value);
    } else if (sentence.bytes < all.bytes && mt_text_has(all, sentence.bytes, ", i.e.")) {
        value = mt_text_from(all, sentence.bytes + strlen(", i.e.")); // "nine, i.e. $9$"
    }
    return bare(value);
}

/* Of an equation of numbers: what it comes to. */
static struct mt_text result_of(struct mt_text text)
{
    size_t result = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (isalpha((unsigned char)text.text[i]) || text.text[i] == '\\') return text;
        if (text.text[i] == '=') result = i + 1;
    }
    return mt_text_trimmed(mt_text_from(text, result));
}

/* The box before another one, when only "and" or the like stands between: "x=\boxed{2} or x=\boxed{3}". */
static bool joined_box(struct mt_text plain, struct mt_text box, struct mt_text *other)
{
    struct mt_text before = between(plain, 0, (size_t)(box.text - plain.text));
    while (before.bytes > 0 && before.text[before.bytes - 1] != '\\') before.bytes--;
    if (before.bytes == 0) return false;
    before.bytes--;
    if (!mt_extract_boxed(before, other)) return false;
    size_t gap = (size_t)(other->text - plain.text) + other->bytes + 1;
    if (gap >= before.bytes) return false;
    struct mt_text joint = between(plain, gap, before.bytes);
    while (joint.bytes > 0 && strchr("$ ", joint.text[0]) != NULL) joint = mt_text_from(joint, 1);
    while (joint.bytes > 0 && strchr("=$ xyz", joint.text[joint.bytes - 1]) != NULL) joint.bytes--;
    return is_joint(joint);
}

static enum mt_status append_boxes(struct mt_text plain, struct mt_text last, struct mt_byte_list *out)
{
    struct mt_text boxes[8] = {last};
    size_t count = 1;
    enum mt_status status = MT_OK;
    while (count < sizeof boxes / sizeof boxes[0] && joined_box(plain, boxes[count - 1], &boxes[count]))
        count++;
    while (count-- > 0 && status == MT_OK) {
        status = mt_byte_list_append(out, boxes[count].text, boxes[count].bytes);
        if (count > 0 && status == MT_OK) status = mt_byte_list_append_text(out, ", ");
    }
    return status;
}

enum mt_status mt_statement_text(struct mt_pattern *const *patterns, struct mt_text plain,
                                 struct mt_byte_list *out)
{
    struct mt_text text = {0};
    const char *begins = plain.text; // the statement that gives it
    struct mt_text box;
    struct mt_pattern_match match;
    for (size_t i = 0; i < MT_STATEMENT_FORMS; i++) {
        for (size_t from = 0; patterns[i] != NULL && from < plain.bytes &&
                              mt_pattern_find(patterns[i], plain.text, plain.bytes, from, &match);
             from = match.to > from ? match.to : from + 1) {
            struct mt_text here = mt_text_from(plain, match.to);
            if (here.bytes > MOST_FORMULA) here.bytes = MOST_FORMULA;
            here = announced(here);
            if (here.bytes == 0 || (text.text != NULL && here.text < text.text)) continue;
            text = here;
            begins = plain.text + match.from;
        }
    }
    // A box that stands behind it, or within it, is the answer; so is one before mere words.
    size_t start = 0;
    size_t end = 0;
    bool words = text.text != NULL && !next_formula(text, 0, &start, &end);
    if (mt_extract_boxed(plain, &box) && (words || box.text >= begins)) return append_boxes(plain, box, out);
    if (text.text == NULL && concluded(plain, &text)) {
        bool bold = mt_text_has(text, 0, "**");
        text = bare(text);
        if (bold) text = announced(text); // it may be a sentence
    }
    if (text.text != NULL) text = result_of(text);
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < text.bytes && status == MT_OK; i++) { // the fences of several formulas go
        bool fence = text.text[i] == '$' || text.text[i] == '*';
        if (!fence) status = mt_byte_list_append(out, text.text + i, 1);
    }
    return status;
}
