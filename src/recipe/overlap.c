/* Runs of words of test questions, in a table of hashes. */
#include "recipe/overlap.h"

#include <assert.h>

#include "base/arena.h"
#include "base/files/digest.h"

#define FIRST_CAPACITY 1024 // a power of two, as every capacity
#define ARENA_BYTES    65536
#define MULTIPLIER     UINT64_C(0x9E3779B97F4A7C15)
#define WHOLE_KEY      1 // of the hash of a whole question; words have the key 0

struct question {
    const char *id;
    size_t group;
};

/* A run of words of a question. */
struct run {
    uint64_t hash;
    size_t at; // in `text`
    uint32_t bytes;
    uint32_t question; // number + 1; 0: the slot is free
    bool whole;
};

struct mt_overlap {
    struct mt_context *ctx;
    size_t length;            // words of a run
    uint64_t highest;         // the multiplier of a run's first word
    struct mt_arena arena;    // of the ids
    struct mt_byte_list text; // the words of all questions
    struct question *questions;
    size_t question_count, question_capacity;
    struct run *runs; // [capacity]
    uint8_t *seen;    // [capacity]: a bit for eight times as many values of hashes; most are not here
    size_t run_count, capacity;
    struct mt_words words; // of the text in hand
    uint64_t *hashes;      // of these
    size_t hash_capacity;
};

enum mt_status mt_overlap_create(struct mt_context *ctx, size_t words, struct mt_overlap **overlap)
{
    void *memory = NULL;
    *overlap = NULL;
    assert(words > 0);
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **overlap, &memory);
    if (status != MT_OK) return status;
    struct mt_overlap *made = memory;
    made->ctx = ctx;
    made->length = words;
    made->highest = 1;
    for (size_t i = 1; i < words; i++) made->highest *= MULTIPLIER;
    made->text.ctx = ctx;
    mt_arena_init(&made->arena, ctx, ARENA_BYTES);
    mt_words_init(ctx, &made->words);
    *overlap = made;
    return MT_OK;
}

void mt_overlap_free(struct mt_overlap *overlap)
{
    if (overlap == NULL) return;
    struct mt_context *ctx = overlap->ctx;
    mt_words_free(&overlap->words);
    mt_byte_list_free(&overlap->text);
    mt_arena_free(&overlap->arena);
    mt_release(ctx, overlap->questions, overlap->question_capacity * sizeof *overlap->questions);
    mt_release(ctx, overlap->runs, overlap->capacity * sizeof *overlap->runs);
    mt_release(ctx, overlap->seen, overlap->capacity);
    mt_release(ctx, overlap->hashes, overlap->hash_capacity * sizeof *overlap->hashes);
    mt_release(ctx, overlap, sizeof *overlap);
}

// ------------------------------------------------------------------ the table

static struct mt_text text_of(const struct mt_overlap *overlap, const struct run *run)
{
    return (struct mt_text){.text = (const char *)overlap->text.data + run->at, .bytes = run->bytes};
}

/* The bit of a hash; its place in the table comes of the lower digits. */
static uint8_t *seen_bit(const struct mt_overlap *overlap, uint64_t hash, uint8_t *bit)
{
    uint64_t place = (hash >> 32) & (8 * (uint64_t)overlap->capacity - 1);
    *bit = (uint8_t)(1u << (place & 7));
    return &overlap->seen[place >> 3];
}

static void place_run(struct mt_overlap *overlap, const struct run *run)
{
    uint8_t bit = 0;
    uint8_t *seen = seen_bit(overlap, run->hash, &bit);
    size_t at = (size_t)run->hash & (overlap->capacity - 1);
    *seen |= bit;
    while (overlap->runs[at].question != 0) at = (at + 1) & (overlap->capacity - 1);
    overlap->runs[at] = *run;
}

