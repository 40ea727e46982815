/*
 * The final answer of a solution in mathematics: the last box, or several that "and" or "or" joins; else what
 * is announced as the answer; else what the last sentence that says something says: bold, in dollar signs, or
 * behind "is".
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "eval/answers/statement.h"

#define MOST_BOXES     8
#define MOST_SENTENCES 64
#define MOST_PARTS     64

// ------------------------------------------------------------------ boxes

static struct mt_text between(const char *from, const char *to)
{
    return (struct mt_text){.text = from, .bytes = to > from ? (size_t)(to - from) : 0};
}

/* A word in any case, where no letter stands around it. */
static size_t find_word(struct mt_text text, size_t from, const char *word)
{
    size_t length = strlen(word);
    for (size_t at = from; at + length <= text.bytes; at++) {
        if (strncasecmp(text.text + at, word, length) != 0) continue;
        bool before = at > 0 && isalpha((unsigned char)text.text[at - 1]) && isalpha((unsigned char)word[0]);
        bool after = at + length < text.bytes && isalpha((unsigned char)text.text[at + length]) &&
                     isalpha((unsigned char)word[length - 1]);
        if (!before && !after) return at;
    }
    return text.bytes;
}

static bool has_any(struct mt_text text, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (find_word(text, 0, words[i]) < text.bytes) return true;
    }
    return false;
}

/* "$ or $x = ": nothing but a word that joins, and the name again. */
static bool joins(struct mt_text gap)
{
    size_t at = 0;
    bool joined = false;
    while (at < gap.bytes) {
        size_t word = at;
        while (word < gap.bytes && isalpha((unsigned char)gap.text[word])) word++;
        struct mt_text letters = {.text = gap.text + at, .bytes = word - at};
        bool and = mt_text_is(letters, "and") || mt_text_is(letters, "or");
        if (letters.bytes > 1 && !and) return false;
        if (letters.bytes == 0 && strchr("$ ,=}\n", gap.text[at]) == NULL) return false;
        joined = joined || and || gap.text[at] == ',';
        at = letters.bytes > 0 ? word : at + 1;
    }
    return joined;
}

static enum mt_status append_joined(struct mt_byte_list *out, struct mt_text part)
{
    enum mt_status status = out->count > 0 ? mt_byte_list_append_text(out, ", ") : MT_OK;
    return status == MT_OK ? mt_byte_list_append(out, part.text, part.bytes) : status;
}

/* The last box that holds something, with those that are joined to it. */
static enum mt_status boxes(struct mt_text text, struct mt_byte_list *out)
{
    struct mt_text found[MOST_BOXES];
    const char *start = NULL; // of the first of them
    int count = 0;
    struct mt_text rest = text;
    struct mt_text inside;
    for (int tries = 0; tries < MOST_BOXES && mt_statement_boxed(rest, &inside); tries++) {
        rest = between(text.text, inside.text - 1);
        while (rest.bytes > 0 && text.text[rest.bytes] != '\\') rest.bytes--;
        if (mt_text_trimmed(inside).bytes == 0) continue;
        if (count > 0 && !joins(between(inside.text + inside.bytes, start))) break;
        start = text.text + rest.bytes;
        found[count++] = inside;
    }
    enum mt_status status = MT_OK;
    while (count-- > 0 && status == MT_OK) status = append_joined(out, found[count]);
    return status;
}

// ------------------------------------------------------------------ parts of a sentence

/* True for a dollar that is money, behind a backslash. */
static bool is_escaped(struct mt_text text, size_t at)
{
    size_t slashes = 0;
    if (text.text[at] != '$') return false;
    while (slashes < at && text.text[at - 1 - slashes] == '\\') slashes++;
    return slashes % 2 == 1;
}

static size_t find_mark(struct mt_text text, size_t from, const char *mark)
{
    size_t at = mt_text_find(text, from, mark);
    while (at < text.bytes && is_escaped(text, at)) at = mt_text_find(text, at + 1, mark);
    return at;
}

