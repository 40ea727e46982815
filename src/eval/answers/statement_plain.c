/* The part of a text that is read for its answer, in plain characters. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "eval/answers/statement.h"
#include "formats/text/utf8.h"

// ------------------------------------------------------------------ where the answer's text ends

static size_t past_any(struct mt_text text, size_t at, const char *bytes)
{
    while (at < text.bytes && strchr(bytes, text.text[at]) != NULL) at++;
    return at;
}

/* The end of the word of a list that stands at `at`, in any case; 0: none does. */
static size_t word_end(struct mt_text text, size_t at, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        size_t length = strlen(words[i]);
        if (text.bytes - at >= length && strncasecmp(text.text + at, words[i], length) == 0)
            return at + length;
    }
    return 0;
}

/* True when a line that begins at `at` asks the next question: "Problem 2.", "**Question:**", "###
 * Instruction:". */
static bool asks(struct mt_text text, size_t at)
{
    static const char *const heads[] = {"problem",  "question", "exercise", "instruction", "pregunta",
                                        "pergunta", "domanda",  "frage",    "aufgabe",     "问题",
                                        "题目",     "問題",     "user",     "human",       "example",
                                        "task",     "input",    "q",        NULL};
    size_t word = past_any(text, at, " *#>");
    size_t end = word_end(text, word, heads);
    if (end == 0) return false;
    size_t number = past_any(text, end, " ");
    size_t after = past_any(text, number, "0123456789");
    bool numbered = after > number;
    if (numbered && end == word + 1) return false;                     // Q2 is a quarter
    if (after == number + 1 && text.text[number] == '1') return false; // the first is the one that was asked
    if (!numbered && word_end(text, word, (const char *const[]){"example", NULL}) > 0) return false;
    after = past_any(text, after, "* ");
    bool letter = end == word + 1; // "Q. Tom has"
    return after < text.bytes && strchr(numbered ? ":.)\n" : (letter ? ":." : ":"), text.text[after]) != NULL;
}

/* True when a line that begins at `at` gives choices that nobody asked for. */
static bool offers(struct mt_text text, size_t at)
{
    static const char *const labels[] = {"options:", "choices:", NULL};
    return word_end(text, past_any(text, at, " *#>"), labels) > 0;
}

/* True when a text begins with a line that is an answer and nothing else, with a blank one behind it: "(D)",
 * "B",
 * "(D) orange", "No.", "24". */
static bool begins_with_answer(struct mt_text text, size_t *line_end)
{
    static const char *const words[] = {"yes", "no", "true", "false", "valid", "invalid", NULL};
    static const char markup[] = " *_`\"'.$";
    size_t at = past_any(text, 0, " \n*_`\"'$");
    size_t end = mt_text_find(text, at, "\n");
    *line_end = end;
    if (end - at > 40 || !mt_text_has(text, end, "\n\n")) return false;
    struct mt_text line = {.text = text.text + at, .bytes = end - at};
    bool bracketed =
        line.bytes > 2 && line.text[0] == '(' && isalpha((unsigned char)line.text[1]) && line.text[2] == ')';
    if (bracketed) return mt_text_until(line, (const char *const[]){" is ", "=", NULL}).bytes == line.bytes;
    size_t word = word_end(text, at, words);
    if (word == 0) word = past_any(text, at, "-0123456789,");
    if (word == at && isupper((unsigned char)text.text[at])) word++;
    return word > at && past_any(text, word, markup) >= end;
}

size_t mt_statement_announced(struct mt_text text)
{
    static const char *const marks[] = {"\nA:",   "boxed",  "####", "espuesta", "esposta", "isposta",
                                        "éponse", "ntwort", "答案", "正解",     NULL};
    static const char *const nouns[] = {"answer", NULL};
    static const char *const verbs[] = {":", "is ", "=", "\n", NULL};
    size_t most = mt_text_until(text, marks).bytes;
    for (size_t at = 0; at < most; at++) {
        size_t end = word_end(text, at, nouns);
        if (end == 0) continue;
        size_t after = past_any(text, end, " *_\"')");
        if (after < text.bytes &&
            (isdigit((unsigned char)text.text[after]) || word_end(text, after, verbs) > 0))
            return at;
    }
    return most;
}

