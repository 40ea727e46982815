/*
 * topk, LANES tokens at a time: scores are transposed into keys[expert][lane], and each slot is one walk
 * over the experts that keeps the best key and its index in every lane at once.
 *
 * A key is an integer that orders as the score does, NaN below all numbers, so that one integer
 * comparison decides; walking upwards with "greater" gives ties to the lowest index.
 */
#include <math.h>
#include <omp.h>

#include "ops/cpu/level.h"

#define LANES     16

#define KEY_TAKEN INT32_MIN       // chosen before: below everything
#define KEY_NAN   (INT32_MIN + 1) // below -inf

/* Negative floats have their magnitude bits flipped; the function is its own inverse on numbers. */
static inline int32_t flip_negative(int32_t bits)
{
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

static inline int32_t key_of(float score)
{
    float positive_zero = score + 0.0f; // -0 and +0 are the same score
    int32_t key = flip_negative((int32_t)mt_float_bits(positive_zero));
    return score != score ? KEY_NAN : key;
}

static inline float score_of(int32_t key)
{
    return key == KEY_NAN ? NAN : mt_float_from_bits((uint32_t)flip_negative(key));
}

/* What one thread works on; matrices are [rows][LANES]. */
struct workspace {
    int32_t *keys;       // of the experts
    int32_t *group_keys; // of the groups
    int32_t *kept;       // per group: -1 kept, 0 not
    int32_t *picked;     // the result, one row per slot
    int32_t *row;        // one token's keys before they are spread, [n]
};

/* Integers a workspace takes, a multiple of LANES. */
static int64_t workspace_size(const struct mt_topk_args *a)
{
    int64_t experts = a->probs.dim[1];
    int64_t rows = experts + 2 * (int64_t)a->groups + a->expert.dim[1] + a->groups_kept;
    return rows * LANES + (experts + LANES - 1) / LANES * LANES;
}

static struct workspace workspace_at(const struct mt_topk_args *a, int32_t *memory)
{
    struct workspace w = {.keys = memory};
    w.group_keys = w.keys + a->probs.dim[1] * LANES;
    w.kept = w.group_keys + (int64_t)a->groups * LANES;
    w.picked = w.kept + (int64_t)a->groups * LANES;
    w.row = w.picked + (a->expert.dim[1] + a->groups_kept) * LANES;
    return w;
}

static void load_keys(const struct mt_topk_args *a, int64_t start, int64_t count, const struct workspace *w)
{
    int64_t experts = a->probs.dim[1];
    int32_t *keys = w->keys;
    int32_t *restrict row = w->row;
    const float *bias = a->bias.data;
    for (int64_t lane = 0; lane < LANES; lane++) {
        // Lanes past the last token repeat it; their results are not stored.
        const float *probs = cpu_row(&a->probs, start + cpu_min(lane, count - 1));
        if (bias != NULL) {
#pragma omp simd
            for (int64_t j = 0; j < experts; j++) row[j] = key_of(probs[j] + bias[j]);
        } else {
#pragma omp simd
            for (int64_t j = 0; j < experts; j++) row[j] = key_of(probs[j]);
        }
        for (int64_t j = 0; j < experts; j++) keys[j * LANES + lane] = row[j];
    }
}

/* The `slots` best of `count` keys, in order; chosen keys become KEY_TAKEN. */
static void pick_best(int32_t *keys, int64_t count, int64_t slots, int32_t *picked)
{
    for (int64_t s = 0; s < slots; s++) {
        int32_t best[LANES];
        int32_t index[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            best[lane] = KEY_TAKEN;
            index[lane] = 0;
        }
        for (int64_t j = 0; j < count; j++) {
            const int32_t *key = keys + j * LANES;
#pragma omp simd
            for (int lane = 0; lane < LANES; lane++) {
                bool better = key[lane] > best[lane];
                best[lane] = better ? key[lane] : best[lane];
                index[lane] = better ? (int32_t)j : index[lane];
            }
        }
        for (int lane = 0; lane < LANES; lane++) {
            keys[(int64_t)index[lane] * LANES + lane] = KEY_TAKEN;
            picked[s * LANES + lane] = index[lane];
        }
    }
}

/* The key of each group: of its best expert, or of the sum of its two best. */
static void score_groups(const struct mt_topk_args *a, const struct workspace *w)
{
    int64_t size = a->probs.dim[1] / a->groups;
    for (int64_t group = 0; group < a->groups; group++) {
        int32_t best[LANES];
        int32_t second[LANES];
        for (int lane = 0; lane < LANES; lane++) best[lane] = second[lane] = KEY_NAN;
        for (int64_t j = group * size; j < (group + 1) * size; j++) {
            const int32_t *key = w->keys + j * LANES;
#pragma omp simd
            for (int lane = 0; lane < LANES; lane++) {
                int32_t lower = key[lane] < best[lane] ? key[lane] : best[lane];
                best[lane] = key[lane] > best[lane] ? key[lane] : best[lane];
                second[lane] = lower > second[lane] ? lower : second[lane];
            }
        }
        int32_t *result = w->group_keys + group * LANES;
        for (int lane = 0; lane < LANES; lane++) {
            bool sum = a->group_rule == MT_GROUP_TOP2_SUM;
            result[lane] = sum ? key_of(score_of(best[lane]) + score_of(second[lane])) : best[lane];
        }
    }
}

/* Puts the mask's value on the experts of the groups that were not kept; NaN stays the lowest. */
static void mask_groups(const struct mt_topk_args *a, const struct workspace *w)
{
    int64_t size = a->probs.dim[1] / a->groups;
    int32_t masked = key_of(a->group_rule == MT_GROUP_MAX ? 0.0f : -INFINITY);
    score_groups(a, w);
    pick_best(w->group_keys, a->groups, a->groups_kept, w->picked);
    for (int64_t i = 0; i < (int64_t)a->groups * LANES; i++) w->kept[i] = 0;
    for (int64_t pick = 0; pick < a->groups_kept; pick++) {
        for (int lane = 0; lane < LANES; lane++) {
            w->kept[(int64_t)w->picked[pick * LANES + lane] * LANES + lane] = -1;
        }
    }
    for (int64_t j = 0; j < a->probs.dim[1]; j++) {
        int32_t *key = w->keys + j * LANES;
        const int32_t *kept = w->kept + j / size * LANES;
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++) {
            bool stays = kept[lane] != 0 || key[lane] == KEY_NAN;
            key[lane] = stays ? key[lane] : masked;
        }
    }
}

size_t MT_CPU(topk_scratch)(const struct mt_device *device, const struct mt_topk_args *args)
{
    return (size_t)device->threads * (size_t)workspace_size(args) * sizeof(int32_t);
}

void MT_CPU(topk)(struct mt_device *device, const struct mt_topk_args *a)
{
    int64_t tokens = a->probs.dim[0];
    int64_t experts = a->probs.dim[1];
    int64_t slots = a->expert.dim[1];
    int64_t pieces = (tokens + LANES - 1) / LANES;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *experts)) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t own = omp_get_thread_num() * workspace_size(a);
        struct workspace w = workspace_at(a, (int32_t *)device->scratch.data + own);
        int64_t start = piece * LANES;
        int64_t count = cpu_min(LANES, tokens - start);
        load_keys(a, start, count, &w);
        if (a->group_rule != MT_GROUP_NONE) mask_groups(a, &w);
        pick_best(w.keys, experts, slots, w.picked);
        for (int64_t lane = 0; lane < count; lane++) {
            int32_t *expert = (int32_t *)a->expert.data + (start + lane) * a->expert.stride[0];
            for (int64_t s = 0; s < slots; s++) expert[s] = w.picked[s * LANES + lane];
        }
    }
}
