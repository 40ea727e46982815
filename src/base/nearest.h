/* Which known word somebody meant by an unknown one. */
#ifndef MT_BASE_NEAREST_H
#define MT_BASE_NEAREST_H

#include <stdbool.h>

/*
 * True when fewer edits (insert, delete, replace a character) lie between the two words than *distance, which
 * then becomes their number. Start with how far is still worth suggesting.
 */
bool mt_nearer(const char *word, const char *candidate, int *distance);

/* Edits that are worth a suggestion: half of a short word, `most` of a long one. */
int mt_near_enough(const char *word, int most);

/* True when the word is one of the words between bars, whatever its case, with - and _ alike. */
bool mt_is_among(const char *words, const char *word);

#endif
