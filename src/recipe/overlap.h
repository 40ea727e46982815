/*
 * Test questions, and what of them is in a training row. A run is N words one after the other, within one
 * field, of which at least half have a letter: 1, 2, 3 and so on is in many texts. A row overlaps with a
 * question where its question or its answer shares a run with it; and with a question that has no run where
 * its own question has the same words and no others. Words are those of words.h.
 *
 * Runs are found by a hash, and then compared: what is reported is in both texts.
 */
#ifndef MT_RECIPE_OVERLAP_H
#define MT_RECIPE_OVERLAP_H

#include "recipe/words.h"

struct mt_overlap; // opaque

/* The caller frees. `words` is N, at least 1. */
enum mt_status mt_overlap_create(struct mt_context *ctx, size_t words, struct mt_overlap **overlap);
void mt_overlap_free(struct mt_overlap *overlap); // NULL is allowed

/* Adds a question of group `group` (from 0 on); `id` names it in reports, and is copied. */
enum mt_status mt_overlap_add(struct mt_overlap *overlap, size_t group, const char *id,
                              struct mt_text question);

/* Where a row overlaps with a group: the first place. */
struct mt_overlap_hit {
    bool found;
    bool whole;           // the question has the same words
    const char *id;       // of the test question
    struct mt_text words; // the ones in common; both live as long as nothing is added
};

/*
 * Fills in a hit for every group, of which there are `groups`; *any is true where one was found. The first
 * text is the row's question, the second its answer.
 */
enum mt_status mt_overlap_find(struct mt_overlap *overlap, struct mt_text question, struct mt_text answer,
                               struct mt_overlap_hit *hits, size_t groups, bool *any);

#endif
