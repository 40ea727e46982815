/*
 * Choices of experts that come with the data (R3, 2510.11370): a safetensors file with the ids of sequences
 * and, for each of their tokens, the experts that every MoE layer is to take. docs/formats.md describes it.
 *
 *     ids      I32 [N]                     of all sequences, end to end
 *     offsets  I64 [S+1]                   where each begins, and the end
 *     experts  U8, I16, I32 or I64 [N,L,k] the experts of a token, each once; -1 in all k: the router chooses
 *
 * A sequence of a batch is found by its ids, so that shuffling, packing and ranks need nothing.
 */
#ifndef MT_TRAIN_CHOICES_H
#define MT_TRAIN_CHOICES_H

#include "formats/safetensors/safetensors.h"
#include "model/model.h"

/*
 * Sequences of token ids that lie end to end, found by their content: a table of places, open addressing, no
 * more than half full. Of equal sequences the first is found.
 */
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

/* What the choices are for. */
struct mt_choice_shape {
    int layers;  // MoE layers
    int slots;   // k
    int experts; // n
};

struct mt_choices {
    struct mt_context *ctx;     // borrowed; NULL: none are open
    struct mt_safetensors file; // everything but the two below lies in it
    struct mt_choice_shape shape;
    const struct mt_safetensors_tensor *experts;
    struct mt_sequence_index index;
    int32_t *batch;       // [layers,room,k]: of the batch at hand
    int64_t room, tokens; // of a batch at the most; of all sequences
};

/*
 * Opens a file and looks at every number in it. room: tokens of a batch at the most, 1 or more. The caller
 * closes; after a failure there is nothing to close.
 */
enum mt_status mt_choices_open(struct mt_context *ctx, const char *path, const struct mt_choice_shape *shape,
                               int64_t room, struct mt_choices *choices);

/* The same over bytes somebody else owns, which must outlive it; `path` only names them. */
enum mt_status mt_choices_open_memory(struct mt_context *ctx, const char *path, const void *data,
                                      size_t bytes, const struct mt_choice_shape *shape, int64_t room,
                                      struct mt_choices *choices);
void mt_choices_close(struct mt_choices *choices); // zeroed is allowed

/*
 * Sets batch->chosen, which lasts until the next call. A sequence that the file does not have is refused.
 * Allocates nothing.
 */
enum mt_status mt_choices_take(struct mt_choices *choices, struct mt_batch *batch);

#endif
