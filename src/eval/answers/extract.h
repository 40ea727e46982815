/*
 * The answer out of what a model wrote: a list of ways, tried in order, the first that finds something wins.
 *
 *     regex         the last match (or the first) of a pattern: its first group that took part, or all of it
 *     letter        the letter of a choice, in the many ways to name one (statement.h)
 *     words         one of a few words (yes and no, True and False): the one given as the answer (likewise)
 *     number        the number given as the answer, as mathematics writes it (likewise)
 *     stated        the text given as the answer: a box, or what follows "the answer is" (likewise)
 *     math          the final answer of a solution in mathematics (likewise)
 *     last_number   the last number, with sign, thousands separators, a fraction's slash
 *     boxed         what the last \boxed{} holds
 *     first_line, last_line    that is not empty
 *     code_block    the program in the text (eval/code/code_block.h)
 *     last_block    what stands between the last two lines with ```, as LiveCodeBench finds a program
 *     whole         everything, without white space at the ends
 *     verbatim      everything as it is: how a program goes on
 *
 * Patterns are PCRE2's, with limits on work and memory: MT_ERR_LIMIT where a text needs more.
 */
#ifndef MT_EVAL_EXTRACT_H
#define MT_EVAL_EXTRACT_H

#include "eval/text.h"

enum mt_extract_kind {
    MT_EXTRACT_REGEX,
    MT_EXTRACT_LAST_NUMBER,
    MT_EXTRACT_BOXED,
    MT_EXTRACT_LETTER,
    MT_EXTRACT_WORDS,
    MT_EXTRACT_FIRST_LINE,
    MT_EXTRACT_LAST_LINE,
    MT_EXTRACT_CODE_BLOCK,
    MT_EXTRACT_WHOLE,
    MT_EXTRACT_VERBATIM,
    MT_EXTRACT_NUMBER,
    MT_EXTRACT_STATED,
    MT_EXTRACT_MATH,
    MT_EXTRACT_LAST_BLOCK,
    MT_EXTRACT_KINDS
};

struct mt_extract_step {
    enum mt_extract_kind kind;
    const char *pattern;      // of REGEX
    bool first;               // of REGEX: the first match, not the last
    const char *const *words; // of WORDS, NULL-terminated
};

struct mt_extractor; // opaque

/* Compiles the patterns. The steps' texts are borrowed. The caller frees. */
enum mt_status mt_extractor_create(struct mt_context *ctx, const struct mt_extract_step *steps, size_t count,
                                   struct mt_extractor **extractor);
void mt_extractor_free(struct mt_extractor *extractor); // NULL is allowed

/*
 * Replaces `out` by the answer; *found is false, and `out` empty, when no way found one. `choices` is how
 * many letters there are (0: 26; -1: none, and `letter` finds nothing).
 */
enum mt_status mt_extract(const struct mt_extractor *extractor, const char *text, size_t bytes, int choices,
                          struct mt_byte_list *out, bool *found);

/* The same; `wanted` is Python whose names a program should define, for code_block. */
enum mt_status mt_extract_wanted(const struct mt_extractor *extractor, const char *text, size_t bytes,
                                 int choices, struct mt_text wanted, struct mt_byte_list *out, bool *found);

/* "regex", "last_number", ...; MT_EXTRACT_KINDS for an unknown name. */
enum mt_extract_kind mt_extract_named(const char *name);

#endif