/* Between two marks of the same kind, at or behind `from`; false: there is none that holds something. */
static bool marked(struct mt_text text, size_t from, const char *open, const char *close,
                   struct mt_text *inner)
{
    size_t start = find_mark(text, from, open);
    if (start == text.bytes) return false;
    start += strlen(open);
    size_t end = find_mark(text, start, close);
    if (end == text.bytes || end == start) return false;
    *inner = (struct mt_text){.text = text.text + start, .bytes = end - start};
    return true;
}

/* Mathematics in dollar signs or in \( and \). */
static bool formula(struct mt_text text, size_t from, struct mt_text *inner)
{
    struct mt_text other;
    bool found = marked(text, from, "$", "$", inner) || marked(text, from, "$$", "$$", inner);
    bool bracket = marked(text, from, "\\(", "\\)", &other) || marked(text, from, "\\[", "\\]", &other);
    if (bracket && (!found || other.text < inner->text)) *inner = other;
    return found || bracket;
}

/* A bold part, without the colon of a heading. */
static bool bold(struct mt_text text, struct mt_text *inner)
{
    size_t from = 0;
    while (marked(text, from, "**", "**", inner)) {
        struct mt_text part = mt_text_trimmed(*inner);
        if (part.bytes > 0 && part.text[part.bytes - 1] != ':') return true;
        from = (size_t)(inner->text + inner->bytes - text.text) + 2;
    }
    return false;
}

/* True when the bracket in " (" at `at` holds a remark: behind a word or a value, and no pair or interval. */
static bool is_remark(struct mt_text text, size_t at)
{
    if (at == 0 ||
        (!isalnum((unsigned char)text.text[at - 1]) && strchr("$)}%*.", text.text[at - 1]) == NULL))
        return false;
    struct mt_text inside = mt_text_until(mt_text_from(text, at + 2), (const char *const[]){")", "]", NULL});
    for (size_t i = 0; i < inside.bytes; i++) {
        if (isalpha((unsigned char)inside.text[i])) return true;
    }
    return memchr(inside.text, ',', inside.bytes) == NULL;
}

/* Without what only explains: reasons, remarks, what is in brackets behind a space. */
static struct mt_text without_remarks(struct mt_text text)
{
    static const char *const remarks[] = {" because", " since ",  " where ",    ", which",   ", attained",
                                          ", not ",   " (",       ", as ",      ", giving",  "; ",
                                          ", with ",  " rather ", ", or about", ", so that", " in total",
                                          " in all",  " i.e.",    NULL};
    struct mt_text kept = mt_text_until(text, remarks);
    // "x \\in (2, 5)", "(1, 2), (3, 4)": these brackets are the answer's; "\\; " is a space.
    for (int more = 0; more < MOST_PARTS; more++) {
        bool space =
            mt_text_has(text, kept.bytes, "; ") && kept.bytes > 0 && text.text[kept.bytes - 1] == '\\';
        if (!space && (!mt_text_has(text, kept.bytes, " (") || is_remark(text, kept.bytes))) break;
        size_t from = kept.bytes + 1;
        kept.bytes = from + mt_text_until(mt_text_from(text, from), remarks).bytes;
    }
    return kept;
}

/* Where what is said of the subject begins: behind the last verb that has a formula or a digit behind it. */
static size_t behind_verb(struct mt_text text)
{
    static const char *const verbs[] = {"is",     "are",     "equals",        "be",           "gives",
                                        "yields", "becomes", "simplifies to", "therefore",    "hence",
                                        "thus",   "so",      "exactly",       "\xE2\x87\x92", NULL};
    size_t behind = 0;
    size_t said = text.bytes; // the last byte of a number or a formula
    while (said > 0 && !isdigit((unsigned char)text.text[said - 1]) &&
           strchr("$\\", text.text[said - 1]) == NULL)
        said--;
    for (size_t i = 0; verbs[i] != NULL; i++) {
        for (size_t at = find_word(text, 0, verbs[i]); at < text.bytes;
             at = find_word(text, at + 1, verbs[i])) {
            size_t end = at + strlen(verbs[i]);
            if (end < said && end > behind) behind = end;
        }
    }
    return behind;
}

