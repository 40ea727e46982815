/* The tokens with the smallest numbers, in a heap of places. */
#include "analysis/sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum mt_status mt_sample_open(struct mt_context *ctx, int64_t capacity, int64_t width, int slots,
                              struct mt_vector_sample *sample)
{
    size_t count = (size_t)capacity;
    void *number = NULL;
    void *heap = NULL;
    void *vectors = NULL;
    void *experts = NULL;
    *sample = (struct mt_vector_sample){.ctx = ctx, .capacity = capacity, .width = width, .slots = slots};
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(uint64_t), &number);
    if (status == MT_OK) status = mt_allocate_array(ctx, count, sizeof(int64_t), &heap);
    if (status == MT_OK) status = mt_allocate_array(ctx, count, (size_t)slots * sizeof(int32_t), &experts);
    if (status == MT_OK) status = mt_allocate_array(ctx, count, (size_t)width * sizeof(float), &vectors);
    sample->number = number;
    sample->heap = heap;
    sample->vectors = vectors;
    sample->experts = experts;
    if (status != MT_OK) mt_sample_close(sample);
    return status;
}

void mt_sample_close(struct mt_vector_sample *sample)
{
    size_t count = (size_t)sample->capacity;
    if (sample->ctx == NULL) return;
    mt_release(sample->ctx, sample->number, count * sizeof(uint64_t));
    mt_release(sample->ctx, sample->heap, count * sizeof(int64_t));
    mt_release(sample->ctx, sample->experts, count * (size_t)sample->slots * sizeof(int32_t));
    mt_release(sample->ctx, sample->vectors, count * (size_t)sample->width * sizeof(float));
    *sample = (struct mt_vector_sample){0};
}

uint64_t mt_sample_number(uint64_t seed, uint64_t stream, int64_t token)
{
    struct mt_rng_block words = mt_rng_words(seed, stream, (uint64_t)token);
    return (uint64_t)words.word[0] << 32 | words.word[1];
}

/* Lets the last of the heap rise. */
static void rise(struct mt_vector_sample *sample, int64_t at)
{
    while (at > 0) {
        int64_t parent = (at - 1) / 2;
        if (sample->number[sample->heap[parent]] >= sample->number[sample->heap[at]]) return;
        int64_t place = sample->heap[parent];
        sample->heap[parent] = sample->heap[at];
        sample->heap[at] = place;
        at = parent;
    }
}

/* Lets the first of the heap sink. */
static void sink(struct mt_vector_sample *sample)
{
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= sample->count) return;
        if (child + 1 < sample->count &&
            sample->number[sample->heap[child + 1]] > sample->number[sample->heap[child]])
            child++;
        if (sample->number[sample->heap[at]] >= sample->number[sample->heap[child]]) return;
        int64_t place = sample->heap[at];
        sample->heap[at] = sample->heap[child];
        sample->heap[child] = place;
        at = child;
    }
}

int64_t mt_sample_place(struct mt_vector_sample *sample, uint64_t number)
{
    if (sample->count < sample->capacity) {
        int64_t place = sample->count++;
        sample->number[place] = number;
        sample->heap[place] = place;
        rise(sample, place);
        return place;
    }
    if (sample->capacity == 0 || number >= sample->number[sample->heap[0]]) return -1;
    int64_t place = sample->heap[0];
    sample->number[place] = number;
    sink(sample);
    return place;
}

void mt_sample_merge(struct mt_vector_sample *sample, const struct mt_vector_sample *other)
{
    for (int64_t i = 0; i < other->count; i++) {
        int64_t place = mt_sample_place(sample, other->number[i]);
        if (place < 0) continue;
        memcpy(sample->vectors + place * sample->width, other->vectors + i * other->width,
               (size_t)sample->width * sizeof(float));
        memcpy(sample->experts + place * sample->slots, other->experts + i * other->slots,
               (size_t)sample->slots * sizeof(int32_t));
    }
}

// ------------------------------------------------------------------ sorting

struct entry {
    uint64_t number;
    int64_t place;
};

static int by_number(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->place < y->place ? -1 : (x->place > y->place ? 1 : 0);
}

static void move(const struct mt_vector_sample *sample, float *to_vector, int32_t *to_experts,
                 const float *from_vector, const int32_t *from_experts)
{
    memcpy(to_vector, from_vector, (size_t)sample->width * sizeof(float));
    memcpy(to_experts, from_experts, (size_t)sample->slots * sizeof(int32_t));
}

/* Brings what lies at entries[i].place to place i: along each cycle, with one token held aside. */
static void permute(struct mt_vector_sample *sample, struct entry *entries, float *vector, int32_t *experts)
{
    int64_t width = sample->width;
    int slots = sample->slots;
    for (int64_t start = 0; start < sample->count; start++) {
        if (entries[start].place == start) continue;
        int64_t at = start;
        move(sample, vector, experts, sample->vectors + at * width, sample->experts + at * slots);
        while (entries[at].place != start) {
            int64_t from = entries[at].place;
            move(sample, sample->vectors + at * width, sample->experts + at * slots,
                 sample->vectors + from * width, sample->experts + from * slots);
            entries[at].place = at;
            at = from;
        }
        move(sample, sample->vectors + at * width, sample->experts + at * slots, vector, experts);
        entries[at].place = at;
    }
}

enum mt_status mt_sample_sort(struct mt_vector_sample *sample)
{
    size_t count = (size_t)sample->count;
    void *entries = NULL;
    void *vector = NULL;
    void *experts = NULL;
    if (sample->ctx == NULL || count < 2) return MT_OK;
    enum mt_status status = mt_allocate_array(sample->ctx, count, sizeof(struct entry), &entries);
    if (status == MT_OK)
        status = mt_allocate_array(sample->ctx, (size_t)sample->width, sizeof(float), &vector);
    if (status == MT_OK)
        status = mt_allocate_array(sample->ctx, (size_t)sample->slots, sizeof(int32_t), &experts);
    if (status == MT_OK) {
        struct entry *sorted = entries;
        for (size_t i = 0; i < count; i++)
            sorted[i] = (struct entry){.number = sample->number[i], .place = (int64_t)i};
        qsort(sorted, count, sizeof *sorted, by_number);
        for (size_t i = 0; i < count; i++) {
            sample->number[i] = sorted[i].number;
            sample->heap[i] = (int64_t)(count - 1 - i); // falling numbers are a heap
        }
        permute(sample, sorted, vector, experts);
    }
    mt_release(sample->ctx, entries, count * sizeof(struct entry));
    mt_release(sample->ctx, vector, (size_t)sample->width * sizeof(float));
    mt_release(sample->ctx, experts, (size_t)sample->slots * sizeof(int32_t));
    return status;
}
