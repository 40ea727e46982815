/*
 * random_multiply on floats. Eight neighbouring elements of dropout, four of jitter, share one Philox block.
 * Few blocks are drawn at a time and used at once, with the memory of later ones on its way: drawing and
 * memory overlap.
 */
#include <math.h>

#include "ops/cpu/philox.h"
#include "ops/cpu/pieces.h"
#include "ops/dropout.h"

#define LINE_FLOATS 16  // of a cache line
#define AHEAD       512 // elements between what is fetched and what is worked on

/* A call's own constants. */
struct multiplier {
    bool dropout;
    uint32_t threshold; // dropout: numbers under it give 0
    float kept;         // dropout: what the others give
    float amount;       // jitter
};

/* Blocks drawn together, as words for jitter and as halves for dropout: low half first, as memory has it. */
union draws {
    uint32_t word[PHILOX_WORDS];
    uint16_t half[2 * PHILOX_WORDS];
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of a word comes first");

static struct multiplier multiplier_of(const struct mt_random_multiply_args *a)
{
    return (struct multiplier){
        .dropout = a->kind == MT_RANDOM_DROPOUT,
        .threshold = mt_dropout_threshold(a->amount),
        .kept = 1.0f / (1.0f - a->amount),
        .amount = a->amount,
    };
}

/* y may be x itself. `count` is a constant for all but the ends of a stretch. */
VECTOR_INLINE void multiply_draws(struct multiplier m, const union draws *draws, int64_t skip, const float *x,
                                  float *y, int64_t count)
{
    if (m.dropout) {
#pragma omp simd
        for (int64_t j = 0; j < count; j++)
            y[j] = x[j] * ((uint32_t)draws->half[skip + j] < m.threshold ? 0.0f : m.kept);
    } else {
        // fmaf, so that levels without a fused multiply-add round the multiplier in the same way.
#pragma omp simd
        for (int64_t j = 0; j < count; j++) {
            y[j] = x[j] * fmaf(m.amount, 2.0f * mt_rng_unit(draws->word[skip + j]) - 1.0f, 1.0f);
        }
    }
}

/* The same, added to y. */
static void add_draws(struct multiplier m, const union draws *draws, int64_t skip, const float *x, float *y,
                      int64_t count)
{
    float product[2 * PHILOX_WORDS] = {0};
    multiply_draws(m, draws, skip, x, product, count);
    __asm__("" : "+m"(product)); // rounded: not fused with the sum, as if it had gone through memory
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] += product[j];
}

/* A stretch of elements numbered from `first` on, which may begin and end inside a block. */
VECTOR_INLINE void multiply_stretch(const struct mt_random_multiply_args *a, struct multiplier m,
                                    int64_t per_block, uint64_t first, const float *x, float *y,
                                    int64_t count)
{
    const int64_t drawn = per_block * PHILOX_BLOCKS; // elements
    union draws draws;
    int64_t skip =
        (int64_t)(first % (uint64_t)per_block); // of the first block, which belong to earlier elements
    uint64_t block = first / (uint64_t)per_block;
    int64_t done = 0;
    while (done < count) {
        int64_t now = cpu_min(drawn - skip, count - done);
        draw_words(a->seed, a->stream, block, draws.word);
        for (int64_t j = 0; j < drawn; j += LINE_FLOATS) {
            __builtin_prefetch(x + done + AHEAD + j, 0);
            __builtin_prefetch(y + done + AHEAD + j, 1);
        }
        if (a->accumulate) {
            add_draws(m, &draws, skip, x + done, y + done, now);
        } else if (now == drawn) {
            multiply_draws(m, &draws, 0, x + done, y + done, drawn);
        } else {
            multiply_draws(m, &draws, skip, x + done, y + done, now);
        }
        done += now;
        block += PHILOX_BLOCKS;
        skip = 0;
    }
}

static void multiply(const struct mt_random_multiply_args *a, struct multiplier m, uint64_t first,
                     const float *x, float *y, int64_t count)
{
    if (m.dropout) {
        multiply_stretch(a, m, 8, first, x, y, count);
    } else {
        multiply_stretch(a, m, 4, first, x, y, count);
    }
}

enum mt_status MT_CPU(random_multiply)(struct mt_device *device, const void *args)
{
    const struct mt_random_multiply_args *a = args;
    if (!cpu_is_f32(&a->x) || !cpu_is_f32(&a->y)) return mt_ref_random_multiply(device, args);
    struct multiplier m = multiplier_of(a);
    bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, flat);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        uint64_t first = (uint64_t)(piece.row * pieces.width + piece.start);
        multiply(a, m, first, cpu_piece_f32(&pieces, &a->x, piece), cpu_piece_f32(&pieces, &a->y, piece),
                 piece.count);
    }
    return MT_OK;
}
