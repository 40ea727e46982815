/* An observer of the model that knows from the engine whose tokens a pass holds. */
#include "infer/routing_log.h"

#include <string.h>

#include "base/arena.h"

#define ARENA_BYTES 4096
#define EVERY       8 // passes, of a device with memory of its own, when nobody traces

struct mt_routing_log {
    struct mt_context *ctx;     // borrowed
    struct mt_session *session; // borrowed
    struct mt_arena arena;      // of the arrays
    int layers, experts, slots;
    int64_t *number; // [layers]: of the MoE layers in the model
    int64_t *load;   // [layers,experts]
    int64_t *tokens; // [layers]
    double *squares; // [layers]
    int64_t passes;
    struct mt_routing_trace *trace[MT_ROUTING_TRACES]; // borrowed
    int traces;
    // of a pass on a device
    int32_t *expert; // [room,slots]
    float *weight;
    int64_t room; // tokens
};

// ------------------------------------------------------------------ one layer of a pass

static struct mt_routing_trace *trace_of(const struct mt_routing_log *log, const void *self)
{
    for (int i = 0; i < log->traces; i++) {
        if (log->trace[i]->self == self) return log->trace[i];
    }
    return NULL;
}

/* The token's weights as shares; their squares' sum. */
static double shares(const float *weight, int slots, float *share)
{
    double sum = 0.0;
    double squares = 0.0;
    for (int k = 0; k < slots; k++) sum += (double)weight[k];
    for (int k = 0; k < slots; k++) {
        double part = sum > 0.0 ? (double)weight[k] / sum : 0.0;
        share[k] = (float)part;
        squares += part * part;
    }
    return squares;
}

static void keep(struct mt_routing_trace *trace, int layer, int64_t position, const int32_t *expert,
                 const float *share)
{
    if (position >= trace->positions) return;
    size_t at = ((size_t)position * (size_t)trace->layers + (size_t)layer) * (size_t)trace->slots;
    for (int k = 0; k < trace->slots; k++) {
        trace->expert[at + (size_t)k] = (int16_t)expert[k];
        trace->weight[at + (size_t)k] = share[k];
    }
    if (trace->tokens <= position) trace->tokens = position + 1;
}

#define MOST_SLOTS 256

/* expert and weight [tokens,slots] of one layer, on the host. */
static void take_layer(struct mt_routing_log *log, int layer, const int32_t *expert, const float *weight)
{
    const struct mt_engine *engine = log->session->engine;
    const int32_t *is_new = mt_engine_new_tokens(engine);
    float share[MOST_SLOTS];
    int64_t at = 0;
    for (int64_t i = 0; i < mt_engine_sequences(engine); i++) {
        const struct mt_engine_sequence sequence = mt_engine_sequence(engine, i);
        struct mt_routing_trace *trace = trace_of(log, sequence.self);
        for (int64_t j = 0; j < sequence.tokens; j++, at++) {
            const int32_t *own = expert + at * log->slots;
            double squares = shares(weight + at * log->slots, log->slots, share);
            if (trace != NULL) keep(trace, layer, sequence.position + j, own, share);
            if (is_new != NULL && is_new[at] == 0) continue;
            for (int k = 0; k < log->slots; k++) {
                if (own[k] >= 0 && own[k] < log->experts) log->load[layer * log->experts + own[k]]++;
            }
            log->tokens[layer]++;
            log->squares[layer] += squares;
        }
    }
}

// ------------------------------------------------------------------ the observer

static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    (void)input;
    take_layer(self, moe_layer, record->expert.data, record->weight.data);
    return MT_OK;
}

static enum mt_status nothing_before(void *self)
{
    (void)self;
    return MT_OK;
}

/* Room for what is fetched of a pass. */
static enum mt_status make_room(struct mt_routing_log *log, int64_t tokens)
{
    enum mt_status status = MT_OK;
    if (tokens <= log->room) return MT_OK;
    size_t count = (size_t)tokens * (size_t)log->slots; // what was there stays in the arena: rare, and small
    log->expert = mt_arena_array(&log->arena, count, sizeof *log->expert, &status);
    log->weight = mt_arena_array(&log->arena, count, sizeof *log->weight, &status);
    log->room = status == MT_OK ? tokens : 0;
    return status;
}

static enum mt_status fetch_layers(void *self, int64_t tokens)
{
    struct mt_routing_log *log = self;
    struct mt_device *device = log->session->device;
    bool wanted = log->traces > 0 || log->passes % EVERY == 0;
    log->passes++;
    if (!wanted) return MT_OK;
    enum mt_status status = make_room(log, tokens);
    for (int i = 0; status == MT_OK && i < log->layers; i++) {
        const struct mt_routing *record = mt_model_routing(log->session->model, log->number[i]);
        size_t items = (size_t)tokens * (size_t)log->slots;
        status = mt_device_download(device, log->expert, record->expert.data, items * sizeof *log->expert);
        if (status == MT_OK)
            status =
                mt_device_download(device, log->weight, record->weight.data, items * sizeof *log->weight);
        if (status == MT_OK) take_layer(log, i, log->expert, log->weight);
    }
    return status;
}

