/*
 * What happens in a slot: generations append what they choose, scorings look their ids up, and requests that
 * begin with the same ids have the beginning computed once.
 *
 * Sharing goes by whole pieces. What the cache holds of a piece follows from its ids, those before it and
 * the rotation, to the last bit, so it does not matter whether it was computed here or copied. A request
 * waits for a slot that is about to compute what it needs; that slot was taken before, so none waits for
 * itself.
 */
#include <string.h>

#include "arch/rope.h"
#include "infer/engine_struct.h"

/* A slot without a past. */
static void clear(struct engine_slot *slot, enum slot_use use)
{
    *slot = (struct engine_slot){
        .use = use, .ids = slot->ids, .whole = slot->whole, .rotation = slot->rotation, .source = -1};
}

void mt_engine_free_slot(struct engine_slot *slot)
{
    clear(slot, SLOT_FREE);
}

bool mt_engine_slot_computes(const struct engine_slot *slot)
{
    return slot->use != SLOT_FREE && slot->use != SLOT_HELD && slot->source < 0;
}

static void append(struct engine_slot *slot, const int32_t *ids, int64_t count)
{
    memcpy(slot->ids + slot->count, ids, (size_t)count * sizeof *ids);
    slot->count += count;
}

/* True when a sequence is rotated otherwise once it is so much longer: the cache is then of no use to it. */
static bool rotation_changes(const struct mt_engine *engine, int64_t before, int64_t after)
{
    return mt_rope_start(engine->desc->config, before) != mt_rope_start(engine->desc->config, after);
}

// ------------------------------------------------------------------ beginnings that requests share

/* The beginning of a request that others may have. */
struct beginning {
    const int32_t *ids; // [tokens]
    int64_t tokens;     // of whole pieces
    int64_t rotation;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t whole_pieces(const struct mt_engine *engine, int64_t tokens)
{
    return tokens - tokens % engine->piece;
}

/*
 * Of ids [count], of which the first `common` may be shared, in a sequence of `length` tokens. The last is
 * never part of it: its logits are wanted, so it is computed.
 */
static struct beginning beginning_of(const struct mt_engine *engine, const int32_t *ids, int64_t count,
                                     int64_t common, int64_t length)
{
    return (struct beginning){.ids = ids,
                              .tokens = whole_pieces(engine, smaller(common, count - 1)),
                              .rotation = mt_rope_start(engine->desc->config, length)};
}

/* How much of a beginning the first `tokens` of a slot are, in whole pieces. */
static int64_t common_tokens(const struct mt_engine *engine, const struct engine_slot *slot,
                             const struct beginning *beginning, int64_t tokens)
{
    int64_t most = smaller(beginning->tokens, tokens);
    int64_t same = 0;
    if (slot->rotation != beginning->rotation) return 0;
    while (same + engine->piece <= most &&
           memcmp(slot->ids + same, beginning->ids + same, (size_t)engine->piece * sizeof *slot->ids) == 0)
        same += engine->piece;
    return same;
}

/* Tokens in whole pieces that a slot has, or will have when what is in it now is computed. */
static int64_t expected_tokens(const struct mt_engine *engine, const struct engine_slot *slot)
{
    bool goes_on = slot->use != SLOT_FREE && slot->use != SLOT_HELD && slot->done == slot->whole;
    return goes_on ? whole_pieces(engine, slot->count) : slot->whole;
}

/* The free slot that has most of a beginning; of several the one whose loss is least. -1: none is free. */
static int64_t free_slot(const struct mt_engine *engine, const struct beginning *beginning)
{
    int64_t best = -1;
    int64_t best_common = 0;
    for (int64_t i = 0; i < engine->slots; i++) {
        const struct engine_slot *slot = &engine->slot[i];
        if (slot->use != SLOT_FREE) continue;
        int64_t common = common_tokens(engine, slot, beginning, slot->whole);
        bool better = best < 0 || common > best_common ||
                      (common == best_common && slot->whole < engine->slot[best].whole);
        if (!better) continue;
        best = i;
        best_common = common;
    }
    return best;
}

/* Copies what the slot waits for, if its source has it; waits no longer if it never will. */
static enum mt_status take_shared(struct mt_engine *engine, int64_t number)
{
    struct engine_slot *s = &engine->slot[number];
    const struct engine_slot *source = &engine->slot[s->source];
    struct beginning wanted = {.ids = s->ids, .tokens = s->shared, .rotation = s->rotation};
    if (common_tokens(engine, source, &wanted, source->whole) == s->shared) {
        enum mt_status status = mt_model_copy_slot(engine->model, s->source, number, s->shared);
        s->done = s->shared;
        s->whole = s->shared;
        s->source = -1;
        return status;
    }
    if (common_tokens(engine, source, &wanted, expected_tokens(engine, source)) < s->shared) s->source = -1;
    return MT_OK;
}

enum mt_status mt_engine_take_shared(struct mt_engine *engine)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < engine->slots; i++) {
        if (engine->slot[i].source >= 0) status = take_shared(engine, i);
    }
    return status;
}