static enum mt_status grow(struct mt_overlap *overlap)
{
    size_t old_capacity = overlap->capacity;
    struct run *old = overlap->runs;
    void *runs = NULL;
    void *seen = NULL;
    if (2 * (overlap->run_count + 1) <= old_capacity) return MT_OK;
    size_t capacity = old_capacity > 0 ? 2 * old_capacity : FIRST_CAPACITY;
    enum mt_status status = mt_allocate_array(overlap->ctx, capacity, sizeof *old, &runs);
    if (status == MT_OK) status = mt_allocate_array(overlap->ctx, capacity, 1, &seen);
    if (status != MT_OK) {
        mt_release(overlap->ctx, runs, capacity * sizeof *old);
        return status;
    }
    mt_release(overlap->ctx, overlap->seen, old_capacity);
    overlap->runs = runs;
    overlap->seen = seen;
    overlap->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].question != 0) place_run(overlap, &old[i]);
    }
    mt_release(overlap->ctx, old, old_capacity * sizeof *old);
    return MT_OK;
}

/* The next run with that hash and those words from slot *at on, which moves behind it; NULL: none is left. */
static const struct run *next_run(const struct mt_overlap *overlap, uint64_t hash, bool whole,
                                  struct mt_text words, size_t *at)
{
    while (overlap->capacity > 0) {
        const struct run *run = &overlap->runs[*at & (overlap->capacity - 1)];
        if (run->question == 0) return NULL;
        ++*at;
        if (run->hash == hash && run->whole == whole && mt_text_same(text_of(overlap, run), words))
            return run;
    }
    return NULL;
}

/* Adds a run that lies at `at` in the text, unless its group has the same. */
static enum mt_status add_run(struct mt_overlap *overlap, uint64_t hash, bool whole, size_t at, size_t bytes)
{
    const struct mt_text words = {.text = (const char *)overlap->text.data + at, .bytes = bytes};
    uint32_t number = (uint32_t)overlap->question_count;
    size_t slot = (size_t)hash;
    for (const struct run *run = next_run(overlap, hash, whole, words, &slot); run != NULL;
         run = next_run(overlap, hash, whole, words, &slot)) {
        if (overlap->questions[run->question - 1].group == overlap->questions[number - 1].group) return MT_OK;
    }
    enum mt_status status = grow(overlap);
    if (status != MT_OK) return status;
    const struct run made = {
        .hash = hash, .at = at, .bytes = (uint32_t)bytes, .question = number, .whole = whole};
    place_run(overlap, &made);
    overlap->run_count++;
    return MT_OK;
}

// ------------------------------------------------------------------ runs of a text

/* The words of a text, and their hashes. */
static enum mt_status read_text(struct mt_overlap *overlap, struct mt_text text)
{
    struct mt_words *words = &overlap->words;
    enum mt_status status = mt_words_read(words, text);
    overlap->hashes = mt_list_reserve(overlap->ctx, overlap->hashes, &overlap->hash_capacity,
                                      sizeof *overlap->hashes, words->count, &status);
    for (size_t i = 0; i < words->count && status == MT_OK; i++)
        overlap->hashes[i] = mt_digest_short(words->text.data + words->words[i].at, words->words[i].bytes, 0);
    return status;
}

/* A run that moves through a text, word by word. */
struct window {
    uint64_t hash;
    size_t letters; // words that have one
    size_t first;   // its first word
};

/* Takes the word `last` in; true: the words up to it are a run. */
static bool roll(const struct mt_overlap *overlap, struct window *window, size_t last)
{
    const struct mt_words *words = &overlap->words;
    size_t length = overlap->length;
    if (last >= length) {
        window->hash -= overlap->hashes[last - length] * overlap->highest;
        window->letters -= words->words[last - length].letters ? 1 : 0;
    }
    window->hash = window->hash * MULTIPLIER + overlap->hashes[last];
    window->letters += words->words[last].letters ? 1 : 0;
    window->first = last + 1 >= length ? last + 1 - length : 0;
    return last + 1 >= length && words->words[window->first].part == words->words[last].part &&
           2 * window->letters >= length;
}

