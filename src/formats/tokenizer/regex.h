/*
 * Regular expressions of tokenizers: written for Oniguruma or Rust, run by PCRE2 with its JIT. Compiling
 * translates what the dialects mean differently (tokenizer/regex_translate.c); matching walks all matches of
 * a text as the `tokenizers` library does. A pattern is compiled once and may be used by several threads,
 * each with its own matcher.
 */
#ifndef MT_FORMATS_TOKENIZER_REGEX_H
#define MT_FORMATS_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/text/lists.h"

struct mt_regex;
struct mt_regex_matcher;

/* Appends the PCRE2 form of an Oniguruma or Rust pattern. */
enum mt_status mt_regex_translate(struct mt_context *ctx, const char *pattern, struct mt_byte_list *out);

/*
 * Compiles a pattern, or a text to be found as it stands. The caller frees. A pattern that cannot be
 * expressed is refused with a sentence.
 */
enum mt_status mt_regex_compile(struct mt_context *ctx, const char *pattern, bool literal,
                                struct mt_regex **regex);

/* NULL is allowed. */
void mt_regex_free(struct mt_regex *regex);

/* What one thread needs for matching; belongs to `ctx`. The caller frees. */
enum mt_status mt_regex_matcher_create(struct mt_context *ctx, struct mt_regex_matcher **matcher);

/* NULL is allowed. */
void mt_regex_matcher_free(struct mt_regex_matcher *matcher);

/*
 * Starts counting the work of all matching on a text of `bytes` bytes. Where it is more than allowed, which
 * is tens of times what real patterns need, mt_regex_next fails; so a pattern that is quadratic in the text
 * ends with a message.
 */
void mt_regex_matcher_begin(struct mt_regex_matcher *matcher, size_t bytes);

/* A walk over the matches in a text; zeroed to begin. */
struct mt_regex_walk {
    size_t from;     // where the next search begins
    size_t last_end; // end of the last match
    bool matched;    // there was one
    size_t start;    // the match found
    size_t end;
};

/*
 * Finds the next match in valid UTF-8; *found is false when there is none left. An empty match directly
 * behind the last one does not count. Fails when the pattern needs more work on this text than allowed.
 */
enum mt_status mt_regex_next(struct mt_regex_matcher *matcher, const struct mt_regex *regex,
                             const uint8_t *text, size_t bytes, struct mt_regex_walk *walk, bool *found);

#endif