/*
 * Begins a sequence in a slot with what it has of the beginning already. Where another has more, or with
 * `waits` will have more, that is copied, now or later. The beginning's ids are the first of the slot's
 * afterwards.
 */
static enum mt_status begin(struct mt_engine *engine, int64_t number, const struct beginning *beginning,
                            bool waits)
{
    struct engine_slot *s = &engine->slot[number];
    int64_t most = common_tokens(engine, s, beginning, s->whole);
    s->done = most;
    s->whole = most;
    s->rotation = beginning->rotation;
    s->count = 0;
    append(s, beginning->ids, beginning->tokens);
    for (int64_t i = 0; i < engine->slots; i++) {
        const struct engine_slot *other = &engine->slot[i];
        if (i == number) continue;
        int64_t tokens = waits ? expected_tokens(engine, other) : other->whole;
        int64_t common = common_tokens(engine, other, beginning, tokens);
        // Of two that have the same, one that has it now.
        bool now = s->source >= 0 && common == most && other->whole >= common;
        if (common <= most && !now) continue;
        most = common;
        s->source = i;
        s->shared = common;
    }
    return s->source >= 0 ? take_shared(engine, number) : MT_OK;
}

// ------------------------------------------------------------------ a slot that generates

static struct beginning generation_beginning(const struct mt_engine *engine,
                                             const struct mt_generation *generation)
{
    return beginning_of(engine, generation->ids, generation->count, generation->common, generation->count);
}

static enum mt_status start_generation(struct mt_engine *engine, const struct mt_generation *generation,
                                       const struct beginning *beginning, int64_t slot)
{
    struct engine_slot *s = &engine->slot[slot];
    clear(s, SLOT_GENERATION);
    s->generation = generation;
    s->seen = smaller(generation->common, generation->count);
    enum mt_status status = begin(engine, slot, beginning, true);
    append(s, generation->ids + s->count, generation->count - s->count);
    s->first_wanted = s->count - 1;
    engine->active++;
    return status;
}

static enum mt_status finish_generation(struct mt_engine *engine, struct engine_slot *slot,
                                        enum mt_finish why)
{
    const struct mt_generation *generation = slot->generation;
    clear(slot, SLOT_FREE);
    engine->active--;
    return generation->finished != NULL ? generation->finished(generation->self, why) : MT_OK;
}

static bool is_stop(const struct mt_generation *generation, int32_t id)
{
    for (size_t i = 0; i < generation->stop_count; i++) {
        if (generation->stop_ids[i] == id) return true;
    }
    return false;
}

static bool draws(const struct engine_slot *slot)
{
    const struct mt_sampling *sampling = &slot->generation->sampling;
    return sampling->temperature != 0.0 || sampling->repetition_penalty != 1.0;
}

bool mt_engine_slot_reads(const struct engine_slot *slot)
{
    if (slot->use == SLOT_GENERATION) return draws(slot) || slot->generation->logits != NULL;
    return slot->scoring->logits != NULL;
}

