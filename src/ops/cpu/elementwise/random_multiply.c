/*
 * random_multiply on floats. Four neighbouring elements of jitter share one Philox block: few blocks are
 * drawn at a time and used at once, with the memory of later ones on its way, so that drawing and memory
 * overlap. Dropout's draws are fewer, and made for a whole piece.
 */
#include <math.h>

#include "ops/cpu/elementwise/mask_draw.h"
#include "ops/cpu/pieces.h"

#define LINE_FLOATS 16  // of a cache line
#define AHEAD       512 // elements between what is fetched and what is worked on

_Static_assert(CPU_PIECE_ELEMENTS <= MASK_STRETCH * MT_MASK_BITS, "a piece's mask words are drawn together");

/* What lies ahead of x and y comes on its way, for the next `count` elements. */
VECTOR_INLINE void fetch(const float *x, const float *y, int64_t count)
{
    for (int64_t j = 0; j < count; j += LINE_FLOATS) {
        __builtin_prefetch(x + AHEAD + j, 0);
        __builtin_prefetch(y + AHEAD + j, 1);
    }
}

/* y += product, which is rounded: not fused with the sum, as if it had gone through memory. */
VECTOR_INLINE void add_products(const float *product, float *y, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] += product[j];
}

// ------------------------------------------------------------------ dropout

/* The elements of one mask word. `count` is a constant for all but the last word of a row. */
VECTOR_INLINE void multiply_word(uint32_t word, float kept, const float *x, float *y, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] = x[j] * ((word & 1u << j) != 0 ? kept : 0.0f);
}

static void add_word(uint32_t word, float kept, const float *x, float *y, int64_t count)
{
    float product[MT_MASK_BITS] = {0};
    multiply_word(word, kept, x, product, count);
    __asm__("" : "+m"(product));
    add_products(product, y, count);
}

/* A piece that begins with mask word `first`. y may be x itself. */
static void drop(const struct mt_random_multiply_args *a, const struct mask_draw *draw, uint64_t first,
                 const float *x, float *y, int64_t count)
{
    uint32_t words[MASK_STRETCH];
    float kept = 1.0f / (1.0f - a->amount);
    draw_mask(draw, first, (int)mt_mask_words(count), words);
    for (int64_t done = 0; done < count; done += MT_MASK_BITS) {
        uint32_t word = words[done / MT_MASK_BITS];
        int64_t now = cpu_min(MT_MASK_BITS, count - done);
        fetch(x + done, y + done, MT_MASK_BITS);
        if (a->accumulate) {
            add_word(word, kept, x + done, y + done, now);
        } else if (now == MT_MASK_BITS) {
            multiply_word(word, kept, x + done, y + done, MT_MASK_BITS);
        } else {
            multiply_word(word, kept, x + done, y + done, now);
        }
    }
}

// ------------------------------------------------------------------ jitter

/* The elements of drawn words; fmaf, so that levels without a fused multiply-add round in the same way. */
VECTOR_INLINE void multiply_draws(float amount, const uint32_t *drawn, const float *x, float *y,
                                  int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] = x[j] * fmaf(amount, 2.0f * mt_rng_unit(drawn[j]) - 1.0f, 1.0f);
}

static void add_draws(float amount, const uint32_t *drawn, const float *x, float *y, int64_t count)
{
    float product[PHILOX_WORDS] = {0};
    multiply_draws(amount, drawn, x, product, count);
    __asm__("" : "+m"(product));
    add_products(product, y, count);
}

/* A piece of elements numbered from `first` on, which may begin and end inside a block. y may be x itself. */
static void jitter(const struct mt_random_multiply_args *a, uint64_t first, const float *x, float *y,
                   int64_t count)
{
    uint32_t drawn[PHILOX_WORDS];
    int64_t skip = (int64_t)(first % 4); // words of the first block that belong to earlier elements
    uint64_t block = first / 4;
    struct philox_keys keys = philox_keys_of(a->seed, a->stream, block);
    for (int64_t done = 0; done < count; block += PHILOX_BLOCKS) {
        int64_t now = cpu_min(PHILOX_WORDS - skip, count - done);
        draw_words(&keys, block, drawn);
        fetch(x + done, y + done, PHILOX_WORDS);
        if (a->accumulate) {
            add_draws(a->amount, drawn + skip, x + done, y + done, now);
        } else if (now == PHILOX_WORDS) {
            multiply_draws(a->amount, drawn, x + done, y + done, PHILOX_WORDS);
        } else {
            multiply_draws(a->amount, drawn + skip, x + done, y + done, now);
        }
        done += now;
        skip = 0;
    }
}

void MT_CPU(random_multiply)(struct mt_device *device, const struct mt_random_multiply_args *a)
{
    bool dropout = a->kind == MT_RANDOM_DROPOUT;
    struct mask_draw draw = mask_draw_of(a->amount, a->seed, a->stream);
    bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
    if (dropout && a->x.dim[1] % MT_MASK_BITS != 0) flat = false; // a row begins with a word of its own
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, flat);
    int64_t row_words = mt_mask_words(pieces.width);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        const float *x = cpu_piece_f32(&pieces, &a->x, piece);
        float *y = cpu_piece_f32(&pieces, &a->y, piece);
        if (dropout) {
            uint64_t word = (uint64_t)(piece.row * row_words + piece.start / MT_MASK_BITS);
            drop(a, &draw, word, x, y, piece.count);
        } else {
            jitter(a, (uint64_t)(piece.row * pieces.width + piece.start), x, y, piece.count);
        }
    }
}
