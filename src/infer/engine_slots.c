/* What happens in a slot: generations append what they choose, scorings look their ids up. */
#include <math.h>
#include <string.h>

#include "arch/rope.h"
#include "infer/engine_parts.h"

int64_t engine_free_slot(const struct mt_engine *engine)
{
    for (int64_t i = 0; i < engine->slots; i++) {
        if (engine->slot[i].use == SLOT_FREE) return i;
    }
    return -1;
}

/* A slot without a past; its memory stays. */
static void clear(struct engine_slot *slot, enum slot_use use)
{
    *slot = (struct engine_slot){.use = use, .ids = slot->ids};
}

void engine_free(struct mt_engine *engine, int64_t slot)
{
    clear(&engine->slot[slot], SLOT_FREE);
}

static void append(struct engine_slot *slot, const int32_t *ids, int64_t count)
{
    memcpy(slot->ids + slot->count, ids, (size_t)count * sizeof *ids);
    slot->count += count;
}

/* True when a sequence is rotated otherwise once it is so much longer: the cache is then of no use to it. */
static bool rotation_changes(const struct mt_engine *engine, int64_t before, int64_t after)
{
    return mt_model_rope_start(engine->desc, before) != mt_model_rope_start(engine->desc, after);
}

// ------------------------------------------------------------------ generations

