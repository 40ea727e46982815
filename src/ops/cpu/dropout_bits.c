/*
 * dropout_bits: a stretch of a row's columns at a time, its random halves drawn side by side, then 32 of them
 * compared and gathered into a word. A row that begins inside a Philox block draws that block from its start.
 */
#include "ops/cpu/level.h"
#include "ops/cpu/philox.h"
#include "ops/dropout.h"

#define STRETCH 256                 // columns drawn together
#define HALVES  (8 * PHILOX_BLOCKS) // what draw_words gives

_Static_assert(STRETCH % HALVES == 0, "a stretch that begins with a block is whole draws");

/* The halves of elements [first, first + count), count at most STRETCH; returns where they begin. */
static const uint16_t *draw_halves(const struct mt_dropout_bits_args *a, uint64_t first, int64_t count,
                                   uint16_t *halves)
{
    int64_t skip = (int64_t)(first % 8); // halves of the first block that belong to earlier elements
    uint64_t block = first / 8;
    for (int64_t done = 0; done < skip + count; done += HALVES, block += PHILOX_BLOCKS) {
        uint32_t words[PHILOX_WORDS];
        draw_words(a->seed, a->stream, block, words);
        memcpy(halves + done, words, sizeof words); // the low half first, as memory has it
    }
    return halves + skip;
}

/* One bit for each of 32 halves. */
VECTOR_INLINE uint32_t word_of(const uint16_t *halves, uint32_t threshold)
{
    uint32_t word = 0;
#pragma omp simd reduction(| : word)
    for (int j = 0; j < MT_MASK_BITS; j++) word |= (uint32_t)halves[j] >= threshold ? 1u << j : 0u;
    return word;
}

static void draw_row(const struct mt_dropout_bits_args *a, uint32_t threshold, int64_t row)
{
    uint32_t *words = (uint32_t *)a->bits.data + row * a->bits.stride[0];
    uint16_t halves[STRETCH + HALVES + MT_MASK_BITS] = {0};
    for (int64_t column = 0; column < a->columns; column += STRETCH) {
        int64_t count = cpu_min(STRETCH, a->columns - column);
        const uint16_t *own = draw_halves(a, (uint64_t)(row * a->columns + column), count, halves);
        for (int64_t j = 0; j < count; j += MT_MASK_BITS) {
            uint32_t word = word_of(own + j, threshold);
            if (count - j < MT_MASK_BITS) word &= (1u << (count - j)) - 1u;
            words[(column + j) / MT_MASK_BITS] = word;
        }
    }
}

enum mt_status MT_CPU(dropout_bits)(struct mt_device *device, const void *args)
{
    const struct mt_dropout_bits_args *a = args;
    uint32_t threshold = mt_dropout_threshold(a->amount);
    int64_t rows = a->bits.dim[0];
#pragma omp parallel for num_threads(cpu_threads(device, rows * a->columns)) schedule(static)
    for (int64_t row = 0; row < rows; row++) draw_row(a, threshold, row);
    return MT_OK;
}
