/* Python's texts. */
#include "eval/livebench/python.h"

#include <ctype.h>
#include <utf8proc.h>

#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

#define ARENA_BYTES ((size_t)1 << 14)

// ------------------------------------------------------------------ new texts

void mt_python_open(struct mt_python *python, struct mt_context *ctx)
{
    *python = (struct mt_python){.status = MT_OK};
    mt_arena_init(&python->arena, ctx, ARENA_BYTES);
}

enum mt_status mt_python_close(struct mt_python *python)
{
    mt_arena_free(&python->arena);
    return python->status;
}

static char *take_bytes(struct mt_python *python, size_t bytes)
{
    return mt_arena_array(&python->arena, bytes > 0 ? bytes : 1, 1, &python->status);
}

struct mt_text mt_python_lower(struct mt_python *python, struct mt_text text)
{
    char *made = take_bytes(python, 3 * text.bytes); // U+0130 grows from two bytes to three
    size_t count = 0;
    for (size_t at = 0; made != NULL && at < text.bytes;) {
        uint32_t lower[2];
        size_t bytes = 0;
        uint32_t character = mt_utf8_decode((const uint8_t *)text.text + at, &bytes);
        size_t characters = mt_unicode_lowercase(character, lower);
        for (size_t i = 0; i < characters; i++) count += mt_utf8_encode(lower[i], (uint8_t *)made + count);
        at += bytes;
    }
    return (struct mt_text){.text = made != NULL ? made : "", .bytes = count};
}

struct mt_text mt_python_replace(struct mt_python *python, struct mt_text text, const char *what,
                                 const char *by)
{
    size_t length = strlen(what);
    size_t matches = mt_python_count(text, what);
    if (matches == 0) return text;
    size_t bytes = text.bytes - matches * length + matches * strlen(by);
    char *made = take_bytes(python, bytes);
    if (made == NULL) return mt_text_of("");
    struct mt_split split = {.rest = text};
    struct mt_text piece;
    size_t count = 0;
    for (size_t i = 0; mt_python_split(&split, what, &piece); i++) {
        for (const char *at = by; i > 0 && *at != '\0'; at++) made[count++] = *at;
        if (piece.bytes > 0) memcpy(made + count, piece.text, piece.bytes);
        count += piece.bytes;
    }
    return (struct mt_text){.text = made, .bytes = count};
}

struct mt_text mt_python_without(struct mt_python *python, struct mt_text text, const char *const *what)
{
    for (; *what != NULL; what++) text = mt_python_replace(python, text, *what, "");
    return text;
}

struct mt_text mt_python_without_thoughts(struct mt_python *python, struct mt_text text)
{
    static const char open[] = "<think>";
    static const char close[] = "</think>";
    char *made = mt_arena_array(&python->arena, text.bytes + 1, 1, &python->status);
    size_t count = 0;
    for (size_t at = 0; made != NULL && at < text.bytes;) {
        size_t begin = mt_text_find(text, at, open);
        size_t end = mt_text_find(text, begin, close);
        if (end == text.bytes) begin = end;
        memcpy(made + count, text.text + at, begin - at);
        count += begin - at;
        at = end < text.bytes ? end + sizeof close - 1 : end;
    }
    return (struct mt_text){.text = made != NULL ? made : "", .bytes = count};
}

