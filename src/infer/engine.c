/* The engine: its memory, the line of requests, and the batch of a step. What happens in a slot:
 * engine_slots.c.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/lists.h"
#include "infer/engine_struct.h"

#define ARENA_BYTES  ((size_t)1 << 16)
#define PIECE_TOKENS 128
#define PASS_TOKENS  512
#define LOGIT_ROWS   32 // at the least, so that a scoring does not read the head's weights for every token

static int64_t piece_of(const struct mt_engine_options *options)
{
    int64_t piece = options->piece > 0 ? options->piece : PIECE_TOKENS;
    return piece < options->positions ? piece : options->positions;
}

/* No more than all slots together can hold. */
static int64_t pass_tokens_of(const struct mt_engine_options *options)
{
    int64_t piece = piece_of(options);
    int64_t pass = options->pass_tokens > 0 ? options->pass_tokens : PASS_TOKENS;
    int64_t all = options->slots * options->positions;
    if (pass > all) pass = all;
    return pass > piece ? pass : piece;
}

void mt_engine_model_options(const struct mt_engine_options *options, struct mt_model_options *model)
{
    int64_t pass = pass_tokens_of(options);
    model->tokens = options->slots + pass;
    // A token of every slot, and pieces: the first and the last that a slot has in a batch may be short.
    model->sequences = 2 * options->slots + pass / piece_of(options);
    model->cache_slots = options->slots;
    model->positions = options->positions;
    model->logit_rows = options->slots > LOGIT_ROWS ? options->slots : LOGIT_ROWS;
    model->cache = true;
}

// ------------------------------------------------------------------ making

static enum mt_status take_memory(struct mt_engine *engine)
{
    struct mt_arena *arena = &engine->arena;
    size_t slots = (size_t)engine->slots;
    size_t tokens = (size_t)engine->tokens;
    size_t sequences = (size_t)engine->most_sequences;
    enum mt_status status = MT_OK;
    engine->slot = mt_arena_array(arena, slots, sizeof *engine->slot, &status);
    engine->ids = mt_arena_array(arena, tokens, sizeof *engine->ids, &status);
    engine->offsets = mt_arena_array(arena, sequences + 1, sizeof *engine->offsets, &status);
    engine->cached = mt_arena_array(arena, sequences, sizeof *engine->cached, &status);
    engine->fed = mt_arena_array(arena, slots, sizeof *engine->fed, &status);
    engine->wanted = mt_arena_array(arena, tokens, sizeof *engine->wanted, &status);
    engine->row = mt_arena_array(arena, tokens, sizeof *engine->row, &status);
    engine->is_new = mt_arena_array(arena, tokens, sizeof *engine->is_new, &status);
    for (size_t i = 0; status == MT_OK && i < slots; i++) {
        engine->slot[i].ids = mt_arena_array(arena, (size_t)engine->positions, sizeof(int32_t), &status);
        mt_engine_free_slot(&engine->slot[i]);
    }
    return status;
}

