/*
 * The engine: its memory, the line of requests, what happens in a slot (generations append what they choose,
 * scorings look their ids up), and the batch of a step.
 */
#include "infer/engine.h"

#include <inttypes.h>
#include <string.h>

#include "arch/rope.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "formats/text/lists.h"

#define ARENA_BYTES  ((size_t)1 << 16)
#define PIECE_TOKENS 512
#define LOGIT_ROWS   32 // at the least, so that a scoring does not read the head's weights for every token

enum slot_use {
    SLOT_FREE,
    SLOT_GENERATION,
    SLOT_PREFIX,       // a scoring's prefix is being computed
    SLOT_HELD,         // a scoring's prefix is there; nothing is computed in this slot
    SLOT_CONTINUATION, // of a scoring whose prefix lies in slot `home`, which may be this one
};

struct engine_slot {
    enum slot_use use;
    int32_t *ids;         // [positions]: the tokens so far
    int64_t count;        // of them
    int64_t done;         // of them, in the cache
    int64_t seen;         // of them, computed at some time for this request
    int64_t first_wanted; // position of the first token whose logits are wanted

    const struct mt_generation *generation; // borrowed
    int64_t generated;

    const struct mt_scoring *scoring; // borrowed
    int64_t home;
    size_t continuation; // which one is computed here
    // of a home: continuations are begun in order, first those that share the prefix, then the others
    size_t next_shared, next_alone;
    size_t shared_left; // not finished
    size_t alone_left;
    bool prefix_seen; // some continuation has been begun
};

/* A request in line. */
struct engine_waiting {
    const struct mt_generation *generation; // one of the two
    const struct mt_scoring *scoring;
};

/* A row of the batch whose logits are wanted. */
struct engine_row {
    int32_t slot;
    int32_t position;
};

struct mt_engine {
    struct mt_context *ctx;   // borrowed
    struct mt_arena arena;    // of all arrays below but the line
    struct mt_model *model;   // borrowed
    struct mt_device *device; // borrowed
    const struct mt_model_desc *desc;
    int64_t slots, positions, piece;
    int64_t tokens;      // of a batch at the most
    int64_t prompt_keys; // likewise (mt_model_prompt_keys)
    struct engine_slot *slot;
    int64_t turn; // the slot that is asked first for its next piece
    struct mt_sampler sampler;
    // the line
    struct engine_waiting *line;
    size_t line_first, line_count, line_capacity;
    // the batch
    int32_t *ids;                      // [tokens]
    int32_t *offsets;                  // [slots+1]
    struct mt_cached_sequence *cached; // [slots]
    int32_t *fed;                      // [slots]: tokens each slot has in it
    int32_t *wanted;                   // [tokens]: rows of the batch
    struct engine_row *row;            // [tokens]: what each of those is
    int32_t *is_new;                   // [tokens]: 0 where a token was computed before
    bool all_new;
    int64_t sequences, batch_tokens, wanted_count;
    // logits of some rows at a time
    int64_t logit_rows;
    struct mt_buffer logits; // f32 [logit_rows, V]
    float *host_logits;      // the same, where the device's memory cannot be read; else NULL
    struct mt_engine_counts counts;
    size_t active; // requests that hold slots
};

static int64_t piece_of(const struct mt_engine_options *options)
{
    int64_t piece = options->piece > 0 ? options->piece : PIECE_TOKENS;
    return piece < options->positions ? piece : options->positions;
}

void mt_engine_model_options(const struct mt_engine_options *options, struct mt_model_options *model)
{
    model->tokens = options->slots + piece_of(options);
    model->sequences = options->slots;
    model->positions = options->positions;
    model->cache = true;
}

// ------------------------------------------------------------------ making