/* Formulas one behind the other: "$x=1$ or $x=2$". */
static enum mt_status formulas(struct mt_text text, struct mt_byte_list *out)
{
    static const char *const factors[] = {"million", "billion", "thousand", "hundred",
                                          "dozen",   "percent", NULL};
    struct mt_text part;
    enum mt_status status = MT_OK;
    size_t from = behind_verb(text);
    if (!formula(text, from, &part)) from = 0;
    bool more = formula(text, from, &part);
    for (int i = 0; i < MOST_PARTS && more && status == MT_OK; i++) {
        status = append_joined(out, part);
        const char *end = part.text + part.bytes;
        size_t mark =
            *end == '\\' ? 2 : (size_t)1 + (end + 1 < text.text + text.bytes && end[1] == '$' ? 1 : 0);
        from = (size_t)(end - text.text) + mark;
        struct mt_text rest = mt_text_from(text, from < text.bytes ? from : text.bytes);
        for (size_t k = 0; factors[k] != NULL && status == MT_OK; k++) {
            size_t length = strlen(factors[k]);
            if (rest.bytes <= length || strncasecmp(rest.text + 1, factors[k], length) != 0) continue;
            status = mt_byte_list_append_text(out, "\\text{ ");
            if (status == MT_OK) status = mt_byte_list_append_text(out, factors[k]);
            if (status == MT_OK) status = mt_byte_list_append_text(out, "}");
        }
        more = formula(text, from, &part) && joins(between(text.text + from, part.text));
    }
    return status;
}

/* Without markup and full stops at the ends. */
static struct mt_text bare(struct mt_text text)
{
    while (text.bytes > 0 && strchr(" \t\r\n*_`\"':,", text.text[0]) != NULL) text = mt_text_from(text, 1);
    while (text.bytes > 0 && strchr(" \t\r\n*_`\"'.:,;!", text.text[text.bytes - 1]) != NULL) {
        if (text.bytes > 3 && mt_text_has(text, text.bytes - 3, "...") && // "0.33..." goes on
            isdigit((unsigned char)text.text[text.bytes - 4]))
            break;
        text.bytes--;
    }
    (void)(mt_text_take(&text, "final answer ") || mt_text_take(&text, "the answer "));
    return text;
}

/* Appends what a sentence says. `stated`: it is the answer as a whole, else words without a sign of one are
 * not. */
static enum mt_status read_sentence(struct mt_text text, bool stated, struct mt_byte_list *out)
{
    static const char *const relations[] = {" = ", " < ", " > ", "≤", "≥", "∈", NULL};
    struct mt_text part;
    bool digit = false;
    bool marked_bold = bold(text, &part);
    text = without_remarks(marked_bold ? part : text);
    if (formula(text, 0, &part)) return formulas(text, out);
    text = bare(text);
    for (size_t i = 0; i < text.bytes; i++) digit |= isdigit((unsigned char)text.text[i]) != 0;
    size_t from = behind_verb(text);
    bool equation = digit && mt_text_until(text, relations).bytes < text.bytes;
    if (from == 0 && !stated && !marked_bold && !equation) return MT_OK;
    return append_joined(out, bare(mt_text_from(text, from)));
}

// ------------------------------------------------------------------ sentences

/* Appends what a sentence says that is not the answer by its form. */
static enum mt_status read_plain(struct mt_text text, struct mt_byte_list *out)
{
    static const char *const nothing[] = {"no real solution", "no real solutions",    "no solution",
                                          "no solutions",     "no integer solutions", NULL};
    static const char *const infinite[] = {"infinitely many", "infinite number", NULL};
    bool words = true; // and nothing else
    for (size_t i = 0; i < text.bytes; i++) words = words && strchr("$=<>\\0123456789", text.text[i]) == NULL;
    if (words && has_any(text, infinite)) return append_joined(out, mt_text_of("\\text{infinitely many}"));
    if (words && has_any(text, nothing)) return append_joined(out, mt_text_of("\\emptyset"));
    return read_sentence(text, false, out);
}

