/*
 * Which experts a session's tokens used, while it answers: loads of every layer since the log began, and of
 * single requests the experts and weights of each token.
 *
 * On the host every pass is looked at as it runs. On a device with memory of its own that would stop it, so
 * there a pass is looked at when a traced request is in it, and otherwise every eighth.
 */
#ifndef MT_INFER_ROUTING_LOG_H
#define MT_INFER_ROUTING_LOG_H

#include "infer/session.h"

/* The experts of one request's tokens, by position. */
struct mt_routing_trace {
    struct mt_context *ctx; // borrowed
    const void *self;       // the request's own
    int layers, slots;      // MoE layers; k
    int64_t positions;      // there is room for
    int64_t tokens;         // positions below this one were computed, or are -1
    int16_t *expert;        // [positions,layers,slots]; -1: not computed here
    float *weight;          // likewise; a token's sum to 1
};

/* Of one layer. */
struct mt_routing_loads {
    int64_t layer;       // its number in the model
    const int64_t *load; // [experts]: slots since the log began
    int64_t tokens;
    double squares; // Σ of the tokens' Σ w², w the weights of a token as shares
};

struct mt_routing_log; // opaque

/* The session outlives the log. The caller destroys. NULL: no layer has experts. */
enum mt_status mt_routing_log_create(struct mt_session *session, struct mt_routing_log **log);
void mt_routing_log_destroy(struct mt_routing_log *log); // NULL is allowed; the model is observed no more

int mt_routing_log_layers(const struct mt_routing_log *log);
int mt_routing_log_experts(const struct mt_routing_log *log);
struct mt_routing_loads mt_routing_log_loads(const struct mt_routing_log *log, int layer);

/* Begins a trace of the requests whose `self` is this, with room for so many positions in memory of ctx: it
 * stays where it is until it is ended. No more than MT_ROUTING_TRACES at a time. */
#define MT_ROUTING_TRACES 16
enum mt_status mt_routing_trace_begin(struct mt_routing_log *log, struct mt_context *ctx, const void *self,
                                      int64_t positions, struct mt_routing_trace *trace);

/* True when no other trace can begin before one ends. */
bool mt_routing_log_is_full(const struct mt_routing_log *log);

/* Frees it; a zeroed trace is allowed. */
void mt_routing_trace_end(struct mt_routing_log *log, struct mt_routing_trace *trace);

#endif
