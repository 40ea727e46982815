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
    static const char *const words[] = {
        " so ",         " thus ", " therefore ", " hence ",         " making ",        " leaving ",
        " giving the ", ", but ", " makes ",     " and the final ", " and the total ", ", that is",
        " meaning ",    " donc ", " somit ",     ", worth ",        ", earning "};
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

/* True behind "total", "rounds to", "a total saving of", "a difference of". */
static bool sums_up(struct mt_text text, size_t at)
{
    static const char *const all[] = {
        "total",          "total of",    "total saving of", "total savings of", "rounds to", "rounds up to",
        "rounds down to", "round up to", "round down to",   "difference of",    "profit of", "remainder of",
        "comes to",       "amounts to",  "adds up to",      "comes out to",     "totaling",  "totalling"};
    bool found = false;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && !found; i++) {
        size_t length = strlen(all[i]);
        found = at >= length && strncasecmp(text.text + at - length, all[i], length) == 0;
    }
    return found;
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

/* Where the word before `at` begins, spaces between. */
static size_t word_before(struct mt_text text, size_t at)
{
    while (at > 0 && text.text[at - 1] == ' ') at--;
    while (at > 0 && isalpha((unsigned char)text.text[at - 1])) at--;
    return at;
}

/* True behind "after giving", but neither behind ", giving" nor behind "is giving". */
static bool is_aside(struct mt_text text, size_t at)
{
    static const char *const verbs[] = {"is", "are", "was", "were", "be", "been", "up", "re", "s", NULL};
    size_t word = word_before(text, at);
    while (at > 0 && text.text[at - 1] == ' ') at--;
    if (at < word + 5 || !mt_text_has(text, at - 3, "ing") || mt_sentence_follows(text, word, verbs))
        return false;
    while (word > 0 && text.text[word - 1] == ' ') word--;
    return word == 0 || text.text[word - 1] != ',';
}

/* What the word before `at` says of what stands behind it. */
static enum mt_sentence_weight weight_behind(struct mt_text text, size_t at)
{
    static const char *const context[] = {
        "of",       "the",   "for",     "each",  "every", "per",   "after",         "before", "from",
        "than",     "with",  "in",      "by",    "at",    "other", "reach",         "all",    "initial",
        "over",     "until", "between", "first", "last",  "these", "those",         "about",  "within",
        "original", "since", "because", "where", "when",  "using", "approximately", "les",    "des",
        "von",      "pro",   "par",     "por",   "los",   "las",   "his",           "their",  "its",
        "my",       "our",   "your",    "her",   NULL};
    static const char *const copulas[] = {
        "is",    "are",   "be",   "was",  "were",   "equals", "equal", "totals",   "takes",   "take",
        "needs", "need",  "pays", "pay",  "gets",   "get",    "has",   "had",      "have",    "costs",
        "cost",  "earns", "earn", "owes", "yields", "leaves", "holds", "receives", "receive", "make",
        "ist",   "sind",  "est",  "sont", "payer",  "macht",  NULL};
    static const char *const whom[] = {"him",  "her",  "them",    "us",    "you", "me",
                                       "only", "just", "exactly", "still", "now", NULL};
    static const char *const subjects[] = {"it", "that", "he", "she", "there", "here", "this", NULL};
    if (mt_sentence_follows(text, at, copulas)) return MT_WEIGHS_COPULA;
    size_t word = at;
    while (word > 0 && text.text[word - 1] == ' ') word--;
    if (word > 2 && mt_text_has(text, word - 2, "'s")) // "it's 8", but "Tom's 8"
        return mt_sentence_follows(text, word - 2, subjects) ? MT_WEIGHS_COPULA : MT_WEIGHS_CONTEXT;
    size_t object = word_before(text, at); // "earns him 8", "gives Lisa 8"
    bool skipped =
        mt_sentence_follows(text, word, whom) || (object < word && isupper((unsigned char)text.text[object]));
    if (skipped && mt_sentence_follows(text, object, copulas)) return MT_WEIGHS_COPULA;
    if (is_aside(text, at)) return MT_WEIGHS_CONTEXT;
    return mt_sentence_follows(text, at, context) ? MT_WEIGHS_CONTEXT : MT_WEIGHS_NAMED;
}

enum mt_sentence_weight mt_sentence_weight(struct mt_text text, size_t start, size_t *before)
{
    size_t at = start;
    bool bold = false;
    for (;;) {
        size_t mark = font_before(text, currency_before(text, at));
        if (mark == at && (at == 0 || strchr(" *_$\\(", text.text[at - 1]) == NULL)) break;
        bool marks = at > 1 && text.text[at - 1] == '*' && text.text[at - 2] == '*';
        bold = bold || (marks && text.text[at] != ' '); // not those that close a label's
        at = mark < at ? mark : at - 1;
    }
    *before = at;
    enum mt_sentence_weight weight = sums_up(text, at) ? MT_WEIGHS_TOTAL : weight_behind(text, at);
    if (!bold) return weight;
    return weight == MT_WEIGHS_CONTEXT ? MT_WEIGHS_MARKED : MT_WEIGHS_BOLD;
}
