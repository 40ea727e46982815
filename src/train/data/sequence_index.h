/*
 * Sequences of token ids that lie end to end, found by their content: a hash of the ids, then the ids
 * themselves. Of equal sequences the first is found.
 */
#ifndef MT_TRAIN_SEQUENCE_INDEX_H
#define MT_TRAIN_SEQUENCE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metier/context.h"

struct mt_sequence_index {
    struct mt_context *ctx; // borrowed
    // Borrowed, of any alignment, and the owner's to move between calls: sequence s holds ids
    // offsets[s] … offsets[s+1]-1, at least one.
    const void *ids;     // i32
    const void *offsets; // i64
    size_t count;        // of the sequences that were added
    uint64_t *place;     // [places]: one more than a sequence's number; 0: free
    size_t places;       // 0, or a power of two and at least twice the count
};

/* Room for so many sequences in all. A zeroed index with a context is an empty one; the owner frees. */
enum mt_status mt_sequence_index_reserve(struct mt_sequence_index *index, size_t count);
void mt_sequence_index_free(struct mt_sequence_index *index); // zeroed is allowed

/* The next sequence, index->count so far, counts from now on. There is room for it. */
void mt_sequence_index_add(struct mt_sequence_index *index);

/* False: there is no such sequence. */
bool mt_sequence_index_find(const struct mt_sequence_index *index, const int32_t *ids, int64_t length,
                            size_t *number);

/* offsets[s]. */
int64_t mt_sequence_start(const struct mt_sequence_index *index, size_t number);

#endif