static enum mt_status make_logits(struct mt_engine *engine)
{
    struct mt_device *device = engine->device;
    struct mt_arena *arena = &engine->arena;
    size_t rows = (size_t)engine->logit_rows;
    size_t bytes = rows * (size_t)engine->desc->vocabulary * sizeof(float);
    enum mt_status status = mt_device_buffer_create(device, bytes, &engine->logits);
    if (status == MT_OK && !mt_device_on_host(device))
        status = mt_device_staging_create(device, bytes, &engine->host_logits);
    if (status == MT_OK)
        status = mt_device_buffer_create(device, rows * sizeof(double), &engine->device_log_sum);
    if (status == MT_OK)
        status = mt_device_buffer_create(device, rows * sizeof(int32_t), &engine->device_highest);
    if (status == MT_OK)
        status = mt_device_buffer_create(device, MT_ENGINE_PICKS * sizeof(int32_t), &engine->device_places);
    if (status == MT_OK)
        status = mt_device_buffer_create(device, MT_ENGINE_PICKS * sizeof(float), &engine->device_picked);
    engine->log_sum = mt_arena_array(arena, rows, sizeof *engine->log_sum, &status);
    engine->highest = mt_arena_array(arena, rows, sizeof *engine->highest, &status);
    engine->places = mt_arena_array(arena, MT_ENGINE_PICKS, sizeof *engine->places, &status);
    engine->picked = mt_arena_array(arena, MT_ENGINE_PICKS, sizeof *engine->picked, &status);
    engine->pick = mt_arena_array(arena, MT_ENGINE_PICKS, sizeof *engine->pick, &status);
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
    struct mt_model_options sizes = {0};
    mt_engine_model_options(options, &sizes);
    made->ctx = ctx;
    mt_arena_init(&made->arena, ctx, ARENA_BYTES);
    made->model = model;
    made->device = device;
    made->desc = mt_model_description(model);
    made->slots = options->slots;
    made->positions = options->positions;
    made->piece = piece_of(options);
    made->tokens = sizes.tokens;
    made->most_sequences = sizes.sequences;
    made->prompt_keys = mt_model_prompt_keys(&sizes);
    made->logit_rows = sizes.logit_rows;
    // Places in all logits at hand are counted in 32 bits.
    if (made->logit_rows > INT32_MAX / made->desc->vocabulary)
        made->logit_rows = INT32_MAX / made->desc->vocabulary;
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
    mt_buffer_release(&engine->host_logits);
    mt_buffer_release(&engine->device_log_sum);
    mt_buffer_release(&engine->device_highest);
    mt_buffer_release(&engine->device_places);
    mt_buffer_release(&engine->device_picked);
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
    enum mt_status status = MT_OK;
    engine->line = mt_list_reserve(engine->ctx, engine->line, &engine->line_capacity, sizeof *engine->line,
                                   end + 1, &status);
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
        return mt_fail(engine->ctx, MT_ERR_USAGE, "max_new is %" PRId64 ", expected at least 1",
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
        return mt_fail(engine->ctx, MT_ERR_USAGE, "the prefix has no continuation");
    return join(engine, (struct engine_waiting){.scoring = scoring});
}

// ------------------------------------------------------------------ a batch

/*
 * Tokens of the slot's piece that begins at a position. Pieces end at fixed positions, so that how a sequence
 * is cut, and with it what is rounded, does not depend on the room others leave.
 */
static int64_t piece_at(const struct mt_engine *engine, const struct engine_slot *slot, int64_t position)
{
    int64_t rest = slot->count - position;
    int64_t piece = engine->piece - position % engine->piece;
    return rest < piece ? rest : piece;
}

/* What a batch has taken so far. */
struct batch_room {
    int64_t tokens, sequences;
    int64_t keys; // of prompts, those of a slot counted for each of its pieces
};

/* Takes as many of a slot's pieces as there is room for. */
static void choose_pieces(struct mt_engine *engine, int64_t number, struct batch_room *used)
{
    const struct engine_slot *slot = &engine->slot[number];
    for (int64_t at = slot->done + engine->fed[number]; at < slot->count;) {
        int64_t tokens = piece_at(engine, slot, at);
        int64_t keys = tokens < MT_PROMPT_TOKENS ? 0 : at + tokens;
        if (used->tokens + tokens > engine->tokens || used->sequences == engine->most_sequences ||
            used->keys + keys > engine->prompt_keys)
            return;
        *used = (struct batch_room){used->tokens + tokens, used->sequences + 1, used->keys + keys};
        engine->fed[number] += (int32_t)tokens;
        at += tokens;
    }
}

/* Every sequence that waits for one token gets it; then pieces of prompts, as far as there is room. */
static void choose_tokens(struct mt_engine *engine)
{
    struct batch_room used = {0};
    memset(engine->fed, 0, (size_t)engine->slots * sizeof *engine->fed);
    for (int64_t i = 0; i < engine->slots; i++) {
        const struct engine_slot *slot = &engine->slot[i];
        if (mt_engine_slot_computes(slot) && slot->count - slot->done == 1) choose_pieces(engine, i, &used);
    }
    for (int64_t i = 0; i < engine->slots; i++) {
        int64_t number = (engine->turn + i) % engine->slots;
        if (mt_engine_slot_computes(&engine->slot[number])) choose_pieces(engine, number, &used);
    }
    engine->turn = (engine->turn + 1) % engine->slots;
}

static void add_to_batch(struct mt_engine *engine, int64_t number, int64_t past, int64_t tokens)
{
    const struct engine_slot *slot = &engine->slot[number];
    int64_t first = engine->batch_tokens;
    int64_t b = engine->sequences++;
    memcpy(engine->ids + first, slot->ids + past, (size_t)tokens * sizeof *engine->ids);
    for (int64_t i = 0; i < tokens; i++) {
        int64_t position = past + i;
        engine->is_new[first + i] = position >= slot->seen;
        if (position < slot->seen) engine->all_new = false;
        if (position < slot->first_wanted) continue;
        engine->row[engine->wanted_count++] = (struct engine_row){
            .slot = (int32_t)number, .position = (int32_t)position, .row = (int32_t)(first + i)};
    }
    engine->batch_tokens += tokens;
    engine->offsets[b + 1] = (int32_t)engine->batch_tokens;
    engine->cached[b] = (struct mt_cached_sequence){
        .slot = (int32_t)number, .past = (int32_t)past, .length = (int32_t)slot->count};
}

/*
 * The chosen pieces that are (not) long enough to count as prompts. A slot's later piece reads keys that an
 * earlier one of the same batch writes: each layer writes all keys before it reads any.
 */
static void add_pieces(struct mt_engine *engine, bool prompts)
{
    for (int64_t i = 0; i < engine->slots; i++) {
        const struct engine_slot *slot = &engine->slot[i];
        int64_t tokens = 0;
        for (int64_t at = slot->done; at < slot->done + engine->fed[i]; at += tokens) {
            tokens = piece_at(engine, slot, at);
            if ((tokens >= MT_PROMPT_TOKENS) == prompts) add_to_batch(engine, i, at, tokens);
        }
    }
}

static int compare_rows(const void *left, const void *right)
{
    const struct engine_row *a = left;
    const struct engine_row *b = right;
    if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* Prompts come last, as the model wants them; a slot takes its logits in the order of its tokens. */
static void fill_batch(struct mt_engine *engine)
{
    engine->sequences = 0;
    engine->batch_tokens = 0;
    engine->wanted_count = 0;
    engine->all_new = true;
    choose_tokens(engine);
    add_pieces(engine, false);
    add_pieces(engine, true);
    qsort(engine->row, (size_t)engine->wanted_count, sizeof *engine->row, compare_rows);
    for (int64_t i = 0; i < engine->wanted_count; i++) engine->wanted[i] = engine->row[i].row;
}

/* Counts what was computed. A generation's single tokens are its answer's. */
static void move_on(struct mt_engine *engine)
{
    engine->counts.steps++;
    for (int64_t b = 0; b < engine->sequences; b++) {
        struct engine_slot *slot = &engine->slot[engine->cached[b].slot];
        int64_t tokens = engine->offsets[b + 1] - engine->offsets[b];
        if (engine->cached[b].past == slot->whole && tokens == engine->piece) slot->whole += tokens;
    }
    for (int64_t i = 0; i < engine->slots; i++) {
        struct engine_slot *slot = &engine->slot[i];
        slot->done += engine->fed[i];
        if (slot->seen < slot->done) slot->seen = slot->done;
        if (slot->use != SLOT_GENERATION || slot->generated == 0)
            engine->counts.prompt_tokens += engine->fed[i];
    }
}

/* What the slots of wanted rows [first, first+count) need of the logits at hand, fetched from the device. */
static enum mt_status fetch_rows(struct mt_engine *engine, int64_t first, int64_t count,
                                 const struct mt_tensor *logits)
{
    struct mt_device *device = engine->device;
    bool scores = false;
    bool reads = false;
    for (int64_t i = first; i < first + count; i++) {
        const struct engine_slot *slot = &engine->slot[engine->row[i].slot];
        scores = scores || slot->use != SLOT_GENERATION;
        reads = reads || mt_engine_slot_reads(slot);
    }
    struct mt_logit_summary_args summary = {
        .logits = *logits, .highest = mt_tensor_1d(engine->device_highest.data, MT_I32, count)};
    if (scores) summary.log_sum = mt_tensor_1d(engine->device_log_sum.data, MT_F64, count);
    enum mt_status status = mt_logit_summary(device, &summary);
    if (status == MT_OK)
        status = mt_device_download(device, engine->highest, engine->device_highest.data,
                                    (size_t)count * sizeof *engine->highest);
    if (status == MT_OK && scores)
        status = mt_device_download(device, engine->log_sum, engine->device_log_sum.data,
                                    (size_t)count * sizeof *engine->log_sum);
    if (status == MT_OK && reads && engine->host_logits.data != NULL)
        status = mt_device_download(device, engine->host_logits.data, engine->logits.data,
                                    (size_t)mt_tensor_count(logits) * sizeof(float));
    return status;
}

/* Logits of wanted rows [first, first+count), handed to their slots. */
static enum mt_status hand_out(struct mt_engine *engine, int64_t first, int64_t count)
{
    int64_t vocabulary = engine->desc->vocabulary;
    struct mt_tensor logits = mt_tensor_2d(engine->logits.data, MT_F32, count, vocabulary);
    enum mt_status status = mt_model_logits_of(engine->model, engine->wanted + first, count, &logits);
    if (status == MT_OK) status = fetch_rows(engine, first, count, &logits);
    float *values = engine->host_logits.data != NULL ? engine->host_logits.data : engine->logits.data;
    engine->picks = 0;
    for (int64_t i = 0; status == MT_OK && i < count; i++)
        status = mt_engine_take_row(engine, i, &engine->row[first + i], values + i * vocabulary);
    return status == MT_OK ? mt_engine_take_picks(engine) : status;
}

/* All ranks that share the experts: whether any of them computes a batch now, as this one does or not. */
static bool somebody_works(const struct mt_engine *engine, bool own)
{
    struct mt_comm *ranks = mt_model_expert_ranks(engine->model);
    int64_t working = own ? 1 : 0;
    if (ranks != NULL) mt_comm_max_i64(ranks, &working, 1);
    return working != 0;
}

/* The others wait for what will not come from here. */
static enum mt_status fail_alone(const struct mt_engine *engine, enum mt_status status)
{
    struct mt_comm *ranks = mt_model_expert_ranks(engine->model);
    if (status == MT_OK || ranks == NULL) return status;
    return mt_comm_abort(ranks, engine->ctx, status, stderr);
}

enum mt_status mt_engine_lend(struct mt_engine *engine, enum mt_status status)
{
    static const int32_t zero[1] = {0};
    static const int32_t offsets[2] = {0, 1};
    const struct mt_batch batch = {.tokens = 1,
                                   .sequences = 1,
                                   .ids = zero,
                                   .offsets = offsets,
                                   .mask = zero,
                                   .unseen = true,
                                   .loss_only = true};
    struct mt_model_loss loss;
    status = fail_alone(engine, status);
    while (status == MT_OK && somebody_works(engine, false))
        status = fail_alone(engine, mt_model_forward(engine->model, &batch, &loss));
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
    (void)somebody_works(engine, true);
    enum mt_status status = fail_alone(engine, mt_model_forward(engine->model, &batch, &loss));
    if (status != MT_OK) return status;
    move_on(engine);
    for (int64_t first = 0; status == MT_OK && first < engine->wanted_count; first += engine->logit_rows) {
        int64_t count = engine->wanted_count - first;
        status = hand_out(engine, first, count < engine->logit_rows ? count : engine->logit_rows);
    }
    for (int64_t i = 0; status == MT_OK && i < engine->slots; i++) {
        const struct engine_slot *slot = &engine->slot[i];
        bool scores = slot->use == SLOT_PREFIX || slot->use == SLOT_CONTINUATION;
        if (scores && engine->fed[i] > 0 && slot->done == slot->count)
            status = mt_engine_finish_tokens(engine, i);
    }
    return status;
}

enum mt_status mt_engine_step(struct mt_engine *engine, bool *working)
{
    *working = false;
    // First, while a slot that was left in the step before still holds what others wait for.
    enum mt_status status = mt_engine_take_shared(engine);
    if (status == MT_OK) status = mt_engine_start_continuations(engine);
    if (status == MT_OK) status = mt_engine_admit(engine);
    if (status != MT_OK) return status;
    fill_batch(engine);
    if (engine->sequences == 0) return MT_OK;
    *working = true;
    return compute(engine);
}

void mt_engine_forget(struct mt_engine *engine)
{
    for (int64_t i = 0; i < engine->slots; i++) mt_engine_free_slot(&engine->slot[i]);
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
        sequence.self = slot->generation->self;
        return sequence;
    }
    sequence.request = slot->scoring->number;
    sequence.self = slot->scoring->self;
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
