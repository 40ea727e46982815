/*
 * The tensors of a checkpoint, wherever its files have them. A tensor lies in one file as a whole, under its
 * name, or in several as stretches of its numbers, "NAME[FIRST:END]", each of one dimension.
 */
#ifndef MT_TRAIN_STATE_PIECES_H
#define MT_TRAIN_STATE_PIECES_H

#include "formats/safetensors/safetensors.h"

struct mt_state_piece {
    const struct mt_safetensors_tensor *stored; // borrowed
    size_t name_length;                         // of its name without the range
    int64_t first, count;                       // numbers of the tensor
    bool whole;                                 // it has no range: its shape is the tensor's
};

struct mt_state_pieces {
    const char *path;            // borrowed: of the checkpoint, for messages
    struct mt_state_piece *list; // the arena's; by name, those of a name by their place
    size_t count;
};

/* Of files that outlive the list. */
enum mt_status mt_state_pieces_list(struct mt_arena *arena, const char *path,
                                    const struct mt_safetensors *files, size_t file_count,
                                    struct mt_state_pieces *pieces);

/* Those of one tensor, *count of them; NULL: there is none. */
const struct mt_state_piece *mt_state_pieces_find(const struct mt_state_pieces *pieces, const char *name,
                                                  size_t *count);

#endif
