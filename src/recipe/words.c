/* Texts as words. */
#include "recipe/words.h"

#include <utf8proc.h>

#include "eval/tasks/prompt.h"
#include "formats/text/utf8.h"

#define MOST_PARTS 32 // characters that one stands for: U+FDFA is 18 of them

/* What a character is to the words around it. */
enum part_kind {
    PART_NONE,   // separates
    PART_LETTER, // goes on with the word
    PART_WORD,   // is one by itself
};

void mt_words_init(struct mt_context *ctx, struct mt_words *words)
{
    *words = (struct mt_words){.text = {.ctx = ctx}};
}

void mt_words_free(struct mt_words *words)
{
    mt_release(words->text.ctx, words->words, words->capacity * sizeof *words->words);
    mt_byte_list_free(&words->text);
    mt_words_init(words->text.ctx, words);
}

struct mt_text mt_words_range(const struct mt_words *words, size_t first, size_t count)
{
    const struct mt_word *last = &words->words[first + count - 1];
    size_t at = words->words[first].at;
    return (struct mt_text){.text = (const char *)words->text.data + at,
                            .bytes = last->at + last->bytes - at};
}

/* Begins a word. */
static enum mt_status begin_word(struct mt_words *words)
{
    enum mt_status status = MT_OK;
    words->words = mt_list_reserve(words->text.ctx, words->words, &words->capacity, sizeof *words->words,
                                   words->count + 1, &status);
    if (status == MT_OK && words->count > 0) status = mt_byte_list_append(&words->text, " ", 1);
    if (status == MT_OK)
        words->words[words->count++] = (struct mt_word){.at = words->text.count, .part = words->part};
    return status;
}

/* Appends a piece of a word; `open`: it goes on with the last one. */
static enum mt_status put(struct mt_words *words, const void *bytes, size_t count, bool open, bool letter)
{
    enum mt_status status = open ? MT_OK : begin_word(words);
    if (status == MT_OK) status = mt_byte_list_append(&words->text, bytes, count);
    if (status != MT_OK) return status;
    words->words[words->count - 1].bytes += (uint32_t)count;
    words->words[words->count - 1].letters |= letter;
    return MT_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A sign that is also punctuation counts between numbers, or before one; two of a kind are markup. */
static bool is_sign(struct mt_text text, size_t at)
{
    size_t before = at;
    size_t behind = at + 1;
    while (before > 0 && text.text[before - 1] == ' ') before--;
    while (behind < text.bytes && text.text[behind] == ' ') behind++;
    char left = before > 0 ? text.text[before - 1] : ' ';
    char right = behind < text.bytes ? text.text[behind] : ' ';
    return left != text.text[at] && right != text.text[at] && (is_digit(left) || is_digit(right));
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || is_upper(c) || is_digit(c);
}

/* Appends all letters and digits of ASCII that follow each other from *at on, which moves behind them. Most
 * of most texts: at once. */
static enum mt_status put_plain(struct mt_words *words, struct mt_text text, size_t *at, bool open)
{
    size_t end = *at;
    bool letters = false;
    while (end < text.bytes && is_plain(text.text[end])) letters |= !is_digit(text.text[end++]);
    enum mt_status status = put(words, text.text + *at, end - *at, open, letters);
    if (status != MT_OK) return status;
    for (size_t i = words->text.count - (end - *at); i < words->text.count; i++) {
        if (is_upper((char)words->text.data[i])) words->text.data[i] |= 0x20;
    }
    *at = end;
    return MT_OK;
}

static enum part_kind kind_of_sign(struct mt_text text, size_t at)
{
    char c = text.text[at];
    if (c == '+' || c == '=' || c == '<' || c == '>' || c == '^' || c == '%') return PART_WORD;
    bool sign = c == '-' || c == '*' || c == '/';
    return sign && is_sign(text, at) ? PART_WORD : PART_NONE;
}

/* Scripts without spaces between words: kana, Chinese characters in their planes. */
static bool is_unspaced(utf8proc_int32_t c)
{
    return (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x20000 && c <= 0x3FFFF);
}

static enum part_kind kind_of(utf8proc_int32_t c)
{
    if (is_unspaced(c)) return PART_WORD;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return PART_LETTER;
    case UTF8PROC_CATEGORY_SM: return PART_WORD;
    default: return PART_NONE;
    }
}

/* Digits and signs are none. */
static bool is_letter(utf8proc_int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/* A character outside ASCII, taken apart; *open as in put. */
static enum mt_status put_wide(struct mt_words *words, uint32_t c, bool *open)
{
    utf8proc_int32_t parts[MOST_PARTS];
    int boundary = 0;
    enum mt_status status = MT_OK;
    const utf8proc_option_t how =
        UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_STRIPMARK | UTF8PROC_IGNORE;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)c, parts, MOST_PARTS, how, &boundary);
    // Nothing is left of accents and invisible characters: the word goes on.
    for (utf8proc_ssize_t i = 0; i < count && i < MOST_PARTS && status == MT_OK; i++) {
        uint8_t bytes[4];
        enum part_kind kind = kind_of(parts[i]);
        if (parts[i] == 0x2044) kind = PART_NONE; // the stroke in a fraction of one character
        if (kind != PART_NONE)
            status = put(words, bytes, mt_utf8_encode((uint32_t)parts[i], bytes),
                         kind == PART_LETTER && *open, is_letter(parts[i]));
        *open = kind == PART_LETTER;
    }
    return status;
}

enum mt_status mt_words_read(struct mt_words *words, struct mt_text text)
{
    enum mt_status status = MT_OK;
    bool open = false;
    words->count = 0;
    words->text.count = 0;
    words->part = 0;
    for (size_t i = 0; i < text.bytes && status == MT_OK;) {
        const uint8_t *at = (const uint8_t *)text.text + i;
        size_t bad = 0;
        bool cut = false;
        if (*at < 0x80 && is_plain((char)*at)) {
            status = put_plain(words, text, &i, open);
            open = true;
            continue;
        }
        if (*at < 0x80) {
            if (kind_of_sign(text, i) == PART_WORD) status = put(words, at, 1, false, false);
            words->part += *at == MT_PROMPT_BREAK[0] ? 1 : 0;
            open = false;
            i++;
            continue;
        }
        size_t length = mt_utf8_check(at, text.bytes - i, &bad, &cut);
        i += length > 0 ? length : bad;
        if (length == 0) {
            open = false;
        } else {
            status = put_wide(words, mt_utf8_decode(at, &length), &open);
        }
    }
    return status;
}