static enum mt_status take_memory(struct mt_engine *engine)
{
    struct mt_arena *arena = &engine->arena;
    size_t slots = (size_t)engine->slots;
    size_t tokens = (size_t)engine->tokens;
    enum mt_status status = MT_OK;
    engine->slot = mt_arena_array(arena, slots, sizeof *engine->slot, &status);
    engine->ids = mt_arena_array(arena, tokens, sizeof *engine->ids, &status);
    engine->offsets = mt_arena_array(arena, slots + 1, sizeof *engine->offsets, &status);
    engine->cached = mt_arena_array(arena, slots, sizeof *engine->cached, &status);
    engine->fed = mt_arena_array(arena, slots, sizeof *engine->fed, &status);
    engine->wanted = mt_arena_array(arena, tokens, sizeof *engine->wanted, &status);
    engine->row = mt_arena_array(arena, tokens, sizeof *engine->row, &status);
    engine->is_new = mt_arena_array(arena, tokens, sizeof *engine->is_new, &status);
    for (size_t i = 0; status == MT_OK && i < slots; i++)
        engine->slot[i].ids = mt_arena_array(arena, (size_t)engine->positions, sizeof(int32_t), &status);
    return status;
}

static size_t logit_bytes(const struct mt_engine *engine)
{
    return (size_t)engine->logit_rows * (size_t)engine->desc->vocabulary * sizeof(float);
}

static enum mt_status make_logits(struct mt_engine *engine)
{
    void *host = NULL;
    enum mt_status status = mt_device_buffer_create(engine->device, logit_bytes(engine), &engine->logits);
    if (status == MT_OK && !mt_device_on_host(engine->device))
        status = mt_allocate(engine->ctx, logit_bytes(engine), &host);
    engine->host_logits = host;
    return status;
}

enum mt_status mt_engine_create(struct mt_model *model, const struct mt_engine_options *options,
                                struct mt_engine **engine)
{
    struct mt_device *device = mt_model_device(model);
    struct mt_context *ctx = mt_device_context(device);
    void *memory = NULL;
    *engine = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **engine, &memory);
    if (status != MT_OK) return status;
    struct mt_engine *made = memory;
    made->ctx = ctx;
    mt_arena_init(&made->arena, ctx, ARENA_BYTES);
    made->model = model;
    made->device = device;
    made->desc = mt_model_description(model);
    made->slots = options->slots;
    made->positions = options->positions;
    made->piece = piece_of(options);
    made->tokens = made->slots + made->piece;
    struct mt_model_options opened = {0};
    mt_engine_model_options(options, &opened);
    made->prompt_keys = mt_model_prompt_keys(&opened);
    made->logit_rows = made->slots > LOGIT_ROWS ? made->slots : LOGIT_ROWS;
    status = take_memory(made);
    if (status == MT_OK) status = make_logits(made);
    if (status == MT_OK) status = mt_sampler_create(ctx, made->desc->vocabulary, &made->sampler);
    if (status != MT_OK) {
        mt_engine_destroy(made);
        return status;
    }
    *engine = made;
    return MT_OK;
}

void mt_engine_destroy(struct mt_engine *engine)
{
    if (engine == NULL) return;
    struct mt_context *ctx = engine->ctx;
    mt_sampler_destroy(&engine->sampler);
    mt_buffer_release(&engine->logits);
    mt_release(ctx, engine->host_logits, logit_bytes(engine));
    mt_arena_free(&engine->arena);
    mt_release(ctx, engine->line, engine->line_capacity * sizeof *engine->line);
    mt_release(ctx, engine, sizeof *engine);
}

// ------------------------------------------------------------------ the line

static enum mt_status join(struct mt_engine *engine, struct engine_waiting waiting)
{
    if (engine->line_first > 0 && engine->line_first + engine->line_count == engine->line_capacity) {
        memmove(engine->line, engine->line + engine->line_first, engine->line_count * sizeof *engine->line);
        engine->line_first = 0;
    }
    size_t end = engine->line_first + engine->line_count;
    void *line = engine->line;
    enum mt_status status =
        mt_list_reserve(engine->ctx, &line, &engine->line_capacity, sizeof *engine->line, end + 1);
    engine->line = line;
    if (status != MT_OK) return status;
    engine->line[end] = waiting;
    engine->line_count++;
    return MT_OK;
}

