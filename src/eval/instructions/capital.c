/*
 * Words in capitals, as NLTK cuts words: NLTKWordTokenizer (nltk/tokenize/destructive.py) of every sentence
 * that its Punkt finds. Its steps put spaces around marks and into contractions, one pattern after the other;
 * so do the steps below. The trained splitter is not here, but a sentence's end can only add words ("IT'S."
 * is one word within a sentence, and IT, 'S and a full stop at its end): the text as one sentence has the
 * fewest, the text with an end behind every mark that could be one the most.
 */
#include "eval/answers/pattern.h"
#include "eval/instructions/instructions.h"
#include "eval/livebench/text.h"

#define PYTHON "(*LF)(*UCP)"
#define WORD   "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]" // as NLTK's patterns have it

enum place {
    FRONT = 1,  // of the match
    MIDDLE = 2, // where its first group ends
    BACK = 4,   // behind the match
    BOTH = FRONT | BACK,
};

/* What puts spaces into a text, and where. */
struct step {
    const char *pattern;
    int spaces; // places
};

static const struct step steps[] = {
    // Quotes that begin something.
    {PYTHON "[«“‘„]|`+", BOTH},
    {PYTHON "\\A\"", BACK},
    {PYTHON "(?<=[ (\\[{<])(?:\"|'{2})", BOTH},
    {PYTHON "(?i)(?<!" WORD ")'(?!(?:re|ve|ll|m|t|s|d|n)(?!" WORD "))(?=" WORD ")", BACK},
    // Marks; a full stop only at the end.
    {PYTHON "([^.])\\.[\\])}>\"'»”’ ]*+\\s*$", MIDDLE},
    {PYTHON "([:,])[^\\d]", FRONT | MIDDLE},
    {PYTHON "[:,]$", BOTH},
    {PYTHON "\\.{2,}", BOTH},
    {PYTHON "[;@#$%&]", BOTH},
    {PYTHON "[\\x{2012}-\\x{2015}]", BOTH},
    {PYTHON "[?!]", BOTH},
    {PYTHON "([^'])' ", MIDDLE},
    {PYTHON "[*]", BOTH},
    {PYTHON "[\\]\\[(){}<>]", BOTH},
    {PYTHON "--", BOTH},
    {PYTHON "\\A", BACK},
    {PYTHON "\\z", BACK},
    // Quotes that end something, and what hangs on a word.
    {PYTHON "[»”’]", BOTH},
    {PYTHON "''", BOTH},
    {PYTHON "\"", BOTH},
    {PYTHON "[^\\S ]", BOTH}, // the next steps want spaces
    {PYTHON "([^' ])(?:'[sSmMdD]|') ", MIDDLE},
    {PYTHON "([^' ])(?:'ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", MIDDLE},
    {PYTHON "(?i)\\b(can)not\\b", BOTH | MIDDLE},
    {PYTHON "(?i)\\b(d)'ye\\b", BOTH | MIDDLE},
    {PYTHON "(?i)\\b(gim)me\\b", BOTH | MIDDLE},
    {PYTHON "(?i)\\b(gon)na\\b", BOTH | MIDDLE},
    {PYTHON "(?i)\\b(got)ta\\b", BOTH | MIDDLE},
    {PYTHON "(?i)\\b(lem)me\\b", BOTH | MIDDLE},
    {PYTHON "(?i)\\b(more)'n\\b", BOTH | MIDDLE},
    {PYTHON "(?i)\\b(wan)na(?=\\s)", BOTH | MIDDLE},
    {PYTHON "(?i) ('t)is\\b", BOTH | MIDDLE},
    {PYTHON "(?i) ('t)was\\b", BOTH | MIDDLE},
};

#define STEPS (sizeof steps / sizeof steps[0])

/* Where a sentence may end for Punkt: a mark, then white space or what is no part of a word. */
static const char sentence_end[] = PYTHON "[.?!](?=[\\s)\";}\\]*:@'({\\[!?])";

static enum mt_status add(struct mt_byte_list *out, struct mt_text text, size_t from, size_t to, bool space)
{
    enum mt_status status = mt_byte_list_append(out, text.text + from, to - from);
    return status == MT_OK && space ? mt_byte_list_append_text(out, " ") : status;
}

