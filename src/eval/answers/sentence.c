/* Sentences. */
#include "eval/answers/sentence.h"

#include <ctype.h>
#include <strings.h>

bool mt_sentence_ends(struct mt_text text, size_t at)
{
    static const char *const titles[] = {"Mr", "Mrs", "Ms", "Dr", "vs", "approx", NULL};
    bool space = at + 1 >= text.bytes || isspace((unsigned char)text.text[at + 1]);
    bool letter =
        at > 1 && isalpha((unsigned char)text.text[at - 1]) && !isalnum((unsigned char)text.text[at - 2]);
    if (text.text[at] == '\n' || (strchr("!?", text.text[at]) != NULL && space)) return true;
    return text.text[at] == '.' && space && !letter && !mt_sentence_follows(text, at, titles);
}

size_t mt_sentence_next(struct mt_text text, size_t at)
{
    static const char *const words[] = {" so ",     " thus ",          " therefore ",    " hence ",
                                        " making ", " leaving ",       " giving the ",   ", but ",
                                        " makes ",  " and the final ", " and the total "};
    for (at++; at < text.bytes; at++) {
        if (mt_sentence_ends(text, at - 1)) return at;
        for (size_t i = 0; strchr(" ,", text.text[at]) != NULL && i < sizeof words / sizeof words[0]; i++) {
            if (mt_text_has(text, at, words[i])) return at;
        }
    }
    return text.bytes;
}

bool mt_sentence_follows(struct mt_text text, size_t at, const char *const *words)
{
    while (at > 0 && strchr(" #.", text.text[at - 1]) != NULL) at--;
    size_t end = at;
    while (at > 0 && isalpha((unsigned char)text.text[at - 1])) at--;
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == end - at && strncasecmp(text.text + at, words[i], end - at) == 0) return true;
    }
    return false;
}

enum mt_sentence_weight mt_sentence_weight(struct mt_text text, size_t start, size_t *before)
{
    static const char *const context[] = {
        "of",       "the",   "for",     "each",  "every", "per",   "after",         "before", "from",
        "than",     "with",  "in",      "by",    "at",    "other", "reach",         "all",    "initial",
        "over",     "until", "between", "first", "last",  "these", "those",         "about",  "within",
        "original", "since", "because", "where", "when",  "using", "approximately", NULL};
    static const char *const copulas[] = {"is",     "are",   "be",   "was",   "were",  "equals", "equal",
                                          "totals", "takes", "take", "needs", "need",  "pays",   "pay",
                                          "gets",   "get",   "has",  "have",  "costs", "cost",   NULL};
    static const char *const totals[] = {"total of",       "rounds to",   "rounds up to",
                                         "rounds down to", "round up to", "round down to"};
    size_t at = start;
    bool bold = false;
    while (at > 0 && strchr(" *_$\\(", text.text[at - 1]) != NULL) {
        bold = bold || (at > 1 && text.text[at - 1] == '*' && text.text[at - 2] == '*');
        at--;
    }
    *before = at;
    bool summed = false;
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        size_t length = strlen(totals[i]);
        summed |= at >= length && strncasecmp(text.text + at - length, totals[i], length) == 0;
    }
    if (summed || bold) return MT_WEIGHS_TOTAL;
    if (mt_sentence_follows(text, at, copulas)) return MT_WEIGHS_COPULA;
    return mt_sentence_follows(text, at, context) ? MT_WEIGHS_CONTEXT : MT_WEIGHS_NAMED;
}