static uint64_t hash_whole(struct mt_text words)
{
    return mt_digest_short(words.text, words.bytes, WHOLE_KEY);
}

static enum mt_status add_question(struct mt_overlap *overlap, size_t group, const char *id)
{
    const char *copy = NULL;
    enum mt_status status = mt_arena_copy_text(&overlap->arena, id, strlen(id), &copy);
    if (status == MT_OK && overlap->question_count >= UINT32_MAX - 1)
        status = mt_fail(overlap->ctx, MT_ERR_USAGE, "there are more than %u test questions", UINT32_MAX - 1);
    overlap->questions = mt_list_reserve(overlap->ctx, overlap->questions, &overlap->question_capacity,
                                         sizeof *overlap->questions, overlap->question_count + 1, &status);
    if (status == MT_OK)
        overlap->questions[overlap->question_count++] = (struct question){.id = copy, .group = group};
    return status;
}

enum mt_status mt_overlap_add(struct mt_overlap *overlap, size_t group, const char *id,
                              struct mt_text question)
{
    struct mt_words *words = &overlap->words;
    struct window window = {0};
    size_t base = overlap->text.count;
    enum mt_status status = read_text(overlap, question);
    if (status != MT_OK || words->count == 0) return status;
    if (words->text.count > UINT32_MAX)
        return mt_fail(overlap->ctx, MT_ERR_FORMAT, "a question has %zu bytes, which is too long",
                       words->text.count);
    status = add_question(overlap, group, id);
    if (status == MT_OK) status = mt_byte_list_append(&overlap->text, words->text.data, words->text.count);
    size_t runs = 0;
    for (size_t i = 0; i < words->count && status == MT_OK; i++) {
        if (!roll(overlap, &window, i)) continue;
        struct mt_text run = mt_words_range(words, window.first, overlap->length);
        status = add_run(overlap, window.hash, false, base + words->words[window.first].at, run.bytes);
        runs++;
    }
    if (status != MT_OK || runs > 0) return status;
    return add_run(overlap, hash_whole(mt_text_in(&words->text)), true, base, words->text.count);
}

// ------------------------------------------------------------------ looking

/* Notes every group that has these words. */
static void look_up(const struct mt_overlap *overlap, uint64_t hash, bool whole, struct mt_text words,
                    struct mt_overlap_hit *hits, size_t groups, bool *any)
{
    size_t slot = (size_t)hash;
    uint8_t bit = 0;
    if (overlap->capacity == 0 || (*seen_bit(overlap, hash, &bit) & bit) == 0) return;
    for (const struct run *run = next_run(overlap, hash, whole, words, &slot); run != NULL;
         run = next_run(overlap, hash, whole, words, &slot)) {
        const struct question *question = &overlap->questions[run->question - 1];
        if (question->group >= groups || hits[question->group].found) continue;
        hits[question->group] = (struct mt_overlap_hit){
            .found = true, .whole = whole, .id = question->id, .words = text_of(overlap, run)};
        *any = true;
    }
}

enum mt_status mt_overlap_find(struct mt_overlap *overlap, struct mt_text question, struct mt_text answer,
                               struct mt_overlap_hit *hits, size_t groups, bool *any)
{
    const struct mt_text texts[2] = {question, answer};
    struct mt_words *words = &overlap->words;
    *any = false;
    for (size_t i = 0; i < groups; i++) hits[i] = (struct mt_overlap_hit){0};
    for (int t = 0; t < 2; t++) {
        struct window window = {0};
        enum mt_status status = read_text(overlap, texts[t]);
        if (status != MT_OK) return status;
        if (t == 0 && words->count > 0)
            look_up(overlap, hash_whole(mt_text_in(&words->text)), true, mt_text_in(&words->text), hits,
                    groups, any);
        for (size_t i = 0; i < words->count; i++) {
            if (!roll(overlap, &window, i)) continue;
            struct mt_text run = mt_words_range(words, window.first, overlap->length);
            look_up(overlap, window.hash, false, run, hits, groups, any);
        }
    }
    return MT_OK;
}
