/* Steps of normalisation; each one only drops or replaces bytes. */
#include "eval/answers/normalize.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *const names[MT_NORMALIZE_STEPS] = {
    [MT_NORMALIZE_TRIM] = "trim",           [MT_NORMALIZE_LOWER] = "lower",
    [MT_NORMALIZE_SPACES] = "spaces",       [MT_NORMALIZE_PUNCTUATION] = "punctuation",
    [MT_NORMALIZE_BRACKETS] = "brackets",   [MT_NORMALIZE_ARTICLES] = "articles",
    [MT_NORMALIZE_NO_SPACES] = "no_spaces", [MT_NORMALIZE_NO_COMMAS] = "no_commas",
    [MT_NORMALIZE_MARKUP] = "markup",       [MT_NORMALIZE_ITEMS] = "items",
};

enum mt_normalize_step mt_normalize_named(const char *name)
{
    return (enum mt_normalize_step)mt_name_place(names, MT_NORMALIZE_STEPS, name);
}

/* Keeps bytes from `start` to `end`. */
static void keep(struct mt_byte_list *text, size_t start, size_t end)
{
    if (start > 0) memmove(text->data, text->data + start, end - start);
    text->count = end - start;
}

static void strip(struct mt_byte_list *text, const char *what)
{
    size_t start = 0;
    size_t end = text->count;
    while (end > start && text->data[end - 1] != '\0' && strchr(what, text->data[end - 1]) != NULL) end--;
    while (start < end && text->data[start] != '\0' && strchr(what, text->data[start]) != NULL) start++;
    keep(text, start, end);
}

static void drop(struct mt_byte_list *text, const char *what)
{
    size_t count = 0;
    for (size_t i = 0; i < text->count; i++) {
        if (text->data[i] != '\0' && strchr(what, text->data[i]) != NULL) continue;
        text->data[count++] = text->data[i];
    }
    text->count = count;
}

static void one_space(struct mt_byte_list *text)
{
    size_t count = 0;
    for (size_t i = 0; i < text->count; i++) {
        bool space = isspace(text->data[i]) != 0;
        if (space && (count == 0 || text->data[count - 1] == ' ')) continue;
        text->data[count++] = space ? ' ' : text->data[i];
    }
    if (count > 0 && text->data[count - 1] == ' ') count--;
    text->count = count;
}

static void brackets(struct mt_byte_list *text)
{
    static const char pairs[] = "()[]{}";
    if (text->count < 2) return;
    for (size_t i = 0; i < 6; i += 2) {
        const uint8_t open = (uint8_t)pairs[i];
        const uint8_t close = (uint8_t)pairs[i + 1];
        if (text->data[0] != open || text->data[text->count - 1] != close) continue;
        // "(a) or (b)" is not in brackets as a whole.
        if (memchr(text->data + 1, close, text->count - 2) != NULL) return;
        keep(text, 1, text->count - 1);
        return;
    }
}

static void articles(struct mt_byte_list *text)
{
    static const char *const words[] = {"a", "an", "the"};
    size_t count = 0;
    for (size_t at = 0; at < text->count;) {
        size_t end = at;
        while (end < text->count && !isspace(text->data[end])) end++;
        bool article = false;
        for (size_t i = 0; i < 3; i++) {
            size_t length = strlen(words[i]);
            article |=
                length == end - at && strncasecmp((const char *)text->data + at, words[i], length) == 0;
        }
        while (end < text->count && isspace(text->data[end])) end++;
        if (!article) {
            memmove(text->data + count, text->data + at, end - at);
            count += end - at;
        }
        at = end;
    }
    text->count = count;
}

/* Words without numbering, commas, arrows, quotes and brackets around them, and without the "and" that
 * follows a comma. */
static void items(struct mt_byte_list *text)
{
    static const char around[] = ",;:.!?\"'`*_()[]<>|-";
    size_t count = 0;
    bool comma = false; // ends the word before
    for (size_t at = 0, end = 0; at < text->count; at = end) {
        while (at < text->count && isspace(text->data[at])) at++;
        end = at;
        while (end < text->count && !isspace(text->data[end])) end++;
        size_t first = at;
        size_t last = end;
        while (first < last && strchr(around, text->data[first]) != NULL) first++;
        while (last > first && strchr(around, text->data[last - 1]) != NULL) last--;
        size_t digits = first;
        while (digits < last && isdigit(text->data[digits])) digits++;
        bool number = digits == last && last < end;
        bool joins =
            comma && last - first == 3 && strncasecmp((const char *)text->data + first, "and", 3) == 0;
        comma = end > at && text->data[end - 1] == ',';
        bool arrow = last - first == 3 && memcmp(text->data + first, "\xE2\x86\x92", 3) == 0;
        if (first == last || number || joins || arrow) continue;
        if (count > 0) text->data[count++] = ' ';
        memmove(text->data + count, text->data + first, last - first);
        count += last - first;
    }
    text->count = count;
}

static void lower(struct mt_byte_list *text)
{
    for (size_t i = 0; i < text->count; i++) text->data[i] = (uint8_t)tolower(text->data[i]);
}

void mt_normalize_text(struct mt_byte_list *text, const enum mt_normalize_step *steps, size_t count)
{
    for (size_t i = 0; i < count && text->count > 0; i++) {
        switch (steps[i]) {
        case MT_NORMALIZE_TRIM: strip(text, " \t\r\n\v\f"); break;
        case MT_NORMALIZE_LOWER: lower(text); break;
        case MT_NORMALIZE_SPACES: one_space(text); break;
        case MT_NORMALIZE_PUNCTUATION: strip(text, " \t\r\n.,;:!?\"'"); break;
        case MT_NORMALIZE_BRACKETS: brackets(text); break;
        case MT_NORMALIZE_ARTICLES: articles(text); break;
        case MT_NORMALIZE_NO_SPACES: drop(text, " \t\r\n\v\f"); break;
        case MT_NORMALIZE_NO_COMMAS: drop(text, ","); break;
        case MT_NORMALIZE_MARKUP: drop(text, "*`$\\"); break;
        case MT_NORMALIZE_ITEMS: items(text); break;
        default: break;
        }
    }
}
