/* Rows of a matrix in bitsandbytes' nf4, on their own. */
#ifndef MT_MODEL_SHRINK_NF4_H
#define MT_MODEL_SHRINK_NF4_H

#include "arch/published/published.h"
#include "base/arena.h"

#define MT_SHRUNK_NF4_TENSORS 4 // codes, scales, map, state

/*
 * The tensors of some rows of a published matrix, names included, in the arena: codes as they are, scales in
 * f32, which nested ones become (a block of them spans several rows), and a state that says so. Refused where
 * a block of codes spans two rows.
 */
enum mt_status mt_shrink_nf4(struct mt_context *ctx, const struct mt_published *published,
                             const int32_t *rows, int count, struct mt_arena *arena,
                             struct mt_safetensors_tensor tensors[MT_SHRUNK_NF4_TENSORS]);

#endif