/* The text up to where a model that has answered goes on with a question of its own. */
static size_t first_block(struct mt_text text)
{
    size_t first_line = 0;
    bool begins = begins_with_answer(text, &first_line);
    size_t answered = begins ? first_line : mt_statement_announced(text);
    for (size_t at = mt_text_find(text, answered, "\n"); at < text.bytes;
         at = mt_text_find(text, at + 1, "\n")) {
        if (asks(text, at + 1)) return at;
        if (begins && offers(text, at + 1)) return first_line;
    }
    return text.bytes;
}

// ------------------------------------------------------------------ plain characters

/* 0 to 9; -1: it is none. */
static int superscript(uint32_t character)
{
    if (character == 0xB9) return 1;
    if (character == 0xB2 || character == 0xB3) return (int)(character - 0xB0);
    return character == 0x2070 || (character >= 0x2074 && character <= 0x2079) ? (int)(character - 0x2070)
                                                                               : -1;
}

enum mt_status mt_statement_plain(struct mt_text text, struct mt_byte_list *plain)
{
    static const struct {
        uint32_t first, last;
        const char *plain;
    } table[] = {
        {0xA0, 0xA0, " "},
        {0xBC, 0xBC, "\\frac14"},
        {0xBD, 0xBD, "\\frac12"},
        {0xBE, 0xBE, "\\frac34"},
        {0xD7, 0xD7, "*"},
        {0xF7, 0xF7, "/"},
        {0x2000, 0x200A, " "},
        {0x200B, 0x200D, ""},
        {0x2010, 0x2013, "-"},
        {0x2014, 0x2015, " - "},
        {0x2018, 0x201B, "'"},
        {0x201C, 0x201F, "\""},
        {0x2026, 0x2026, "..."},
        {0x202F, 0x202F, " "},
        {0x2044, 0x2044, "/"},
        {0x205F, 0x205F, " "},
        {0x2153, 0x2153, "\\frac13"},
        {0x2154, 0x2154, "\\frac23"},
        {0x2212, 0x2212, "-"},
        {0x3000, 0x3000, " "},
        {0x3001, 0x3001, ","},
        {0x3002, 0x3002, "."},
        {0x300C, 0x300F, "'"},
        {0x3010, 0x3010, "["},
        {0x3011, 0x3011, "]"},
        {0xFE63, 0xFE63, "-"},
        {0xFEFF, 0xFEFF, ""},
        {0xFFE5, 0xFFE5, "$"},
    };
    static const char thought[] = "</think>";
    for (size_t at = mt_text_find(text, 0, thought); at < text.bytes; at = mt_text_find(text, 0, thought)) {
        struct mt_text rest = mt_text_from(text, at + sizeof thought - 1);
        if (mt_text_trimmed(rest).bytes == 0) break;
        text = rest;
    }
    // Who never ends thinking answers only what is announced.
    if (mt_text_has(mt_text_trimmed(text), 0, "<think>") && mt_statement_announced(text) == text.bytes)
        text.bytes = 0;
    size_t begin = plain->count;
    enum mt_status status = mt_byte_list_reserve(plain, text.bytes);
    bool raised = false; // the character before is a superscript
    for (size_t at = 0, bytes = 1; at < text.bytes && status == MT_OK; at += bytes) {
        uint32_t character = mt_utf8_decode((const uint8_t *)text.text + at, &bytes);
        const char *other = NULL;
        for (size_t i = 0; character >= 0xA0 && i < sizeof table / sizeof table[0] && other == NULL; i++) {
            if (character >= table[i].first && character <= table[i].last) other = table[i].plain;
        }
        char ascii = '\0';
        if (character >= 0xFF01 && character <= 0xFF5E)
            ascii = (char)(character - 0xFF01 + '!'); // full width
        if (character >= 0x24B6 && character <= 0x24CF)
            ascii = (char)(character - 0x24B6 + 'A'); // in a circle
        int power = superscript(character);
        if (power >= 0) {
            ascii = (char)('0' + power);
            if (!raised) status = mt_byte_list_append_text(plain, "^");
        }
        raised = power >= 0;
        if (other != NULL) {
            bool spaced = plain->count > 0 && plain->data[plain->count - 1] == ' ';
            status = mt_byte_list_append_text(plain, other + (spaced && other[0] == ' ' && other[1] != '\0'));
        } else {
            if (status == MT_OK)
                status = mt_byte_list_append(plain, ascii != '\0' ? &ascii : text.text + at,
                                             ascii != '\0' ? 1 : bytes);
        }
    }
    if (status == MT_OK && begin < plain->count)
        plain->count = begin + first_block(mt_text_from(mt_text_in(plain), begin));
    return status;
}
