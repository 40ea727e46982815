/*
 * The verdict in what a judge wrote: CORRECT, INCORRECT or UNSURE in its last line, with marks or a sentence
 * around; else in a line that is about the verdict; else anywhere, where all that is said agrees. Words in
 * capitals, as they are asked for, count before others. Nothing is guessed: two verdicts are none.
 */
#include <ctype.h>
#include <strings.h>

#include "eval/judges/judge_llm.h"

/* What a piece of text says. */
struct said {
    enum mt_verdict verdict; // NONE: nothing
    bool differs;            // one thing and another
};

/* The bytes of curved quotes, as UTF-8 writes them. */
#define CURVED     "\xE2\x80\x98\x99\x9C\x9D"
#define APOSTROPHE "\xE2\x80\x99"

struct word {
    struct mt_text text;
    bool follows; // only spaces, or nothing, stand before it
    bool joined;  // only spaces, markup and quotes do
};

static bool word_is(struct mt_text word, const char *other)
{
    return word.bytes == strlen(other) && strncasecmp(word.text, other, word.bytes) == 0;
}

static bool is_one_of(struct mt_text word, const char *const *others)
{
    while (*others != NULL && !word_is(word, *others)) others++;
    return *others != NULL;
}

/* The next word, of letters and apostrophes; false: there is none. */
static bool next_word(struct mt_text text, size_t *at, struct word *word)
{
    size_t start = *at;
    word->follows = true;
    word->joined = true;
    while (start < text.bytes && !isalpha((unsigned char)text.text[start])) {
        word->follows = word->follows && text.text[start] == ' ';
        word->joined = word->joined && strchr(" *_`\"'([" CURVED, text.text[start]) != NULL;
        start++;
    }
    size_t end = start;
    for (size_t step = 1; end < text.bytes && step > 0; end += step) {
        bool part = isalpha((unsigned char)text.text[end]) || text.text[end] == '\'';
        step = part ? 1 : 0;
        if (end > start && mt_text_has(text, end, APOSTROPHE)) step = sizeof APOSTROPHE - 1;
    }
    word->text = (struct mt_text){.text = text.text + start, .bytes = end - start};
    *at = end;
    return end > start;
}

static bool is_negation(struct mt_text word)
{
    static const char *const words[] = {"not", "never", "hardly", "cannot", NULL};
    static const char *const contracted[] = {"n't", "n" APOSTROPHE "t"};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(contracted[i]);
        if (word.bytes > length && strncasecmp(word.text + word.bytes - length, contracted[i], length) == 0)
            return true;
    }
    return is_one_of(word, words);
}

/* Whether the rest of a clause is denied, or open, behind a word of it: "I cannot say that it is correct". */
static bool leaves_open(bool open, const struct word *before, const struct word *word)
{
    static const char *const doubts[] = {"fails",    "fail",   "failed", "far",   "neither", "nor", "doubt",
                                         "unlikely", "nobody", "false",  "wrong", "lacks",   NULL};
    static const char *const no[] = {"way", "means", "longer", "one", NULL}; // "by no means"
    static const char *const ends[] = {"so", "therefore", "thus", "hence", "but", "because", "yet", NULL};
    if (!word->joined || is_one_of(word->text, ends)) open = false;
    return open || is_negation(word->text) || is_one_of(word->text, doubts) ||
           (word_is(before->text, "no") && is_one_of(word->text, no));
}

/* "the correct answer": a property of something else. */
static bool is_property(const struct word before[2], const struct word *next)
{
    static const char *const articles[] = {"the", "a", "any", "its", "this", "no", NULL};
    static const char *const things[] = {"answer", "result", "value",    "option", "choice",
                                         "number", "final",  "solution", "letter", NULL};
    if (next->text.bytes == 0 || !next->follows) return false;
    return is_one_of(before[0].text, articles) || is_one_of(next->text, things);
}