void engine_start_generation(struct mt_engine *engine, int64_t slot, const struct mt_generation *generation)
{
    struct engine_slot *s = &engine->slot[slot];
    clear(s, SLOT_GENERATION);
    s->generation = generation;
    append(s, generation->ids, generation->count);
    s->first_wanted = s->count - 1;
    engine->active++;
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

static enum mt_status go_on(struct mt_engine *engine, struct engine_slot *slot, float *logits)
{
    const struct mt_generation *generation = slot->generation;
    struct mt_sampling_place place = {
        .request = generation->number, .position = slot->count, .past = slot->ids};
    int32_t id = mt_sampler_choose(&engine->sampler, &generation->sampling, &place, logits);
    if (is_stop(generation, id)) return finish_generation(engine, slot, MT_FINISH_STOP_TOKEN);
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
    if (rotation_changes(engine, slot->count - 1, slot->count)) slot->done = 0;
    return MT_OK;
}

// ------------------------------------------------------------------ scorings

/*
 * True when a continuation is computed with its prefix in one go: when it is the only one, and when it makes
 * the sequence so long that the prefix's tokens are rotated otherwise.
 */
static bool is_alone(const struct mt_engine *engine, const struct mt_scoring *scoring, size_t number)
{
    int64_t length = scoring->count + scoring->continuation[number].count - 1;
    return scoring->continuations == 1 || rotation_changes(engine, scoring->count, length);
}

void engine_start_scoring(struct mt_engine *engine, int64_t slot, const struct mt_scoring *scoring)
{
    struct engine_slot *s = &engine->slot[slot];
    clear(s, SLOT_PREFIX);
    s->scoring = scoring;
    s->home = slot;
    for (size_t i = 0; i < scoring->continuations; i++) {
        if (is_alone(engine, scoring, i)) {
            s->alone_left++;
        } else {
            s->shared_left++;
        }
    }
    append(s, scoring->ids, scoring->count);
    s->first_wanted = s->count - 1;
    if (s->shared_left == 0) s->use = SLOT_HELD;
    engine->active++;
}

/* log p of an id, added to a continuation, of which it is number `index`. */
static void add_score(const float *logits, double log_sum, int32_t highest, int64_t index,
                      struct mt_continuation *continuation)
{
    int32_t id = continuation->ids[index];
    double score = (double)logits[id] - log_sum;
    if (index == 0) {
        continuation->log_probability = 0.0;
        continuation->greedy = true;
    }
    continuation->log_probability += score;
    continuation->greedy = continuation->greedy && id == highest;
    if (continuation->each != NULL) continuation->each[index] = (float)score;
}

static void take_scores(const struct mt_engine *engine, const struct engine_slot *slot, int64_t position,
                        const float *logits)
{
    const struct mt_scoring *scoring = slot->scoring;
    int32_t highest = mt_logits_highest(logits, engine->desc->vocabulary);
    double log_sum = mt_logits_log_sum(logits, engine->desc->vocabulary);
    int64_t index = position + 1 - scoring->count;
    if (slot->use == SLOT_CONTINUATION) {
        add_score(logits, log_sum, highest, index, &scoring->continuation[slot->continuation]);
        return;
    }
    // The end of the prefix says how likely each continuation's first id is.
    for (size_t i = 0; i < scoring->continuations; i++) {
        if (!is_alone(engine, scoring, i)) add_score(logits, log_sum, highest, 0, &scoring->continuation[i]);
    }
}

enum mt_status engine_take_logits(struct mt_engine *engine, int64_t slot, int64_t position, float *logits)
{
    struct engine_slot *s = &engine->slot[slot];
    if (!mt_logits_finite(logits, engine->desc->vocabulary)) {
        return mt_fail(
            engine->ctx, MT_ERR_NUMERIC,
            "the model's logits after token %lld are not finite numbers: its weights, or the adapter's, "
            "are damaged or too large",
            (long long)position + 1);
    }
    if (s->use == SLOT_GENERATION) return go_on(engine, s, logits);
    take_scores(engine, s, position, logits);
    return MT_OK;
}

/* Begins continuation `number` of a home's scoring in a slot, which may be the home itself. */
static enum mt_status start_continuation(struct mt_engine *engine, int64_t home, int64_t slot, size_t number,
                                         bool alone)
{
    const struct mt_scoring *scoring = engine->slot[home].scoring;
    const struct mt_continuation *continuation = &scoring->continuation[number];
    struct engine_slot *s = &engine->slot[slot];
    if (slot != home) {
        clear(s, SLOT_CONTINUATION);
        s->scoring = scoring;
        s->home = home;
        enum mt_status status = mt_model_copy_slot(engine->model, home, slot, scoring->count);
        if (status != MT_OK) return status;
    }
    s->use = SLOT_CONTINUATION;
    s->continuation = number;
    s->count = 0;
    append(s, scoring->ids, scoring->count);
    append(s, continuation->ids, continuation->count - 1);
    s->done = alone ? 0 : scoring->count;
    // A prefix that is computed again for a later continuation was seen with the first.
    s->seen = alone && !engine->slot[home].prefix_seen ? 0 : scoring->count;
    engine->slot[home].prefix_seen = true;
    s->first_wanted = alone ? scoring->count - 1 : scoring->count;
    return MT_OK;
}

/* The next continuation of a home that shares its prefix and has more than one id; false: none is left. */
static bool next_shared(const struct mt_engine *engine, struct engine_slot *home, size_t *number)
{
    const struct mt_scoring *scoring = home->scoring;
    while (home->next_shared < scoring->continuations) {
        size_t i = home->next_shared++;
        if (is_alone(engine, scoring, i) || scoring->continuation[i].count == 1) continue;
        *number = i;
        return true;
    }
    return false;
}

static bool next_alone(const struct mt_engine *engine, struct engine_slot *home, size_t *number)
{
    const struct mt_scoring *scoring = home->scoring;
    while (home->next_alone < scoring->continuations) {
        size_t i = home->next_alone++;
        if (!is_alone(engine, scoring, i)) continue;
        *number = i;
        return true;
    }
    return false;
}

/* For one home: the first in its own slot, others where there is room. */
static enum mt_status start_from(struct mt_engine *engine, int64_t home)
{
    struct engine_slot *s = &engine->slot[home];
    size_t number = 0;
    enum mt_status status = MT_OK;
    while (status == MT_OK) {
        int64_t slot = s->use == SLOT_HELD ? home : engine_free_slot(engine);
        if (slot < 0 || !next_shared(engine, s, &number)) break;
        status = start_continuation(engine, home, slot, number, false);
    }
    // These overwrite the prefix: they come when nobody needs it any more.
    if (status == MT_OK && s->use == SLOT_HELD && s->shared_left == 0 && next_alone(engine, s, &number))
        status = start_continuation(engine, home, home, number, true);
    return status;
}

enum mt_status engine_start_continuations(struct mt_engine *engine)
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

enum mt_status engine_finish_tokens(struct mt_engine *engine, int64_t slot)
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
