/* Choosing tokens. Tokens in falling order come from a heap: only as many are sorted as are kept. */
#include "infer/sampler.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

enum mt_status mt_sampling_check(struct mt_context *ctx, const struct mt_sampling *sampling)
{
    if (!(sampling->temperature >= 0.0) || !isfinite(sampling->temperature))
        return mt_fail(ctx, MT_ERR_USAGE, "the temperature is %g, expected 0 or more", sampling->temperature);
    if (!(sampling->top_p > 0.0 && sampling->top_p <= 1.0))
        return mt_fail(ctx, MT_ERR_USAGE, "top-p is %g, expected more than 0 and at most 1", sampling->top_p);
    if (sampling->top_k < 0)
        return mt_fail(ctx, MT_ERR_USAGE, "top-k is %lld, expected 0 (all) or more",
                       (long long)sampling->top_k);
    if (!(sampling->repetition_penalty > 0.0) || !isfinite(sampling->repetition_penalty)) {
        return mt_fail(ctx, MT_ERR_USAGE, "the repetition penalty is %g, expected more than 0",
                       sampling->repetition_penalty);
    }
    return MT_OK;
}

enum mt_status mt_sampler_create(struct mt_context *ctx, int64_t vocabulary, struct mt_sampler *sampler)
{
    void *heap = NULL;
    void *seen = NULL;
    *sampler = (struct mt_sampler){.ctx = ctx, .vocabulary = vocabulary};
    enum mt_status status = mt_allocate_array(ctx, (size_t)vocabulary, sizeof(int32_t), &heap);
    if (status == MT_OK) status = mt_allocate_array(ctx, (size_t)vocabulary, sizeof(int32_t), &seen);
    sampler->heap = heap;
    sampler->seen = seen;
    if (status != MT_OK) mt_sampler_destroy(sampler);
    return status;
}

void mt_sampler_destroy(struct mt_sampler *sampler)
{
    if (sampler->ctx == NULL) return;
    size_t bytes = (size_t)sampler->vocabulary * sizeof(int32_t);
    mt_release(sampler->ctx, sampler->heap, bytes);
    mt_release(sampler->ctx, sampler->seen, bytes);
    *sampler = (struct mt_sampler){0};
}

/* By the bits: what they have in common is an exponent of ones. */
bool mt_logits_finite(const float *logits, int64_t vocabulary)
{
    int32_t found = 0;
    for (int64_t i = 0; i < vocabulary; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        found |= (bits & 0x7F800000u) == 0x7F800000u;
    }
    return found == 0;
}

/* The value first, then the place of the first that has it. */
int32_t mt_logits_highest(const float *logits, int64_t vocabulary)
{
    float highest = -INFINITY;
    for (int64_t i = 0; i < vocabulary; i++) highest = logits[i] > highest ? logits[i] : highest;
    for (int64_t i = 0; i < vocabulary; i++) {
        if (logits[i] == highest) return (int32_t)i;
    }
    return 0; // none is a number
}

double mt_logits_log_sum(const float *logits, int64_t vocabulary)
{
    int32_t highest = mt_logits_highest(logits, vocabulary);
    double sum = 1.0; // the highest one's
    for (int64_t i = 0; i < vocabulary; i++)
        sum += i == highest ? 0.0 : exp((double)logits[i] - (double)logits[highest]);
    return (double)logits[highest] + log(sum);
}

int mt_logits_likeliest(const float *logits, int64_t vocabulary, struct mt_likely *likely, int most)
{
    int found = 0;
    for (int64_t i = 0; i < vocabulary && most > 0; i++) {
        if (found == most && !(logits[i] > likely[most - 1].log)) continue;
        int at = found < most ? found++ : most - 1;
        for (; at > 0 && logits[i] > likely[at - 1].log; at--) likely[at] = likely[at - 1];
        likely[at] = (struct mt_likely){.id = (int32_t)i, .log = logits[i]};
    }
    return found;
}

static void penalise(struct mt_sampler *sampler, const struct mt_sampling *sampling,
                     const struct mt_sampling_place *place, float *logits)
{
    float penalty = (float)sampling->repetition_penalty;
    if (penalty == 1.0f) return;
    if (sampler->round == INT32_MAX) {
        memset(sampler->seen, 0, (size_t)sampler->vocabulary * sizeof *sampler->seen);
        sampler->round = 0;
    }
    sampler->round++;
    for (int64_t i = 0; i < place->position; i++) {
        int32_t id = place->past[i];
        if (sampler->seen[id] == sampler->round) continue;
        sampler->seen[id] = sampler->round;
        logits[id] = logits[id] < 0.0f ? logits[id] * penalty : logits[id] / penalty;
    }
}