static enum mt_status check_ids(const struct mt_engine *engine, const char *what, const int32_t *ids,
                                int64_t count)
{
    if (count < 1) return mt_fail(engine->ctx, MT_ERR_USAGE, "%s has no tokens", what);
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] >= 0 && ids[i] < engine->desc->vocabulary) continue;
        return mt_fail(engine->ctx, MT_ERR_USAGE,
                       "%s has the token %" PRId32 ", but the model's vocabulary ends at %" PRId64, what,
                       ids[i], engine->desc->vocabulary - 1);
    }
    return MT_OK;
}

static enum mt_status check_length(const struct mt_engine *engine, const char *what, int64_t length)
{
    if (length <= engine->positions) return MT_OK;
    return mt_fail(engine->ctx, MT_ERR_USAGE, "%s has %" PRId64 " tokens, there is room for %" PRId64, what,
                   length, engine->positions);
}

enum mt_status mt_engine_add_generation(struct mt_engine *engine, const struct mt_generation *generation)
{
    enum mt_status status = check_ids(engine, "the prompt", generation->ids, generation->count);
    if (status == MT_OK) status = check_length(engine, "the prompt", generation->count);
    if (status == MT_OK) status = mt_sampling_check(engine->ctx, &generation->sampling);
    if (status != MT_OK) return status;
    if (generation->max_new < 1)
        return mt_fail(engine->ctx, MT_ERR_USAGE, "an answer of at most %" PRId64 " tokens",
                       generation->max_new);
    return join(engine, (struct engine_waiting){.generation = generation});
}

enum mt_status mt_engine_add_scoring(struct mt_engine *engine, const struct mt_scoring *scoring)
{
    enum mt_status status = check_ids(engine, "the prefix", scoring->ids, scoring->count);
    if (status == MT_OK) status = check_length(engine, "the prefix", scoring->count);
    for (size_t i = 0; status == MT_OK && i < scoring->continuations; i++) {
        const struct mt_continuation *continuation = &scoring->continuation[i];
        status = check_ids(engine, "a continuation", continuation->ids, continuation->count);
        // Its last token is looked up, not computed with.
        if (status == MT_OK)
            status = check_length(engine, "a continuation with its prefix",
                                  scoring->count + continuation->count - 1);
    }
    if (status != MT_OK) return status;
    if (scoring->continuations == 0)
        return mt_fail(engine->ctx, MT_ERR_USAGE, "a prefix without a continuation");
    return join(engine, (struct engine_waiting){.scoring = scoring});
}

// ------------------------------------------------------------------ slots

static int64_t free_slot(const struct mt_engine *engine)
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

// ------------------------------------------------------------------ a slot that generates

static void start_generation(struct mt_engine *engine, int64_t slot, const struct mt_generation *generation)
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

static void start_scoring(struct mt_engine *engine, int64_t slot, const struct mt_scoring *scoring)
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

static enum mt_status take_logits(struct mt_engine *engine, int64_t slot, int64_t position, float *logits)
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

/* For one home: the first in its own slot, others where there is room. */
static enum mt_status start_from(struct mt_engine *engine, int64_t home)
{
    struct engine_slot *s = &engine->slot[home];
    size_t number = 0;
    enum mt_status status = MT_OK;
    while (status == MT_OK) {
        int64_t slot = s->use == SLOT_HELD ? home : free_slot(engine);
        if (slot < 0 || !next_continuation(engine, s->scoring, false, &s->next_shared, &number)) break;
        status = start_continuation(engine, home, slot, number, false);
    }
    // These overwrite the prefix: they come when nobody needs it any more.
    if (status == MT_OK && s->use == SLOT_HELD && s->shared_left == 0 &&
        next_continuation(engine, s->scoring, true, &s->next_alone, &number))
        status = start_continuation(engine, home, home, number, true);
    return status;
}

static enum mt_status start_continuations(struct mt_engine *engine)
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

static enum mt_status finish_tokens(struct mt_engine *engine, int64_t slot)
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

