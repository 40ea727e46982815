/* Steps that make two spellings of an answer one, applied to the model's answer and to the right one alike.
 */
#ifndef MT_EVAL_NORMALIZE_H
#define MT_EVAL_NORMALIZE_H

#include "eval/text.h"

enum mt_normalize_step {
    MT_NORMALIZE_TRIM,        // white space at the ends
    MT_NORMALIZE_LOWER,       // ASCII letters
    MT_NORMALIZE_SPACES,      // runs of white space become one space
    MT_NORMALIZE_PUNCTUATION, // . , ; : ! ? and quotes at the ends go
    MT_NORMALIZE_BRACKETS,    // one pair of () [] {} around everything goes
    MT_NORMALIZE_ARTICLES,    // a, an, the
    MT_NORMALIZE_NO_SPACES,   // no white space at all
    MT_NORMALIZE_NO_COMMAS,   // no commas
    MT_NORMALIZE_MARKUP,      // * and ` and $ and \ go
    MT_NORMALIZE_ITEMS,       // a list, however it is set, as words with a space between
    MT_NORMALIZE_STEPS
};

/* "trim", "lower", ...; MT_NORMALIZE_STEPS for an unknown name. */
enum mt_normalize_step mt_normalize_named(const char *name);

/* Applies the steps, one after the other, to the text in place: it only shrinks. */
void mt_normalize_text(struct mt_byte_list *text, const enum mt_normalize_step *steps, size_t count);

#endif