/* What a word says between others; NONE: nothing. `open`: see leaves_open. */
static struct said meaning(const struct word *now, const struct word before[2], const struct word *next,
                           bool open)
{
    static const char *const degrees[] = {"fully",    "entirely", "quite", "completely",
                                          "strictly", "exactly",  NULL};
    static const char *const parts[] = {"partially", "partly", "half", NULL};
    struct mt_text word = now->text;
    bool correct = word_is(word, "CORRECT");
    bool incorrect = word_is(word, "INCORRECT");
    bool degree = before[0].joined && is_one_of(before[0].text, degrees);
    bool negated = now->joined && (is_negation(before[0].text) || (degree && is_negation(before[1].text)));
    if (word_is(word, "UNSURE")) return (struct said){.verdict = MT_VERDICT_UNSURE};
    if (correct && negated) return (struct said){.verdict = MT_VERDICT_INCORRECT};
    if ((incorrect && negated) || (correct && is_one_of(before[0].text, parts)))
        return (struct said){.verdict = MT_VERDICT_UNREADABLE, .differs = true};
    if (correct && is_property(before, next)) return (struct said){0};
    if (correct && open) return (struct said){.verdict = MT_VERDICT_UNREADABLE, .differs = true};
    if (correct) return (struct said){.verdict = MT_VERDICT_CORRECT};
    return (struct said){.verdict = incorrect ? MT_VERDICT_INCORRECT : MT_VERDICT_NONE};
}

static bool is_upper(struct mt_text word)
{
    for (size_t i = 0; i < word.bytes; i++) {
        if (!isupper((unsigned char)word.text[i])) return false;
    }
    return true;
}

static struct said scan(struct mt_text text, bool capitals)
{
    static const char *const doubts[] = {"whether", "if", NULL};
    struct said all = {0};
    struct word before[2] = {0};
    struct word word;
    struct word next;
    size_t at = 0;
    bool open = false;
    bool doubt = false; // "I cannot tell whether it is correct"
    bool more = next_word(text, &at, &word);
    while (more) {
        bool another = next_word(text, &at, &next);
        if (!another) next = (struct word){.text = mt_text_of("")};
        open = leaves_open(open, &before[0], &word);
        struct said one = meaning(&word, before, &next, open);
        doubt = (doubt && word.joined) || is_one_of(word.text, doubts);
        if (one.verdict != MT_VERDICT_NONE && !doubt && (!capitals || is_upper(word.text))) {
            all.differs =
                all.differs || one.differs || (all.verdict != MT_VERDICT_NONE && all.verdict != one.verdict);
            all.verdict = one.verdict;
        }
        before[1] = before[0];
        before[0] = word;
        word = next;
        more = another;
    }
    return all;
}

/* What a text says; NONE: nothing, UNREADABLE: one thing and another. */
static enum mt_verdict verdict_in(struct mt_text text)
{
    struct said said = scan(text, true);
    if (said.verdict == MT_VERDICT_NONE) said = scan(text, false);
    return said.differs ? MT_VERDICT_UNREADABLE : said.verdict;
}

/* True when a line is about the verdict. */
static bool is_announced(struct mt_text line)
{
    static const char *const labels[] = {"verdict",    "grade",      "judgment", "judgement",
                                         "conclusion", "assessment", NULL};
    struct word word;
    for (size_t at = 0; next_word(line, &at, &word);) {
        if (is_one_of(word.text, labels)) return true;
    }
    return false;
}

enum mt_verdict mt_judge_prompt_verdict(const char *text, size_t bytes)
{
    static const char thought[] = "</think>";
    struct mt_text reply = {.text = text, .bytes = bytes};
    struct mt_text line;
    struct mt_text last = mt_text_of("");
    enum mt_verdict announced = MT_VERDICT_NONE;
    for (size_t at = mt_text_find(reply, 0, thought); at < reply.bytes; at = mt_text_find(reply, 0, thought))
        reply = mt_text_from(reply, at + sizeof thought - 1);
    for (size_t at = 0; mt_text_next_line(reply, &at, &line);) {
        if (mt_text_trimmed(line).bytes == 0) continue;
        last = line;
        enum mt_verdict verdict = is_announced(line) ? verdict_in(line) : MT_VERDICT_NONE;
        if (verdict != MT_VERDICT_NONE) announced = verdict;
    }
    enum mt_verdict verdict = verdict_in(last);
    if (verdict == MT_VERDICT_NONE) verdict = announced;
    if (verdict == MT_VERDICT_NONE) verdict = verdict_in(reply);
    return verdict != MT_VERDICT_NONE ? verdict : MT_VERDICT_UNREADABLE;
}