// ------------------------------------------------------------------ making

enum mt_status mt_routing_log_create(struct mt_session *session, struct mt_routing_log **log)
{
    const struct mt_model_desc *desc = mt_model_description(session->model);
    int layers = mt_model_moe_layers(desc, NULL);
    void *memory = NULL;
    *log = NULL;
    if (layers == 0 || desc->router.slots > MOST_SLOTS) return MT_OK;
    enum mt_status status = mt_allocate_array(session->ctx, 1, sizeof **log, &memory);
    if (status != MT_OK) return status;
    struct mt_routing_log *made = memory;
    made->ctx = session->ctx;
    made->session = session;
    made->layers = layers;
    made->experts = desc->experts;
    made->slots = desc->router.slots;
    mt_arena_init(&made->arena, session->ctx, ARENA_BYTES);
    size_t rows = (size_t)layers;
    made->number = mt_arena_array(&made->arena, (size_t)desc->layers, sizeof *made->number, &status);
    made->load = mt_arena_array(&made->arena, rows * (size_t)desc->experts, sizeof *made->load, &status);
    made->tokens = mt_arena_array(&made->arena, rows, sizeof *made->tokens, &status);
    made->squares = mt_arena_array(&made->arena, rows, sizeof *made->squares, &status);
    if (status != MT_OK) {
        mt_arena_free(&made->arena);
        mt_release(session->ctx, made, sizeof *made);
        return status;
    }
    (void)mt_model_moe_layers(desc, made->number);
    struct mt_layer_observer observer = {.self = made, .look = look};
    if (mt_model_keeps_records(session->model))
        observer = (struct mt_layer_observer){.self = made, .before = nothing_before, .after = fetch_layers};
    mt_model_observe(session->model, &observer);
    *log = made;
    return MT_OK;
}

void mt_routing_log_destroy(struct mt_routing_log *log)
{
    if (log == NULL) return;
    mt_model_observe(log->session->model, NULL);
    mt_arena_free(&log->arena);
    mt_release(log->ctx, log, sizeof *log);
}

int mt_routing_log_layers(const struct mt_routing_log *log)
{
    return log->layers;
}

int mt_routing_log_experts(const struct mt_routing_log *log)
{
    return log->experts;
}

struct mt_routing_loads mt_routing_log_loads(const struct mt_routing_log *log, int layer)
{
    return (struct mt_routing_loads){.layer = log->number[layer],
                                     .load = log->load + (int64_t)layer * log->experts,
                                     .tokens = log->tokens[layer],
                                     .squares = log->squares[layer]};
}

// ------------------------------------------------------------------ traces

bool mt_routing_log_is_full(const struct mt_routing_log *log)
{
    return log->traces == MT_ROUTING_TRACES;
}

enum mt_status mt_routing_trace_begin(struct mt_routing_log *log, struct mt_context *ctx, const void *self,
                                      int64_t positions, struct mt_routing_trace *trace)
{
    void *expert = NULL;
    void *weight = NULL;
    size_t row = (size_t)log->layers * (size_t)log->slots;
    *trace = (struct mt_routing_trace){0};
    if (mt_routing_log_is_full(log))
        return mt_fail(ctx, MT_ERR_USAGE,
                       "the routing of %d requests is already being recorded: ask again later",
                       MT_ROUTING_TRACES);
    enum mt_status status = mt_allocate_array(ctx, (size_t)positions, row * sizeof(int16_t), &expert);
    if (status == MT_OK) status = mt_allocate_array(ctx, (size_t)positions, row * sizeof(float), &weight);
    if (status != MT_OK) {
        mt_release(ctx, expert, (size_t)positions * row * sizeof(int16_t));
        return status;
    }
    memset(expert, 0xff, (size_t)positions * row * sizeof(int16_t));
    *trace = (struct mt_routing_trace){.ctx = ctx,
                                       .self = self,
                                       .layers = log->layers,
                                       .slots = log->slots,
                                       .positions = positions,
                                       .expert = expert,
                                       .weight = weight};
    log->trace[log->traces++] = trace;
    return MT_OK;
}

void mt_routing_trace_end(struct mt_routing_log *log, struct mt_routing_trace *trace)
{
    if (trace->ctx == NULL) return;
    for (int i = 0; i < log->traces; i++) {
        if (log->trace[i] != trace) continue;
        log->trace[i] = log->trace[--log->traces];
        break;
    }
    size_t items = (size_t)trace->positions * (size_t)trace->layers * (size_t)trace->slots;
    mt_release(trace->ctx, trace->expert, items * sizeof *trace->expert);
    mt_release(trace->ctx, trace->weight, items * sizeof *trace->weight);
    *trace = (struct mt_routing_trace){0};
}