/* Ends of sentences, but not inside formulas and not behind "i.e." */
static int split(struct mt_text text, struct mt_text sentences[MOST_SENTENCES])
{
    size_t start = 0;
    int count = 0;
    bool inside = false;
    for (size_t at = 0; at <= text.bytes; at++) {
        char byte = at < text.bytes ? text.text[at] : '\n';
        char next = at + 1 < text.bytes ? text.text[at + 1] : '\n';
        if (byte == '$' && !is_escaped(text, at)) inside = !inside;
        bool letter = at >= 2 && isalpha((unsigned char)text.text[at - 1]) &&
                      (text.text[at - 2] == '.' || text.text[at - 2] == ' ');
        bool stop = byte == '.' && !letter && !inside && (isspace((unsigned char)next) || next == '*');
        bool ends = at == text.bytes || byte == '\n' || stop ||
                    ((byte == '!' || byte == '?') && !inside && next == ' ');
        if (byte == '\n' && (next == '\n' || !inside)) inside = false;
        if (!ends || (inside && at < text.bytes)) continue;
        while (stop && at + 1 < text.bytes && text.text[at + 1] == '*') at++;
        struct mt_text sentence =
            mt_text_trimmed((struct mt_text){text.text + start, at - start + (stop ? 1 : 0)});
        start = at + 1;
        if (sentence.bytes < 2) continue;
        if (count == MOST_SENTENCES) { // the last ones count
            memmove(sentences, sentences + 1, (size_t)(count - 1) * sizeof *sentences);
            count--;
        }
        sentences[count++] = sentence;
    }
    return count;
}

/* Where a value begins, with brackets, signs and commands before `at`: "$ \textbf{" of "$ \textbf{42} $". */
static const char *beginning(struct mt_text text, const char *at)
{
    for (;;) {
        while (at > text.text && strchr("([{$*\\", at[-1]) != NULL) at--;
        const char *name = at;
        bool group = at < text.text + text.bytes && *at == '{';
        while (group && name > text.text && isalpha((unsigned char)name[-1])) name--;
        bool command = name < at && name > text.text && name[-1] == '\\';
        bool space = at - text.text > 1 && at[-1] == ' ' && strchr("([{$", at[-2]) != NULL;
        if (!command && !space) return at;
        at = command ? name - 1 : at - 2;
    }
}

enum mt_status mt_statement_math(const struct mt_forms *forms, struct mt_text plain, struct mt_byte_list *out)
{
    struct mt_text sentences[MOST_SENTENCES];
    struct mt_text found;
    enum mt_status status = boxes(plain, out);
    if (status != MT_OK || out->count > 0) return status;
    struct mt_text marked_line = {0}; // the last "#### 8"
    for (size_t at = mt_text_find(plain, 0, "####"); at < plain.bytes; at = mt_text_find(plain, at, "####")) {
        while (at < plain.bytes && plain.text[at] == '#') at++;
        if (mt_statement_marked(plain, at))
            marked_line = mt_text_until(mt_text_from(plain, at), (const char *const[]){"\n", NULL});
    }
    bool stated = mt_statement_text(forms, plain, &found);
    if (marked_line.text != NULL && (!stated || found.text < marked_line.text))
        return append_joined(out, bare(marked_line));
    if (stated) {
        const char *start = beginning(plain, found.text); // and the rest of its line
        struct mt_text line =
            mt_text_until(between(start, plain.text + plain.bytes), (const char *const[]){"\n", "</", NULL});
        int count = split(line, sentences);
        if (count == 0) return MT_OK;
        struct mt_text said = between(start, sentences[0].text + sentences[0].bytes);
        return read_sentence(said, true, out);
    }
    int count = split(mt_statement_unexplained(plain), sentences);
    while (count-- > 0 && status == MT_OK && out->count == 0) status = read_plain(sentences[count], out);
    struct mt_text whole = bare(plain);
    bool word = whole.bytes > 0 && whole.bytes < 30 && memchr(whole.text, ' ', whole.bytes) == NULL;
    if (status == MT_OK && out->count == 0 && word) status = append_joined(out, whole); // "Sixteen."
    return status;
}
