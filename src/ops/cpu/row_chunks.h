/*
 * Rows sorted by expert taken some at a time, so that what is made of them for a moment stays in the cache.
 * How many depends on the sizes alone.
 */
#ifndef MT_OPS_CPU_ROW_CHUNKS_H
#define MT_OPS_CPU_ROW_CHUNKS_H

#include "ops/cpu/level.h"

#define CHUNK_BYTES                                                                                          \
    ((int64_t)2 << 20)      // of rows in scratch: half a core's second-level cache, where that is large
#define CHUNK_LEAST_ROWS 64 // a product of fewer wastes the packing of its weights

/* Rows taken at a time of so many columns of f32; never more than there are. */
static inline int64_t chunk_rows(int64_t rows, int64_t columns)
{
    int64_t fitting = CHUNK_BYTES / ((columns > 0 ? columns : 1) * (int64_t)sizeof(float));
    if (fitting < CHUNK_LEAST_ROWS) fitting = CHUNK_LEAST_ROWS;
    return cpu_min(rows, fitting);
}

/* Rows that belong to somebody: all where there are no offsets. */
static inline int64_t chunk_all_rows(const struct mt_tensor *offsets, int experts, int64_t rows)
{
    return mt_tensor_present(offsets) ? ((const int32_t *)offsets->data)[experts] : rows;
}

/* The offsets of rows [row, row + count) of `rows`, as if they were all there is, in own [experts + 1]. */
static inline struct mt_tensor chunk_offsets(const struct mt_tensor *offsets, int experts, int64_t rows,
                                             int64_t row, int64_t count, int32_t *own)
{
    const int32_t *all = offsets->data;
    own[0] = 0;
    for (int e = 1; e <= experts; e++) {
        int64_t end = mt_tensor_present(offsets) ? all[e] : rows;
        int64_t within = end < row ? 0 : cpu_min(end - row, count);
        own[e] = (int32_t)within;
    }
    return mt_tensor_1d(own, MT_I32, experts + 1);
}

/* Bytes of scratch, so that what follows is aligned. */
static inline size_t chunk_bytes(int64_t count, size_t size)
{
    return ((size_t)count * size + 63) / 64 * 64;
}

#endif
