/*
 * Texts as Python handles them, for LiveBench's own judges, which are Python: what they do to an answer is
 * done here step by step, and where they raise an exception, which scores 0, *raised is set. Texts are valid
 * UTF-8; new ones live in the arena. The first failure stays in `status`, and texts are empty from then on.
 */
#ifndef MT_EVAL_LIVEBENCH_PYTHON_H
#define MT_EVAL_LIVEBENCH_PYTHON_H

#include "base/arena.h"
#include "eval/livebench/text.h"

struct mt_python {
    struct mt_arena arena;
    enum mt_status status;
    bool raised;
};

/* Begins and ends; what was made is gone then. The status is the first failure. */
void mt_python_open(struct mt_python *python, struct mt_context *ctx);
enum mt_status mt_python_close(struct mt_python *python);

/* Without <think> ... </think>, as LiveBench has it before every judge. */
struct mt_text mt_python_without_thoughts(struct mt_python *python, struct mt_text text);

/* str.lower and str.replace. */
struct mt_text mt_python_lower(struct mt_python *python, struct mt_text text);
struct mt_text mt_python_replace(struct mt_python *python, struct mt_text text, const char *what,
                                 const char *by);

/* The same with nothing, for each of a NULL-terminated list, one after the other. */
struct mt_text mt_python_without(struct mt_python *python, struct mt_text text, const char *const *what);

/* re.sub(r'[^\w]', ''). */
struct mt_text mt_python_words_only(struct mt_python *python, struct mt_text text);

/* True for a character of \w. */
bool mt_python_is_word(uint32_t character);

/* `what in text`, and str.count. */
bool mt_python_in(struct mt_text what, struct mt_text text);
size_t mt_python_count(struct mt_text text, const char *what);

/* The pieces of str.split(separator), one a call: *rest begins as the text. False: there are no more. */
struct mt_split {
    struct mt_text rest;
    bool over;
};
bool mt_python_split(struct mt_split *split, const char *separator, struct mt_text *piece);

/* text.strip().split('\n')[-1]. */
struct mt_text mt_python_last_line(struct mt_text text);

/* text[-characters:]. */
struct mt_text mt_python_tail(struct mt_text text, size_t characters);

size_t mt_python_length(struct mt_text text); // in characters

/*
 * The next match of re.findall(before + '(.*?)' + behind) at or behind *at, which moves on: within a line.
 * False: there is none.
 */
bool mt_python_next_between(struct mt_text text, size_t *at, const char *before, const char *behind,
                            struct mt_text *inner);

/*
 * LiveBench's remove_boxed(last_boxed_only_string(text)). False: there is no box, or (then `raised` is set)
 * it is one that remove_boxed does not take.
 */
bool mt_python_boxed(struct mt_python *python, struct mt_text text, struct mt_text *inner);

/* str.isdigit of a character; *value is its digit, or -1 where int() knows none. */
bool mt_python_is_digit(uint32_t character, int *value);

/* int(text), within 18 digits. *other is set where there are more. False: it raises ValueError. */
bool mt_python_int(struct mt_text text, int64_t *value, bool *other);

#endif