/* The slot's next token is `id`. */
static enum mt_status go_on(struct mt_engine *engine, struct engine_slot *slot, int32_t id)
{
    const struct mt_generation *generation = slot->generation;
    if (is_stop(generation, id)) {
        enum mt_status told = generation->stopped != NULL ? generation->stopped(generation->self, id) : MT_OK;
        return told == MT_OK ? finish_generation(engine, slot, MT_FINISH_STOP_TOKEN) : told;
    }
    bool stop = false;
    engine->counts.generated_tokens++;
    slot->generated++;
    enum mt_status status =
        generation->token != NULL ? generation->token(generation->self, id, &stop) : MT_OK;
    if (status != MT_OK) return status;
    if (stop) return finish_generation(engine, slot, MT_FINISH_CALLER);
    if (slot->generated >= generation->max_new || slot->count == engine->positions)
        return finish_generation(engine, slot, MT_FINISH_LENGTH);
    append(slot, &id, 1);
    slot->first_wanted = slot->count - 1;
    if (rotation_changes(engine, slot->count - 1, slot->count)) {
        slot->done = 0;
        slot->whole = 0;
        slot->rotation = mt_rope_start(engine->desc->config, slot->count);
    }
    return MT_OK;
}

// ------------------------------------------------------------------ slots that score

/*
 * True when a continuation is computed with its prefix in one go: when it is the only one, and when it makes
 * the sequence so long that the prefix's tokens are rotated otherwise.
 */
static bool is_alone(const struct mt_engine *engine, const struct mt_scoring *scoring, size_t number)
{
    int64_t length = scoring->count + scoring->continuation[number].count - 1;
    return scoring->continuations == 1 || rotation_changes(engine, scoring->count, length);
}

/* log p of an id, added to its continuation. */
static void add_score(const struct mt_engine *engine, const struct engine_pick *pick, float logit)
{
    struct mt_continuation *continuation = pick->continuation;
    double score = (double)logit - engine->log_sum[pick->row];
    if (pick->index == 0) {
        continuation->log_probability = 0.0;
        continuation->greedy = true;
    }
    continuation->log_probability += score;
    continuation->greedy =
        continuation->greedy && continuation->ids[pick->index] == engine->highest[pick->row];
    if (continuation->each != NULL) continuation->each[pick->index] = (float)score;
}

enum mt_status mt_engine_take_picks(struct mt_engine *engine)
{
    int64_t count = engine->picks;
    int64_t logits = engine->logit_rows * engine->desc->vocabulary;
    struct mt_embedding_forward_args gather = {
        .table = mt_tensor_2d(engine->logits.data, MT_F32, logits, 1),
        .ids = mt_tensor_1d(engine->device_places.data, MT_I32, count),
        .y = mt_tensor_2d(engine->device_picked.data, MT_F32, count, 1)};
    engine->picks = 0;
    if (count == 0) return MT_OK;
    enum mt_status status = mt_device_upload(engine->device, engine->device_places.data, engine->places,
                                             (size_t)count * sizeof *engine->places);
    if (status == MT_OK) status = mt_embedding_forward(engine->device, &gather);
    if (status == MT_OK)
        status = mt_device_download(engine->device, engine->picked, engine->device_picked.data,
                                    (size_t)count * sizeof *engine->picked);
    for (int64_t i = 0; status == MT_OK && i < count; i++)
        add_score(engine, &engine->pick[i], engine->picked[i]);
    return status;
}

static enum mt_status pick(struct mt_engine *engine, int64_t row, struct mt_continuation *continuation,
                           int64_t index)
{
    enum mt_status status = engine->picks == MT_ENGINE_PICKS ? mt_engine_take_picks(engine) : MT_OK;
    int64_t at = engine->picks++;
    engine->pick[at] = (struct engine_pick){.continuation = continuation, .index = index, .row = row};
    engine->places[at] = (int32_t)(row * engine->desc->vocabulary + continuation->ids[index]);
    return status;
}

static enum mt_status score(struct mt_engine *engine, const struct mt_scoring *scoring, size_t continuation,
                            int64_t index, int64_t row, const float *logits)
{
    if (scoring->logits != NULL) scoring->logits(scoring->self, continuation, index, logits);
    return pick(engine, row, &scoring->continuation[continuation], index);
}

static enum mt_status pick_scores(struct mt_engine *engine, const struct engine_slot *slot, int64_t position,
                                  int64_t row, const float *logits)
{
    const struct mt_scoring *scoring = slot->scoring;
    enum mt_status status = MT_OK;
    if (slot->use == SLOT_CONTINUATION)
        return score(engine, scoring, slot->continuation, position + 1 - scoring->count, row, logits);
    // The end of the prefix says how likely each continuation's first id is.
    for (size_t i = 0; status == MT_OK && i < scoring->continuations; i++) {
        if (!is_alone(engine, scoring, i)) status = score(engine, scoring, i, 0, row, logits);
    }
    return status;
}

