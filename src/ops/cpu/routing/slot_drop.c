/*
 * slot_drop: chance decides token by token, on all threads, its random words drawn many at a time; capacity
 * then serves the slots in their order, on one. Shares are formed in double exactly as ref does, so that
 * both drop the same slots.
 */
#include <string.h>

#include "ops/cpu/elementwise/philox.h"
#include "ops/cpu/level.h"
#include "ops/ref/tokens.h"

#define BLOCK_TOKENS 512

size_t MT_CPU(slot_drop_scratch)(const struct mt_device *device, const struct mt_slot_drop_args *a)
{
    (void)device;
    return (size_t)a->experts * sizeof(int64_t);
}

/* The random words of neighbouring elements, drawn when the first of them is asked for. */
struct word_window {
    uint64_t first; // element of words[0]
    uint32_t words[PHILOX_WORDS];
};

static void draw_window(const struct mt_slot_drop_args *a, uint64_t element, struct word_window *window)
{
    window->first = element - element % 4;
    struct philox_keys keys = philox_keys_of(a->seed, a->stream, element / 4);
    draw_words(&keys, element / 4, window->words);
}

/* Elements are asked for in rising order. */
static uint32_t word_of(const struct mt_slot_drop_args *a, uint64_t element, struct word_window *window)
{
    if (element - window->first >= PHILOX_WORDS) draw_window(a, element, window);
    return window->words[element - window->first];
}

/* Drops by chance the slots of kept (one token's, slot 0 excepted). */
static void drop_by_chance(const struct mt_slot_drop_args *a, int64_t i, int32_t *kept,
                           struct word_window *window)
{
    int64_t slots = a->expert.dim[1];
    const float *weight = cpu_row(&a->weight, i);
    double total = 0.0;
    for (int64_t s = 0; s < slots; s++) total += (double)weight[s];
    for (int64_t s = 1; s < slots; s++) {
        double share = (double)weight[s] / total;
        float u = mt_rng_unit(word_of(a, (uint64_t)(i * slots + s), window));
        int32_t lost = share <= (double)a->threshold * (double)u;
        kept[s] |= -lost; // -1 is all ones; a branch would be guessed wrong too often
    }
}

static void draw_block(const struct mt_slot_drop_args *a, int64_t start, int64_t stop)
{
    int64_t slots = a->expert.dim[1];
    bool by_chance = a->threshold > 0.0f && slots > 1;
    struct word_window window = {0};
    if (by_chance) draw_window(a, (uint64_t)(start * slots), &window);
    for (int64_t i = start; i < stop; i++) {
        const int32_t *expert = (const int32_t *)a->expert.data + i * a->expert.stride[0];
        int32_t *kept = (int32_t *)a->kept.data + i * a->kept.stride[0];
        bool counts = token_counts(&a->mask, i);
        for (int64_t s = 0; s < slots; s++) kept[s] = counts ? expert[s] : -1;
        if (counts && by_chance) drop_by_chance(a, i, kept, &window);
    }
}

/* served [n]: slots an expert has taken. */
static void drop_by_capacity(const struct mt_slot_drop_args *a, int64_t *served)
{
    memset(served, 0, (size_t)a->experts * sizeof *served);
    int32_t *kept = a->kept.data;
    for (int64_t s = 0; s < a->kept.dim[1]; s++) {
        for (int64_t i = 0; i < a->kept.dim[0]; i++) {
            int64_t at = i * a->kept.stride[0] + s;
            int32_t e = kept[at];
            if (e < 0) continue;
            if (served[e] == a->capacity) {
                kept[at] = -1;
            } else {
                served[e]++;
            }
        }
    }
}

void MT_CPU(slot_drop)(struct mt_device *device, const struct mt_slot_drop_args *a)
{
    int64_t tokens = a->expert.dim[0];
    int64_t blocks = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->expert))) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        draw_block(a, block * BLOCK_TOKENS, cpu_min(tokens, (block + 1) * BLOCK_TOKENS));
    }
    if (a->capacity > 0) drop_by_capacity(a, device->scratch.data);
}
