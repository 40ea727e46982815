/* What the words left of a letter or word make of it: "I don't think it is B", "far from valid". */
#include <ctype.h>

#include "eval/answers/statement.h"

// ------------------------------------------------------------------ emphasis

/* The end of words in emphasis that begins at `at`, before the marks that close it; 0: none does. A letter
 * alone may be an option's, and its marks a sign that it is chosen. */
static size_t emphasis_end(struct mt_text text, size_t at, size_t marks)
{
    size_t begin = at + marks;
    size_t length = 0; // of this word
    size_t end = begin;
    for (; end < text.bytes && end - begin < 60 && text.text[end] != text.text[at]; end++) {
        char byte = text.text[end];
        if (!isalpha((unsigned char)byte) && strchr(" '-", byte) == NULL) return 0;
        if (byte == ' ' && length < 2) return 0;
        length = byte == ' ' ? 0 : length + 1;
    }
    size_t closing = end;
    while (closing < text.bytes && text.text[closing] == text.text[at]) closing++;
    bool follows = closing < text.bytes && isalnum((unsigned char)text.text[closing]);
    return length > 1 && closing - end == marks && !follows ? end : 0;
}

/* Appends the text without marks of emphasis around words: "*not* valid". */
static enum mt_status append_unmarked(struct mt_text text, struct mt_byte_list *out)
{
    enum mt_status status = mt_byte_list_reserve(out, text.bytes);
    size_t close = 0; // where marks that are left out stand
    for (size_t at = 0; at < text.bytes && status == MT_OK;) {
        size_t marks = 0;
        while ((text.text[at] == '*' || text.text[at] == '_') && at + marks < text.bytes &&
               text.text[at + marks] == text.text[at])
            marks++;
        bool behind = at > 0 && isalnum((unsigned char)text.text[at - 1]);
        bool closes = marks > 0 && close > 0 && at == close;
        size_t end = marks > 0 && marks < 4 && !closes && !behind ? emphasis_end(text, at, marks) : 0;
        if (end > 0) close = end;
        if (end == 0 && !closes) status = mt_byte_list_append(out, text.text + at, marks > 0 ? marks : 1);
        at += marks > 0 ? marks : 1;
    }
    return status;
}

// ------------------------------------------------------------------ denials

enum mt_status mt_clauses_read(const struct mt_forms *forms, struct mt_text plain, struct mt_clauses *clauses)
{
    struct mt_pattern_match match;
    enum mt_status status = append_unmarked(plain, &clauses->text);
    struct mt_text text = mt_text_in(&clauses->text);
    for (size_t at = 0; at <= text.bytes && status == MT_OK; at++)
        status = mt_byte_list_append(&clauses->denials, "", 1); // none, and one behind the text
    for (size_t from = 0; status == MT_OK && from < text.bytes &&
                          mt_pattern_find(forms->denial, text.text, text.bytes, from, &match);
         from = match.to) {
        // Only "whether" is a group.
        uint8_t found = match.end < match.to ? MT_DENIAL_OPEN : MT_DENIAL_FOUND;
        memset(clauses->denials.data + match.from + 1, found, match.to - match.from);
    }
    return status;
}

void mt_clauses_free(struct mt_clauses *clauses)
{
    mt_byte_list_free(&clauses->text);
    mt_byte_list_free(&clauses->denials);
}