/* Those first in line take the slots that are free. */
static void admit(struct mt_engine *engine)
{
    while (engine->line_count > 0) {
        int64_t slot = free_slot(engine);
        if (slot < 0) return;
        struct engine_waiting first = engine->line[engine->line_first++];
        engine->line_count--;
        if (first.generation != NULL) {
            start_generation(engine, slot, first.generation);
        } else {
            start_scoring(engine, slot, first.scoring);
        }
    }
    engine->line_first = 0;
}

// ------------------------------------------------------------------ a batch

static bool computes(const struct engine_slot *slot)
{
    return slot->use != SLOT_FREE && slot->use != SLOT_HELD;
}

/*
 * Tokens of the slot's next piece. Pieces end at fixed positions, so that how a sequence is cut, and with it
 * what is rounded, does not depend on the room others leave.
 */
static int64_t next_piece(const struct mt_engine *engine, const struct engine_slot *slot)
{
    int64_t rest = slot->count - slot->done;
    int64_t piece = engine->piece - slot->done % engine->piece;
    return rest < piece ? rest : piece;
}

static void add_to_batch(struct mt_engine *engine, int64_t number, int64_t tokens)
{
    const struct engine_slot *slot = &engine->slot[number];
    int64_t first = engine->batch_tokens;
    int64_t b = engine->sequences++;
    memcpy(engine->ids + first, slot->ids + slot->done, (size_t)tokens * sizeof *engine->ids);
    for (int64_t i = 0; i < tokens; i++) {
        int64_t position = slot->done + i;
        engine->is_new[first + i] = position >= slot->seen;
        if (position < slot->seen) engine->all_new = false;
        if (position < slot->first_wanted) continue;
        engine->wanted[engine->wanted_count] = (int32_t)(first + i);
        engine->row[engine->wanted_count++] =
            (struct engine_row){.slot = (int32_t)number, .position = (int32_t)position};
    }
    engine->batch_tokens += tokens;
    engine->offsets[b + 1] = (int32_t)engine->batch_tokens;
    engine->cached[b] = (struct mt_cached_sequence){
        .slot = (int32_t)number, .past = (int32_t)slot->done, .length = (int32_t)slot->count};
    engine->fed[number] = (int32_t)tokens;
}

/* Pieces of so many tokens, as far as there is room for them and, of prompts, for the tokens they see. */
static void add_pieces(struct mt_engine *engine, int64_t least, int64_t most)
{
    int64_t keys = 0;
    for (int64_t i = 0; i < engine->slots; i++) {
        int64_t number = (engine->turn + i) % engine->slots;
        const struct engine_slot *slot = &engine->slot[number];
        if (!computes(slot) || engine->fed[number] > 0) continue;
        int64_t tokens = next_piece(engine, slot);
        int64_t seen = tokens < MT_PROMPT_TOKENS ? 0 : slot->done + tokens;
        if (tokens < least || tokens > most || engine->batch_tokens + tokens > engine->tokens) continue;
        if (keys + seen > engine->prompt_keys) continue;
        keys += seen;
        add_to_batch(engine, number, tokens);
    }
}

/* Every sequence that waits for one token gets it; then pieces of prompts, as far as there is room. */
static void fill_batch(struct mt_engine *engine)
{
    engine->sequences = 0;
    engine->batch_tokens = 0;
    engine->wanted_count = 0;
    engine->all_new = true;
    memset(engine->fed, 0, (size_t)engine->slots * sizeof *engine->fed);
    for (int64_t i = 0; i < engine->slots; i++) {
        if (computes(&engine->slot[i]) && next_piece(engine, &engine->slot[i]) == 1)
            add_to_batch(engine, i, 1);
    }
    add_pieces(engine, 1, MT_PROMPT_TOKENS - 1);
    add_pieces(engine, MT_PROMPT_TOKENS, engine->piece);
    engine->turn = (engine->turn + 1) % engine->slots;
}

/* Counts what was computed. A generation's single tokens are its answer's. */
static void move_on(struct mt_engine *engine)
{
    engine->counts.steps++;
    for (int64_t i = 0; i < engine->slots; i++) {
        struct engine_slot *slot = &engine->slot[i];
        slot->done += engine->fed[i];
        if (slot->seen < slot->done) slot->seen = slot->done;
        if (slot->use != SLOT_GENERATION || slot->generated == 0)
            engine->counts.prompt_tokens += engine->fed[i];
    }
}

