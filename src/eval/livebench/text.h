/* What LiveBench's rules look for in an answer. Texts are valid UTF-8. */
#ifndef MT_EVAL_LIVEBENCH_TEXT_H
#define MT_EVAL_LIVEBENCH_TEXT_H

#include "eval/text.h"

/* Without white space (Unicode's) at the ends. */
struct mt_text mt_livebench_stripped(struct mt_text text);

/* What stands between two marks, the last time both do; false: they never do. */
bool mt_livebench_last_between(struct mt_text text, const char *before, const char *behind,
                               struct mt_text *inner);

/* What stands between <solution> and </solution>, else all of it. */
struct mt_text mt_livebench_solution(struct mt_text text);

/* How often a pattern occurs, each match behind the one before: `before`, a literal text, `behind`. */
enum mt_status mt_livebench_count(struct mt_context *ctx, const char *before, struct mt_text literal,
                                  const char *behind, struct mt_text text, size_t *count);

struct mt_pattern;

/*
 * The piece of the text from *from to the next match, and *from moved behind that match; *more is false with
 * the last piece. A match of nothing separates nothing.
 */
struct mt_text mt_livebench_next_piece(struct mt_pattern *separator, struct mt_text text, size_t *from,
                                       bool *more);

/*
 * Sentences: each ends with . ? ! and what closes quotes and brackets, before white space. A dot behind a
 * usual abbreviation or a single letter ends none; several dots end one where a capital follows.
 */
size_t mt_livebench_sentences(struct mt_text text);

/* True when the text is JSON as Python's json.loads takes it: any value, keys twice, NaN and Infinity. */
bool mt_livebench_is_json(struct mt_text text);

#endif
