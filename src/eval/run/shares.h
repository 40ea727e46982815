/*
 * Work of known sizes cut into shares of nearly the same size: the largest piece first, each to the share
 * that has least. Depends on the sizes alone.
 */
#ifndef MT_EVAL_SHARES_H
#define MT_EVAL_SHARES_H

#include <stdint.h>

#include "metier/context.h"

/* owner[i] becomes the share, 0 ... shares-1, of piece i; pieces of size 0 are nobody's (-1). */
enum mt_status mt_shares_make(struct mt_context *ctx, const uint64_t *sizes, size_t count, int shares,
                              int32_t *owner);

#endif