enum mt_status mt_engine_take_row(struct mt_engine *engine, int64_t row, const struct engine_row *whose,
                                  float *logits)
{
    struct engine_slot *s = &engine->slot[whose->slot];
    int32_t id = engine->highest[row];
    if (id < 0) {
        return mt_fail(
            engine->ctx, MT_ERR_NUMERIC,
            "the model's logits after token %lld are not finite numbers: its weights, or the adapter's, "
            "are damaged or too large",
            (long long)whose->position + 1);
    }
    if (s->use != SLOT_GENERATION) return pick_scores(engine, s, whose->position, row, logits);
    if (s->generation->logits != NULL) s->generation->logits(s->generation->self, logits);
    if (draws(s)) {
        struct mt_sampling_place place = {
            .request = s->generation->number, .position = s->count, .past = s->ids};
        id = mt_sampler_choose(&engine->sampler, &s->generation->sampling, &place, logits);
    }
    return go_on(engine, s, id);
}

/* A slot goes on after a scoring's prefix, which it has, with continuation `number`. */
static void follow(struct mt_engine *engine, const struct mt_scoring *scoring, size_t number,
                   struct engine_slot *s)
{
    const struct mt_continuation *continuation = &scoring->continuation[number];
    s->use = SLOT_CONTINUATION;
    s->continuation = number;
    append(s, scoring->ids + s->count, scoring->count - s->count);
    append(s, continuation->ids, continuation->count - 1);
    engine->slot[s->home].prefix_seen = true;
}

/* Begins a continuation behind its home's prefix, in the home itself or in another slot. */
static enum mt_status start_shared(struct mt_engine *engine, int64_t home, int64_t slot, size_t number)
{
    const struct mt_scoring *scoring = engine->slot[home].scoring;
    struct engine_slot *s = &engine->slot[slot];
    enum mt_status status = MT_OK;
    if (slot != home) {
        clear(s, SLOT_CONTINUATION);
        s->scoring = scoring;
        s->home = home;
        s->whole = engine->slot[home].whole;
        s->rotation = engine->slot[home].rotation;
        status = mt_model_copy_slot(engine->model, home, slot, scoring->count);
    }
    s->count = 0;
    s->done = scoring->count;
    s->whole = smaller(s->whole, whole_pieces(engine, scoring->count));
    s->seen = scoring->count;
    s->first_wanted = scoring->count;
    follow(engine, scoring, number, s);
    return status;
}

/* Begins a continuation together with its prefix, in the home. Only a request's first may wait for another
 * slot: for a later one that slot could be waiting for this one. */
static enum mt_status start_alone(struct mt_engine *engine, int64_t home, size_t number, bool waits)
{
    struct engine_slot *s = &engine->slot[home];
    const struct mt_scoring *scoring = s->scoring;
    int64_t length = scoring->count + scoring->continuation[number].count - 1;
    struct beginning beginning = beginning_of(engine, scoring->ids, scoring->count, scoring->common, length);
    enum mt_status status = begin(engine, home, &beginning, waits);
    // A prefix that is computed again for a later continuation was seen with the first.
    s->seen = s->prefix_seen ? scoring->count : smaller(scoring->common, scoring->count);
    s->first_wanted = scoring->count - 1;
    follow(engine, scoring, number, s);
    return status;
}

/*
 * The next continuation of a home that is (not) computed alone, from *next on; those that share the prefix
 * and have one id only need no computing. False: none is left.
 */
static bool next_continuation(const struct mt_engine *engine, const struct mt_scoring *scoring, bool alone,
                              size_t *next, size_t *number)
{
    while (*next < scoring->continuations) {
        *number = (*next)++;
        if (is_alone(engine, scoring, *number) != alone) continue;
        if (alone || scoring->continuation[*number].count > 1) return true;
    }
    return false;
}

static struct beginning scoring_beginning(const struct mt_engine *engine, const struct mt_scoring *scoring)
{
    return beginning_of(engine, scoring->ids, scoring->count, scoring->common, scoring->count);
}