// ------------------------------------------------------------------ the heap

static bool before(const float *logits, int32_t a, int32_t b)
{
    return logits[a] > logits[b] || (a < b && logits[a] == logits[b]);
}

static void sink(int32_t *heap, int64_t count, int64_t at, const float *logits)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && before(logits, heap[child + 1], heap[child])) child++;
        if (!before(logits, heap[child], heap[at])) return;
        int32_t swapped = heap[at];
        heap[at] = heap[child];
        heap[child] = swapped;
        at = child;
    }
}

static void build_heap(int32_t *heap, int64_t count, const float *logits)
{
    for (int64_t i = 0; i < count; i++) heap[i] = (int32_t)i;
    for (int64_t i = count / 2 - 1; i >= 0; i--) sink(heap, count, i, logits);
}

/* Moves the first of `count` to place count-1, where nothing looks for it again. */
static void pop(int32_t *heap, int64_t count, const float *logits)
{
    int32_t first = heap[0];
    heap[0] = heap[count - 1];
    heap[count - 1] = first;
    sink(heap, count - 1, 0, logits);
}

// ------------------------------------------------------------------ drawing

/* Uniform in [0, 1), 53 bits. */
static double draw_unit(const struct mt_sampling *sampling, const struct mt_sampling_place *place)
{
    struct mt_rng_block words = mt_rng_words(sampling->seed, place->request, (uint64_t)place->position);
    return ((double)(words.word[0] >> 5) * 0x1p26 + (double)(words.word[1] >> 6)) * 0x1p-53;
}

/* Logits become weights relative to the highest. Returns their sum. */
static double weigh(float *logits, int64_t vocabulary, double temperature)
{
    double highest = (double)logits[mt_logits_highest(logits, vocabulary)];
    double sum = 0.0;
    for (int64_t i = 0; i < vocabulary; i++) {
        logits[i] = (float)exp(((double)logits[i] - highest) / temperature);
        sum += (double)logits[i];
    }
    return sum;
}

/* Draws among all ids, in their order. */
static int32_t draw_any(const float *weight, int64_t vocabulary, double target)
{
    int64_t last = 0; // that weighs anything
    double sum = 0.0;
    for (int64_t i = 0; i < vocabulary; i++) {
        if (!(weight[i] > 0.0f)) continue;
        sum += (double)weight[i];
        last = i;
        if (sum > target) break;
    }
    return (int32_t)last;
}

/* The weight of the ids that stay, which end up at the heap's end, the first last. */
static double keep(struct mt_sampler *sampler, const struct mt_sampling *sampling, const float *weight,
                   double all, int64_t *kept)
{
    int64_t vocabulary = sampler->vocabulary;
    int64_t most = sampling->top_k > 0 && sampling->top_k < vocabulary ? sampling->top_k : vocabulary;
    // Top-p is a share of what top-k left, which must be known first.
    double total = all;
    double sum = 0.0;
    build_heap(sampler->heap, vocabulary, weight);
    if (most < vocabulary) {
        total = 0.0;
        for (int64_t i = 0; i < most; i++) {
            total += (double)weight[sampler->heap[0]];
            pop(sampler->heap, vocabulary - i, weight);
        }
        *kept = most;
    }
    for (int64_t i = 0; i < most; i++) {
        if (most == vocabulary) pop(sampler->heap, vocabulary - i, weight);
        sum += (double)weight[sampler->heap[vocabulary - 1 - i]];
        *kept = i + 1;
        if (sum >= sampling->top_p * total) break;
    }
    return sum;
}

int32_t mt_sampler_choose(struct mt_sampler *sampler, const struct mt_sampling *sampling,
                          const struct mt_sampling_place *place, float *logits)
{
    int64_t vocabulary = sampler->vocabulary;
    penalise(sampler, sampling, place, logits);
    if (sampling->temperature == 0.0) return mt_logits_highest(logits, vocabulary);
    double unit = draw_unit(sampling, place);
    double all = weigh(logits, vocabulary, sampling->temperature);
    if (sampling->top_p >= 1.0 && sampling->top_k == 0) return draw_any(logits, vocabulary, unit * all);
    int64_t kept = 0;
    double target = unit * keep(sampler, sampling, logits, all, &kept);
    double sum = 0.0;
    int32_t chosen = sampler->heap[vocabulary - 1];
    for (int64_t i = 0; i < kept; i++) {
        chosen = sampler->heap[vocabulary - 1 - i];
        sum += (double)logits[chosen];
        if (sum > target) break;
    }
    return chosen;
}