/* Logits of wanted rows [first, first+count), handed to their slots. */
static enum mt_status hand_out(struct mt_engine *engine, int64_t first, int64_t count)
{
    int64_t vocabulary = engine->desc->vocabulary;
    struct mt_tensor logits = mt_tensor_2d(engine->logits.data, MT_F32, count, vocabulary);
    enum mt_status status = mt_model_logits_of(engine->model, engine->wanted + first, count, &logits);
    float *values = engine->logits.data;
    if (status == MT_OK && engine->host_logits != NULL) {
        values = engine->host_logits;
        status = mt_device_download(engine->device, values, engine->logits.data,
                                    (size_t)(count * vocabulary) * sizeof(float));
    }
    for (int64_t i = 0; status == MT_OK && i < count; i++) {
        const struct engine_row *row = &engine->row[first + i];
        status = take_logits(engine, row->slot, row->position, values + i * vocabulary);
    }
    return status;
}

static enum mt_status compute(struct mt_engine *engine)
{
    struct mt_batch batch = {.tokens = engine->batch_tokens,
                             .sequences = engine->sequences,
                             .ids = engine->ids,
                             .offsets = engine->offsets,
                             .loss_only = true,
                             .cached = engine->cached};
    struct mt_model_loss loss;
    enum mt_status status = mt_model_forward(engine->model, &batch, &loss);
    if (status != MT_OK) return status;
    move_on(engine);
    for (int64_t first = 0; status == MT_OK && first < engine->wanted_count; first += engine->logit_rows) {
        int64_t count = engine->wanted_count - first;
        status = hand_out(engine, first, count < engine->logit_rows ? count : engine->logit_rows);
    }
    for (int64_t i = 0; status == MT_OK && i < engine->slots; i++) {
        const struct engine_slot *slot = &engine->slot[i];
        bool scores = slot->use == SLOT_PREFIX || slot->use == SLOT_CONTINUATION;
        if (scores && engine->fed[i] > 0 && slot->done == slot->count) status = finish_tokens(engine, i);
    }
    return status;
}

enum mt_status mt_engine_step(struct mt_engine *engine, bool *working)
{
    *working = false;
    enum mt_status status = start_continuations(engine);
    if (status != MT_OK) return status;
    admit(engine);
    status = start_continuations(engine); // of those that need no prefix first
    if (status != MT_OK) return status;
    fill_batch(engine);
    if (engine->sequences == 0) return MT_OK;
    *working = true;
    return compute(engine);
}

void mt_engine_forget(struct mt_engine *engine)
{
    for (int64_t i = 0; i < engine->slots; i++) clear(&engine->slot[i], SLOT_FREE);
    engine->line_count = 0;
    engine->line_first = 0;
    engine->active = 0;
}

const int32_t *mt_engine_new_tokens(const struct mt_engine *engine)
{
    return engine->all_new ? NULL : engine->is_new;
}

int64_t mt_engine_sequences(const struct mt_engine *engine)
{
    return engine->sequences;
}

struct mt_engine_sequence mt_engine_sequence(const struct mt_engine *engine, int64_t index)
{
    const struct mt_cached_sequence *cached = &engine->cached[index];
    const struct engine_slot *slot = &engine->slot[cached->slot];
    struct mt_engine_sequence sequence = {.tokens = engine->offsets[index + 1] - engine->offsets[index],
                                          .position = cached->past};
    if (slot->use == SLOT_GENERATION) {
        sequence.request = slot->generation->number;
        return sequence;
    }
    sequence.request = slot->scoring->number;
    sequence.prefix = slot->scoring->count;
    if (slot->use == SLOT_CONTINUATION) sequence.later = slot->continuation + 1;
    return sequence;
}

size_t mt_engine_requests(const struct mt_engine *engine)
{
    return engine->line_count + engine->active;
}

struct mt_engine_counts mt_engine_counts(const struct mt_engine *engine)
{
    return engine->counts;
}