bool mt_python_is_word(uint32_t character)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)character);
    return character == '_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
           (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

struct mt_text mt_python_words_only(struct mt_python *python, struct mt_text text)
{
    char *made = take_bytes(python, text.bytes);
    size_t count = 0;
    size_t bytes = 0;
    for (size_t at = 0; made != NULL && at < text.bytes; at += bytes) {
        bool word = mt_python_is_word(mt_utf8_decode((const uint8_t *)text.text + at, &bytes));
        if (word) memcpy(made + count, text.text + at, bytes);
        if (word) count += bytes;
    }
    return (struct mt_text){.text = made != NULL ? made : "", .bytes = count};
}

// ------------------------------------------------------------------ looking

bool mt_python_in(struct mt_text what, struct mt_text text)
{
    for (size_t at = 0; at + what.bytes <= text.bytes; at++) {
        if (what.bytes == 0 || memcmp(text.text + at, what.text, what.bytes) == 0) return true;
    }
    return false;
}

size_t mt_python_count(struct mt_text text, const char *what)
{
    size_t count = 0;
    for (size_t at = mt_text_find(text, 0, what); at < text.bytes;
         at = mt_text_find(text, at + strlen(what), what))
        count++;
    return count;
}

bool mt_python_split(struct mt_split *split, const char *separator, struct mt_text *piece)
{
    if (split->over) return false;
    size_t at = mt_text_find(split->rest, 0, separator);
    *piece = (struct mt_text){.text = split->rest.text, .bytes = at};
    split->over = at == split->rest.bytes;
    if (!split->over) split->rest = mt_text_from(split->rest, at + strlen(separator));
    return true;
}

struct mt_text mt_python_last_line(struct mt_text text)
{
    text = mt_livebench_stripped(text);
    size_t start = text.bytes;
    while (start > 0 && text.text[start - 1] != '\n') start--;
    return mt_text_from(text, start);
}

size_t mt_python_length(struct mt_text text)
{
    size_t length = 0;
    for (size_t i = 0; i < text.bytes; i++) length += ((unsigned char)text.text[i] & 0xC0u) != 0x80u ? 1 : 0;
    return length;
}

struct mt_text mt_python_tail(struct mt_text text, size_t characters)
{
    size_t start = text.bytes;
    while (start > 0 && characters > 0) {
        start = mt_utf8_previous((const uint8_t *)text.text, start);
        characters--;
    }
    return mt_text_from(text, start);
}

bool mt_python_next_between(struct mt_text text, size_t *at, const char *before, const char *behind,
                            struct mt_text *inner)
{
    for (size_t start = mt_text_find(text, *at, before); start < text.bytes;) {
        size_t from = start + strlen(before);
        size_t line_end = mt_text_find(text, from, "\n");
        struct mt_text line = {.text = text.text + from, .bytes = line_end - from};
        size_t stop = mt_text_find(line, 0, behind);
        if (stop < line.bytes) {
            *inner = (struct mt_text){.text = line.text, .bytes = stop};
            *at = from + stop + strlen(behind);
            return true;
        }
        start = mt_text_find(text, line_end, before); // nothing further on in this line ends in it
    }
    return false;
}

// ------------------------------------------------------------------ boxes

/* Where the last `what` begins; the length of the text: nowhere. */
static size_t find_last(struct mt_text text, const char *what)
{
    size_t length = strlen(what);
    for (size_t at = text.bytes >= length ? text.bytes - length + 1 : 0; at-- > 0;) {
        if (mt_text_has(text, at, what)) return at;
    }
    return text.bytes;
}

/* last_boxed_only_string; false: None. */
static bool last_boxed(struct mt_python *python, struct mt_text text, struct mt_text *box)
{
    static const char spaced[] = "\\boxed ";
    size_t at = find_last(text, spaced);
    if (at < text.bytes) {
        struct mt_text rest = mt_text_from(text, at);
        size_t dollar = mt_text_find(rest, sizeof spaced - 1, "$");
        *box = (struct mt_text){.text = rest.text, .bytes = dollar};
        return true;
    }
    at = find_last(text, "\\boxed");
    if (at == text.bytes) at = find_last(text, "\\fbox");
    int64_t open = 0;
    for (size_t i = at; i < text.bytes; i++) {
        if (text.text[i] == '{') open++;
        if (text.text[i] != '}') continue;
        open--;
        if (open != 0) continue;
        *box = (struct mt_text){.text = text.text + at, .bytes = i + 1 - at};
        *box = mt_python_replace(python, *box, "$", "");
        *box = mt_python_replace(python, *box, "fbox", "boxed");
        return true;
    }
    return false;
}

bool mt_python_boxed(struct mt_python *python, struct mt_text text, struct mt_text *inner)
{
    struct mt_text box;
    if (!last_boxed(python, text, &box)) return false;
    if (mt_text_find(box, 0, "\\boxed ") < box.bytes) {
        python->raised = !mt_text_take(&box, "\\boxed ");
    } else {
        python->raised = !mt_text_take(&box, "\\boxed{") || box.bytes == 0 || box.text[box.bytes - 1] != '}';
        if (!python->raised) box.bytes--;
    }
    *inner = box;
    return !python->raised;
}

// ------------------------------------------------------------------ numbers

bool mt_python_is_digit(uint32_t character, int *value)
{
    *value = character < 128 ? (int)character - '0' : -1;
    if (character < 128) return isdigit((int)character) != 0;
    if (utf8proc_category((utf8proc_int32_t)character) == UTF8PROC_CATEGORY_ND) {
        // Digits lie in runs of ten, or of several times ten.
        uint32_t first = character;
        while (utf8proc_category((utf8proc_int32_t)first - 1) == UTF8PROC_CATEGORY_ND) first--;
        *value = (int)((character - first) % 10);
        return true;
    }
    // Superscripts, subscripts and digits in circles, of which int() makes no number.
    return character == 0xB2 || character == 0xB3 || character == 0xB9 || character == 0x2070 ||
           (character >= 0x2074 && character <= 0x2079) || (character >= 0x2080 && character <= 0x2089) ||
           (character >= 0x2460 && character <= 0x2468);
}

bool mt_python_int(struct mt_text text, int64_t *value, bool *other)
{
    text = mt_livebench_stripped(text);
    bool negative = mt_text_has(text, 0, "-");
    if (negative || mt_text_has(text, 0, "+")) text = mt_text_from(text, 1);
    bool digit = false; // the character before is one
    size_t bytes = 0;
    *value = 0;
    *other = false;
    for (size_t i = 0; i < text.bytes; i += bytes) {
        int one = 0;
        uint32_t character = mt_utf8_decode((const uint8_t *)text.text + i, &bytes);
        bool line = character == '_' && digit; // 1_000
        digit = mt_python_is_digit(character, &one) && one >= 0;
        if (!line && !digit) return false;
        if (line) continue;
        if (*value > INT64_MAX / 100) *other = true;
        if (!*other) *value = *value * 10 + one;
    }
    if (negative) *value = -*value;
    return digit;
}
