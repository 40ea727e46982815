/*
 * dispatch_plan: counting sort in a fixed number of token blocks. Each block counts its experts; the
 * counts, read expert by expert and block by block, become each block's first row per expert; each block
 * then places its own pairs. The order is that of (token, slot) whatever the number of threads.
 */
#include <string.h>

#include "ops/cpu/level.h"

#define BLOCKS 32

size_t MT_CPU(dispatch_plan_scratch)(const struct mt_device *device, const struct mt_dispatch_plan_args *a)
{
    (void)device;
    return BLOCKS * (size_t)(a->offsets.dim[0] - 1) * sizeof(int32_t);
}

/* The tokens of a block. */
struct range {
    int64_t start;
    int64_t stop;
};

static struct range block_range(int64_t block, int64_t tokens)
{
    int64_t size = (tokens + BLOCKS - 1) / BLOCKS;
    return (struct range){cpu_min(tokens, block * size), cpu_min(tokens, (block + 1) * size)};
}

static void count_block(const struct mt_dispatch_plan_args *a, int64_t block, int32_t *counts)
{
    struct range range = block_range(block, a->expert.dim[0]);
    memset(counts, 0, (size_t)(a->offsets.dim[0] - 1) * sizeof *counts);
    for (int64_t i = range.start; i < range.stop; i++) {
        const int32_t *expert = (const int32_t *)a->expert.data + i * a->expert.stride[0];
        for (int64_t s = 0; s < a->expert.dim[1]; s++) {
            if (expert[s] >= 0) counts[expert[s]]++;
        }
    }
}

/* Places a block's pairs; next[e] is the row of its next pair for expert e. */
static void place_block(const struct mt_dispatch_plan_args *a, int64_t block, int32_t *next)
{
    struct range range = block_range(block, a->expert.dim[0]);
    int64_t slots = a->expert.dim[1];
    int32_t *slot_of_row = a->slot_of_row.data;
    for (int64_t i = range.start; i < range.stop; i++) {
        const int32_t *expert = (const int32_t *)a->expert.data + i * a->expert.stride[0];
        int32_t *row_of_slot = (int32_t *)a->row_of_slot.data + i * a->row_of_slot.stride[0];
        for (int64_t s = 0; s < slots; s++) {
            if (expert[s] < 0) {
                row_of_slot[s] = -1;
                continue;
            }
            int32_t row = next[expert[s]]++;
            row_of_slot[s] = row;
            slot_of_row[row] = (int32_t)(i * slots + s);
        }
    }
}

void MT_CPU(dispatch_plan)(struct mt_device *device, const struct mt_dispatch_plan_args *a)
{
    int64_t experts = a->offsets.dim[0] - 1;
    int64_t pairs = a->expert.dim[0] * a->expert.dim[1];
    int32_t *counts = device->scratch.data; // [BLOCKS, n]
    int32_t *offsets = a->offsets.data;
    int threads = cpu_threads(device, pairs);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < BLOCKS; block++) count_block(a, block, counts + block * experts);

    int32_t row = 0;
    for (int64_t e = 0; e < experts; e++) {
        offsets[e] = row;
        for (int64_t block = 0; block < BLOCKS; block++) {
            int32_t count = counts[block * experts + e];
            counts[block * experts + e] = row;
            row += count;
        }
    }
    offsets[experts] = row;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < BLOCKS; block++) place_block(a, block, counts + block * experts);

    int32_t *slot_of_row = a->slot_of_row.data;
    for (int64_t r = row; r < pairs; r++) slot_of_row[r] = -1;
}
