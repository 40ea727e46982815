/*
 * random_multiply on floats. Four neighbouring elements share one Philox block; many blocks are computed
 * side by side, one per SIMD lane, which gives the same words as one at a time.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/cpu/pieces.h"

#define LANES 64          // Philox blocks computed together
#define WORDS (4 * LANES) // random words they give

// With 64-bit products in one instruction the words stay in 64-bit lanes, upper halves ignored, and are
// packed once at the end; without, 32-bit lanes are faster.
#if defined(__AVX512DQ__)
typedef uint64_t lane_word;
#else
typedef uint32_t lane_word;
#endif

/* Words of elements 4·first … 4·first + WORDS - 1: mt_rng_words of LANES blocks. */
static void draw_words(uint64_t seed, uint64_t stream, uint64_t first, uint32_t *restrict words)
{
#pragma omp simd
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t block = first + (uint64_t)lane;
        lane_word word0 = (uint32_t)block;
        lane_word word1 = (uint32_t)(block >> 32);
        lane_word word2 = (uint32_t)stream;
        lane_word word3 = (uint32_t)(stream >> 32);
        uint32_t key0 = (uint32_t)seed;
        uint32_t key1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; round++) {
            uint64_t low = (uint64_t)0xD2511F53u * (uint32_t)word0;
            uint64_t high = (uint64_t)0xCD9E8D57u * (uint32_t)word2;
            word0 = (lane_word)(high >> 32) ^ word1 ^ key0;
            word1 = (lane_word)high;
            word2 = (lane_word)(low >> 32) ^ word3 ^ key1;
            word3 = (lane_word)low;
            key0 += 0x9E3779B9u;
            key1 += 0xBB67AE85u;
        }
        words[4 * lane] = (uint32_t)word0;
        words[4 * lane + 1] = (uint32_t)word1;
        words[4 * lane + 2] = (uint32_t)word2;
        words[4 * lane + 3] = (uint32_t)word3;
    }
}

/* y may be x itself. */
static void dropout(const float *x, const uint32_t *words, float amount, float *y, int64_t count)
{
    float kept = 1.0f / (1.0f - amount);
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] = x[j] * (mt_rng_unit(words[j]) < amount ? 0.0f : kept);
}

/* fmaf, so that levels without a fused multiply-add round the multiplier in the same way. */
static void jitter(const float *x, const uint32_t *words, float amount, float *y, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        y[j] = x[j] * fmaf(amount, 2.0f * mt_rng_unit(words[j]) - 1.0f, 1.0f);
    }
}

/* A stretch of elements numbered from `first` on, which may begin and end inside a block. */
static void multiply(const struct mt_random_multiply_args *a, uint64_t first, const float *x, float *y,
                     int64_t count)
{
    uint32_t words[WORDS];
    int64_t skip = (int64_t)(first % 4); // words of the first block that belong to earlier elements
    uint64_t block = first / 4;
    int64_t done = 0;
    while (done < count) {
        int64_t now = cpu_min(WORDS - skip, count - done);
        draw_words(a->seed, a->stream, block, words);
        if (a->kind == MT_RANDOM_DROPOUT) {
            dropout(x + done, words + skip, a->amount, y + done, now);
        } else {
            jitter(x + done, words + skip, a->amount, y + done, now);
        }
        done += now;
        block += LANES;
        skip = 0;
    }
}

enum mt_status MT_CPU(random_multiply)(struct mt_device *device, const void *args)
{
    const struct mt_random_multiply_args *a = args;
    if (!cpu_is_f32(&a->x) || !cpu_is_f32(&a->y)) return mt_ref_random_multiply(device, args);
    bool flat = mt_tensor_is_contiguous(&a->x) && mt_tensor_is_contiguous(&a->y);
    struct cpu_pieces pieces = cpu_pieces_of(&a->y, flat);
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->y))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        uint64_t first = (uint64_t)(piece.row * pieces.width + piece.start);
        multiply(a, first, cpu_piece_f32(&pieces, &a->x, piece), cpu_piece_f32(&pieces, &a->y, piece),
                 piece.count);
    }
    return MT_OK;
}
