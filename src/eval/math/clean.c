/* One spelling for mathematics: what only shapes the print goes, what has several spellings gets one. */
#include <ctype.h>
#include <string.h>

#include "eval/math/tree.h"

struct replacement {
    const char *from;
    const char *to;
};

/* Commands, without their backslash, several that become the same; a command not listed stays. */
static const struct replacement commands[] = {
    {"left right big Big bigl bigr Bigl Bigr bigg Bigg limits", ""},
    {"displaystyle textstyle quad qquad implies to", " "},
    {"dfrac tfrac cfrac", "\\frac"},
    {"dbinom tbinom", "\\binom"},
    {"cdot times ast", "*"},
    {"div", "/"},
    {"leq leqslant", "\\le "},
    {"geq geqslant", "\\ge "},
    {"neq", "\\ne "},
    {"lt", "<"},
    {"gt", ">"},
    {"lbrace", "\\{"},
    {"rbrace", "\\}"},
    {"lbrack", "["},
    {"rbrack", "]"},
    {"langle", "("},
    {"rangle", ")"},
    {"lvert rvert vert", "|"},
    {"degree circ", "\\deg "},
    {"mathrm mathbf textbf textit textrm mbox operatorname mathbb", "\\text"},
    {"dots ldots cdots", "..."},
    {"emptyset varnothing", "\\text{empty}"},
};

/* Other texts. Longer ones first where one begins another. */
static const struct replacement signs[] = {
    {"\\\\", "\\\\"},   {"\\%", "%"},       {"\\$", ""},        {"\\&", "&"},
    {"\\#", "#"},       {"\\!", ""},        {"\\;", " "},       {"\\:", " "},
    {"\\ ", " "},       {"\\(", ""},        {"\\)", ""},        {"\\[", ""},
    {"\\]", ""},        {"$", ""},          {"~", " "},         {"**", "^"},
    {"−", "-"},         {"–", "-"},         {"×", "*"},         {"·", "*"},
    {"⋅", "*"},         {"÷", "/"},         {"∕", "/"},         {"⁄", "/"},
    {"π", "\\pi "},     {"√", "\\sqrt "},   {"²", "^2"},        {"³", "^3"},
    {"½", "\\frac12 "}, {"¼", "\\frac14 "}, {"¾", "\\frac34 "}, {"⅓", "\\frac13 "},
    {"⅔", "\\frac23 "}, {"∞", "\\infty "},  {"≤", "\\le "},     {"≥", "\\ge "},
    {"≠", "\\ne "},     {"±", "\\pm "},     {"∓", "\\mp "},     {"°", "\\deg "},
    {"∪", "\\cup "},    {"∈", "\\in "},     {"θ", "\\theta "},  {"∅", "\\text{empty}"},
    {"\xC2\xA0", " "},  {"€", ""},          {"£", ""},          {"<=", "\\le "},
    {">=", "\\ge "},    {"!=", "\\ne "},    {"≈", "="},         {"\\approx", "="},
    {"’", "'"},         {"“", "\""},        {"”", "\""},
};

static bool digit_at(const char *text, size_t bytes, size_t at)
{
    return at < bytes && isdigit((unsigned char)text[at]);
}

/* \, and {,} between digits only group them. Returns the bytes of what was found, 0: neither. */
static size_t grouping(const char *text, size_t bytes, size_t at)
{
    static const char *const marks[] = {"\\,", "{,}", ",\\!", "\\!"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t length = strlen(marks[i]);
        if (at + length > bytes || memcmp(text + at, marks[i], length) != 0) continue;
        if (at > 0 && digit_at(text, bytes, at - 1) && digit_at(text, bytes, at + length)) return length;
    }
    return 0;
}

/* True for one of the words between spaces. */
static bool has_word(const char *words, const char *word, size_t bytes)
{
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        if (length == bytes && memcmp(words, word, bytes) == 0) return true;
        words += length + strspn(words + length, " ");
    }
    return false;
}

static enum mt_status clean_command(const char *text, size_t bytes, size_t *at, struct mt_byte_list *out)
{
    size_t start = *at + 1;
    size_t end = start;
    while (end < bytes && isalpha((unsigned char)text[end])) end++;
    *at = end;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (has_word(commands[i].from, text + start, end - start))
            return mt_byte_list_append_text(out, commands[i].to);
    }
    return mt_byte_list_append(out, text + start - 1, end - start + 1);
}

static enum mt_status clean_next(const char *text, size_t bytes, size_t *at, struct mt_byte_list *out)
{
    size_t length = grouping(text, bytes, *at);
    if (length > 0) {
        // Thousands keep a comma, so that the lexer can see that the groups are whole.
        *at += length;
        return mt_byte_list_append_text(out, ",");
    }
    if (*at + 1 < bytes && text[*at] == '\\' && text[*at + 1] == ',') {
        *at += 2;
        return mt_byte_list_append_text(out, " ");
    }
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        length = strlen(signs[i].from);
        if (*at + length > bytes || memcmp(text + *at, signs[i].from, length) != 0) continue;
        *at += length;
        return mt_byte_list_append_text(out, signs[i].to);
    }
    if (text[*at] == '\\' && *at + 1 < bytes && isalpha((unsigned char)text[*at + 1])) {
        return clean_command(text, bytes, at, out);
    }
    char byte = isspace((unsigned char)text[*at]) ? ' ' : text[*at];
    (*at)++;
    return mt_byte_list_append(out, &byte, 1);
}

enum mt_status mt_math_clean(const char *text, size_t bytes, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    size_t at = 0;
    while (bytes > 0 && strchr(" \t\r\n.,;:", text[bytes - 1]) != NULL) bytes--;
    while (status == MT_OK && at < bytes) status = clean_next(text, bytes, &at, out);
    return status;
}

/* Drops brackets, quotes and punctuation that stand around a whole text. */
static void trim_ends(struct mt_byte_list *out, size_t start)
{
    static const char around[] = "()[]\"'.,;:!?";
    size_t begin = start;
    while (out->count > begin && strchr(around, out->data[out->count - 1]) != NULL) out->count--;
    while (begin < out->count && strchr(around, out->data[begin]) != NULL) begin++;
    memmove(out->data + start, out->data + begin, out->count - begin);
    out->count -= begin - start;
}

enum mt_status mt_math_fold(const char *text, size_t bytes, struct mt_byte_list *out)
{
    static const char *const wrappers[] = {"\\text", "\\{", "\\}", "\\", "{", "}", " "};
    struct mt_byte_list clean = {.ctx = out->ctx};
    size_t start = out->count;
    enum mt_status status = mt_math_clean(text, bytes, &clean);
    for (size_t at = 0; status == MT_OK && at < clean.count;) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0] && skip == 0; i++) {
            size_t length = strlen(wrappers[i]);
            if (at + length <= clean.count && memcmp(clean.data + at, wrappers[i], length) == 0)
                skip = length;
        }
        if (skip == 0) {
            uint8_t byte = (uint8_t)tolower(clean.data[at]);
            status = mt_byte_list_append(out, &byte, 1);
            skip = 1;
        }
        at += skip;
    }
    if (out->count > start) trim_ends(out, start);
    mt_byte_list_free(&clean);
    return status;
}