static enum mt_status start_scoring(struct mt_engine *engine, const struct mt_scoring *scoring,
                                    const struct beginning *beginning, int64_t slot)
{
    struct engine_slot *s = &engine->slot[slot];
    size_t number = 0;
    clear(s, SLOT_PREFIX);
    s->scoring = scoring;
    s->home = slot;
    engine->active++;
    for (size_t i = 0; i < scoring->continuations; i++) {
        if (is_alone(engine, scoring, i)) {
            s->alone_left++;
        } else {
            s->shared_left++;
        }
    }
    if (s->shared_left == 0) {
        (void)next_continuation(engine, scoring, true, &s->next_alone, &number);
        return start_alone(engine, slot, number, true);
    }
    s->seen = smaller(scoring->common, scoring->count);
    enum mt_status status = begin(engine, slot, beginning, true);
    append(s, scoring->ids + s->count, scoring->count - s->count);
    s->first_wanted = s->count - 1;
    return status;
}

/* For one home: the first in its own slot, others where there is room. */
static enum mt_status start_from(struct mt_engine *engine, int64_t home)
{
    static const struct beginning none = {0};
    struct engine_slot *s = &engine->slot[home];
    size_t number = 0;
    enum mt_status status = MT_OK;
    while (status == MT_OK) {
        int64_t slot = s->use == SLOT_HELD ? home : free_slot(engine, &none);
        if (slot < 0 || !next_continuation(engine, s->scoring, false, &s->next_shared, &number)) break;
        status = start_shared(engine, home, slot, number);
    }
    // These overwrite the prefix: they come when nobody needs it any more.
    if (status == MT_OK && s->use == SLOT_HELD && s->shared_left == 0 &&
        next_continuation(engine, s->scoring, true, &s->next_alone, &number))
        status = start_alone(engine, home, number, false);
    return status;
}

enum mt_status mt_engine_start_continuations(struct mt_engine *engine)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < engine->slots; i++) {
        const struct engine_slot *slot = &engine->slot[i];
        bool has_prefix = slot->use == SLOT_HELD || slot->use == SLOT_CONTINUATION;
        if (has_prefix && slot->home == i) status = start_from(engine, i);
    }
    return status;
}

static enum mt_status finish_scoring(struct mt_engine *engine, struct engine_slot *home)
{
    const struct mt_scoring *scoring = home->scoring;
    if (home->shared_left + home->alone_left > 0) return MT_OK;
    clear(home, SLOT_FREE);
    engine->active--;
    return scoring->finished != NULL ? scoring->finished(scoring->self) : MT_OK;
}

enum mt_status mt_engine_finish_tokens(struct mt_engine *engine, int64_t slot)
{
    struct engine_slot *s = &engine->slot[slot];
    struct engine_slot *home = &engine->slot[s->home];
    if (s->use == SLOT_PREFIX) {
        for (size_t i = 0; i < s->scoring->continuations; i++) {
            if (!is_alone(engine, s->scoring, i) && s->scoring->continuation[i].count == 1) s->shared_left--;
        }
        s->use = SLOT_HELD;
        s->prefix_seen = true;
        return finish_scoring(engine, home);
    }
    if (is_alone(engine, s->scoring, s->continuation)) {
        home->alone_left--;
    } else {
        home->shared_left--;
    }
    if (s == home) {
        s->use = SLOT_HELD;
    } else {
        clear(s, SLOT_FREE);
    }
    return finish_scoring(engine, home);
}

// ------------------------------------------------------------------ admission

enum mt_status mt_engine_admit(struct mt_engine *engine)
{
    enum mt_status status = MT_OK;
    while (status == MT_OK && engine->line_count > 0) {
        struct engine_waiting first = engine->line[engine->line_first];
        struct beginning beginning = first.generation != NULL ? generation_beginning(engine, first.generation)
                                                              : scoring_beginning(engine, first.scoring);
        int64_t slot = free_slot(engine, &beginning);
        if (slot < 0) return MT_OK;
        engine->line_first++;
        engine->line_count--;
        status = first.generation != NULL ? start_generation(engine, first.generation, &beginning, slot)
                                          : start_scoring(engine, first.scoring, &beginning, slot);
    }
    if (engine->line_count == 0) engine->line_first = 0;
    return status;
}
