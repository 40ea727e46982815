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
    static const char *const words[] = {" so ",      " thus ",          " therefore ",     " hence ",
                                        " making ",  " leaving ",       " giving the ",    ", but ",
                                        " makes ",   " and the final ", " and the total ", ", that is",
                                        " meaning ", " donc ",          " somit "};
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

/* Where a change of font that ends at `at` begins: "\mathbf{"; `at`: there is none. */
static size_t font_before(struct mt_text text, size_t at)
{
    size_t name = at;
    if (at == 0 || text.text[at - 1] != '{') return at;
    for (name--; name > 0 && isalpha((unsigned char)text.text[name - 1]);) name--;
    return name > 0 && name < at - 1 && text.text[name - 1] == '\\' ? name - 1 : at;
}

/* True behind "a total saving of". */
static bool sums_up(struct mt_text text, size_t at)
{
    static const char *const all[] = {"total saving of", "total savings of"};
    bool found = false;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t length = strlen(all[i]);
        found = found || (at >= length && mt_text_has(text, at - length, all[i]));
    }
    return found;
}

/* True behind "ends up with", "is left with". */
static bool is_left_with(struct mt_text text, size_t at)
{
    static const char *const with[] = {"with", NULL};
    static const char *const before[] = {"up", "left", "end", "ends", "ended", "finishes", NULL};
    if (!mt_sentence_follows(text, at, with)) return false;
    while (at > 0 && text.text[at - 1] == ' ') at--;
    return mt_sentence_follows(text, at - 4, before);
}

/* Where a currency sign that ends at `at` begins; `at`: there is none. */
static size_t currency_before(struct mt_text text, size_t at)
{
    static const char *const signs[] = {"£", "€", "¥"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        size_t length = strlen(signs[i]);
        if (at >= length && mt_text_has(text, at - length, signs[i])) return at - length;
    }
    return at;
}

enum mt_sentence_weight mt_sentence_weight(struct mt_text text, size_t start, size_t *before)
{
    static const char *const context[] = {
        "of",    "the",           "for",    "each",     "every",   "per",     "after", "before",
        "from",  "than",          "with",   "in",       "by",      "at",      "other", "reach",
        "all",   "initial",       "over",   "until",    "between", "first",   "last",  "these",
        "those", "about",         "within", "original", "since",   "because", "where", "when",
        "using", "approximately", "les",    "des",      "von",     "pro",     "par",   "por",
        "los",   "las",           NULL};
    static const char *const copulas[] = {"is",     "are",   "be",   "was",   "were",  "equals", "equal",
                                          "totals", "takes", "take", "needs", "need",  "pays",   "pay",
                                          "gets",   "get",   "has",  "had",   "have",  "costs",  "cost",
                                          "ist",    "sind",  "est",  "sont",  "payer", "macht",  NULL};
    static const char *const totals[] = {"total of",       "rounds to",   "rounds up to",
                                         "rounds down to", "round up to", "round down to"};
    size_t at = start;
    bool bold = false;
    for (;;) {
        size_t mark = font_before(text, currency_before(text, at));
        if (mark == at && (at == 0 || strchr(" *_$\\(", text.text[at - 1]) == NULL)) break;
        bold = bold || (at > 1 && text.text[at - 1] == '*' && text.text[at - 2] == '*');
        at = mark < at ? mark : at - 1;
    }
    *before = at;
    bool summed = false;
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        size_t length = strlen(totals[i]);
        summed |= at >= length && strncasecmp(text.text + at - length, totals[i], length) == 0;
    }
    if (summed || bold || sums_up(text, at)) return MT_WEIGHS_TOTAL;
    if (mt_sentence_follows(text, at, copulas) || is_left_with(text, at)) return MT_WEIGHS_COPULA;
    return mt_sentence_follows(text, at, context) ? MT_WEIGHS_CONTEXT : MT_WEIGHS_NAMED;
}