/* The steps' patterns, compiled. */
struct cutter {
    struct mt_context *ctx;
    struct mt_pattern *patterns[STEPS];
    struct mt_pattern *ends;
};

/* A cutter is closed whatever this returned. */
static enum mt_status open_cutter(struct mt_context *ctx, struct cutter *cutter)
{
    *cutter = (struct cutter){.ctx = ctx};
    enum mt_status status = mt_pattern_create(ctx, sentence_end, &cutter->ends);
    for (size_t i = 0; i < STEPS && status == MT_OK; i++)
        status = mt_pattern_create(ctx, steps[i].pattern, &cutter->patterns[i]);
    return status;
}

static void close_cutter(struct cutter *cutter)
{
    for (size_t i = 0; i < STEPS; i++) mt_pattern_free(cutter->patterns[i]);
    mt_pattern_free(cutter->ends);
}

/* Appends the text with the spaces of one step. */
static enum mt_status put_spaces(const struct cutter *cutter, size_t step, struct mt_text text,
                                 struct mt_byte_list *out)
{
    const int spaces = steps[step].spaces;
    struct mt_pattern_match match;
    size_t done = 0; // bytes of the text that are in `out`
    size_t from = 0;
    enum mt_status status = MT_OK;
    while (status == MT_OK && from <= text.bytes &&
           mt_pattern_find(cutter->patterns[step], text.text, text.bytes, from, &match)) {
        status = add(out, text, done, match.from, (spaces & FRONT) != 0);
        done = match.from;
        if (status == MT_OK && (spaces & MIDDLE) != 0) {
            status = add(out, text, done, match.end, true);
            done = match.end;
        }
        if (status == MT_OK && (spaces & BACK) != 0) {
            status = add(out, text, done, match.to, true);
            done = match.to;
        }
        from = match.to > match.from ? match.to : text.bytes + 1; // \A and \z match nothing, once
    }
    if (status == MT_OK) status = add(out, text, done, text.bytes, false);
    return status == MT_OK ? mt_pattern_status(cutter->patterns[step]) : status;
}

/* Adds the words in capitals of what is taken for one sentence. */
static enum mt_status count_sentence(const struct cutter *cutter, struct mt_text sentence, size_t *count)
{
    struct mt_byte_list lists[2] = {{.ctx = cutter->ctx}, {.ctx = cutter->ctx}};
    struct mt_text text = mt_livebench_stripped(sentence);
    enum mt_status status = MT_OK;
    size_t words = 0;
    for (size_t i = 0; i < STEPS && status == MT_OK; i++) {
        struct mt_byte_list *out = &lists[i % 2];
        out->count = 0;
        status = put_spaces(cutter, i, text, out);
        text = mt_text_in(out);
    }
    // As str.isupper: something in capitals, and nothing else that has cases.
    if (status == MT_OK)
        status = mt_livebench_count(cutter->ctx,
                                    "(?<!\\S)(?=\\S*?\\p{Uppercase})[^\\s\\p{Lowercase}\\p{Lt}]++(?!\\S)",
                                    mt_text_of(""), "", text, &words);
    *count += words;
    mt_byte_list_free(&lists[0]);
    mt_byte_list_free(&lists[1]);
    return status;
}

enum mt_status mt_capital_words(struct mt_context *ctx, struct mt_text text, size_t *low, size_t *high)
{
    struct cutter cutter;
    struct mt_pattern_match match;
    size_t start = 0;
    *low = *high = 0;
    enum mt_status status = open_cutter(ctx, &cutter);
    if (status == MT_OK) status = count_sentence(&cutter, text, low);
    while (status == MT_OK && mt_pattern_find(cutter.ends, text.text, text.bytes, start, &match)) {
        const struct mt_text sentence = {.text = text.text + start, .bytes = match.to - start};
        status = count_sentence(&cutter, sentence, high);
        start = match.to;
    }
    if (status == MT_OK) status = mt_pattern_status(cutter.ends);
    if (status == MT_OK) status = count_sentence(&cutter, mt_text_from(text, start), high);
    close_cutter(&cutter);
    return status;
}
