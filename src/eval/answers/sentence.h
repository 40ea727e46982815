/* Sentences of prose, and how likely what stands in one is its point. */
#ifndef MT_EVAL_SENTENCE_H
#define MT_EVAL_SENTENCE_H

#include "eval/text.h"

/* True when a sentence ends with the byte at `at`; not behind the full stop of "i.e." */
bool mt_sentence_ends(struct mt_text text, size_t at);

/* Where the next sentence begins, behind `at`: behind a full stop, or at "so" and the like. */
size_t mt_sentence_next(struct mt_text text, size_t at);

/* True when the word before `at` is one of a list (NULL-terminated); spaces, # and full stops may stand
 * between. */
bool mt_sentence_follows(struct mt_text text, size_t at, const char *const *words);

/* What a thing is in its sentence, by what stands before it. */
enum mt_sentence_weight {
    MT_WEIGHS_CONTEXT, // "for the 45 hours", "of 6 nephews", "since x > 0"
    MT_WEIGHS_NAMED,   // just there
    MT_WEIGHS_COPULA,  // "is 8"
    MT_WEIGHS_MARKED,  // "for the **45** hours"
    MT_WEIGHS_TOTAL,   // "a total of 8", "= 8"
    MT_WEIGHS_BOLD,    // "**8**"
};

/* The weight of what begins at `start`, and in *before where the markup before it begins. */
enum mt_sentence_weight mt_sentence_weight(struct mt_text text, size_t start, size_t *before);

#endif
