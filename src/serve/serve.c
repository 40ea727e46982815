/* The server's loop: new requests, a step of every engine, what came out of it. */
#include "serve/serve.h"

#include <string.h>

#include "base/clock.h"
#include "serve/serve_struct.h"

#define GONE_SECONDS   0.1 // between two looks whether clients have hung up
#define IDLE_MILLIS    200 // between two looks for a signal while there is nothing to do
#define SENDING_MILLIS 50
#define MOST_SENDING   100 // such waits, for clients to read the last answers

// ------------------------------------------------------------------ requests that come

static void add_ask(struct mt_serving *serving, struct mt_ask *ask)
{
    struct mt_ask **end = &serving->first;
    while (*end != NULL) end = &(*end)->next;
    *end = ask;
    ask->next = NULL;
    ask->model->asks++;
    ask->model->requests++;
}

static int code_of(enum mt_status status)
{
    switch (status) {
    case MT_ERR_USAGE:
    case MT_ERR_FORMAT:
    case MT_ERR_UNSUPPORTED: return 400;
    case MT_ERR_MEMORY: return 503;
    default: return 500;
    }
}

static void take_text_request(struct mt_serving *serving, struct mt_exchange *exchange, bool chat)
{
    struct mt_context *ctx = &serving->requests;
    void *memory = NULL;
    size_t bytes = 0;
    const void *body = mt_exchange_body(exchange, &bytes);
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct mt_ask), &memory);
    if (status != MT_OK) {
        mt_exchange_refuse(serving->ctx, exchange, code_of(status), ctx->message);
        return;
    }
    struct mt_ask *ask = memory;
    serving->asks++;
    status = mt_ask_read(ask, ctx, &serving->models, chat, body, bytes, serving->asks);
    if (status != MT_OK) {
        serving->refused++;
        mt_exchange_refuse(serving->ctx, exchange,
                           ask->model == NULL && status == MT_ERR_USAGE ? 404 : code_of(status),
                           ctx->message);
        mt_ask_free(ask);
        mt_release(ctx, ask, sizeof *ask);
        return;
    }
    ask->exchange = exchange;
    ask->since = mt_clock_seconds();
    add_ask(serving, ask);
}

static void take_other_request(struct mt_serving *serving, struct mt_exchange *exchange)
{
    bool path_known = false;
    const struct mt_route *route =
        mt_route_find(mt_exchange_method(exchange), mt_exchange_path(exchange), &path_known);
    struct mt_reply reply = {.code = 200, .type = "application/json"};
    size_t bytes = 0;
    const void *body = mt_exchange_body(exchange, &bytes);
    if (route == NULL) {
        mt_exchange_refuse(serving->ctx, exchange, path_known ? 405 : 404,
                           path_known ? "this path takes another method" : "there is nothing at this path");
        return;
    }
    mt_json_text_init(&reply.text, serving->ctx);
    enum mt_status status = route->answer(serving, body, bytes, &reply);
    if (status == MT_OK) status = reply.text.status;
    if (status == MT_OK) {
        bool raw = reply.raw != NULL;
        (void)mt_exchange_answer(exchange, reply.code, reply.type, raw ? reply.raw : reply.text.bytes,
                                 raw ? reply.raw_bytes : reply.text.length);
    } else {
        serving->refused++;
        mt_exchange_refuse(serving->ctx, exchange, reply.code != 200 ? reply.code : code_of(status),
                           serving->ctx->message);
    }
    mt_json_text_free(&reply.text);
}

static void take_request(struct mt_serving *serving, struct mt_exchange *exchange)
{
    const char *path = mt_exchange_path(exchange);
    bool post = strcmp(mt_exchange_method(exchange), "POST") == 0;
    if (post && strcmp(path, "/v1/completions") == 0) {
        take_text_request(serving, exchange, false);
    } else if (post && strcmp(path, "/v1/chat/completions") == 0) {
        take_text_request(serving, exchange, true);
    } else {
        take_other_request(serving, exchange);
    }
}

static void take_requests(struct mt_serving *serving)
{
    int wait = serving->first == NULL ? IDLE_MILLIS : 0;
    struct mt_exchange *exchange = mt_http_server_next(serving->server, wait);
    for (; exchange != NULL; exchange = mt_http_server_next(serving->server, 0))
        take_request(serving, exchange);
}

// ------------------------------------------------------------------ work

/* The ask goes behind all others. `place` is where the list names it. */
static void to_the_end(struct mt_ask **place)
{
    struct mt_ask *ask = *place;
    if (ask->next == NULL) return;
    *place = ask->next;
    while (*place != NULL) place = &(*place)->next;
    *place = ask;
    ask->next = NULL;
}

/*
 * Puts a choice of an ask in line wherever an engine has a free slot, the asks taking turns: one that wants
 * many answers does not keep others waiting.
 */
static void start_choices(struct mt_serving *serving)
{
    struct mt_ask **place = &serving->first;
    while (*place != NULL) {
        struct mt_ask *ask = *place;
        const struct mt_session *session = &ask->model->session;
        bool room = mt_engine_requests(session->engine) < (size_t)session->slots &&
                    !(ask->routing && mt_routing_log_is_full(ask->model->log));
        if (ask->exchange == NULL || ask->started == ask->choice_count || !room) {
            place = &ask->next;
            continue;
        }
        mt_ask_start_choice(ask);
        to_the_end(place);
        place = &serving->first;
    }
}

/* None of the model's asks goes on. */
static void give_up(struct mt_serving *serving, struct mt_served_model *model, int code, const char *why)
{
    mt_engine_forget(model->session.engine);
    for (struct mt_ask *ask = serving->first; ask != NULL; ask = ask->next) {
        if (ask->model != model) continue;
        mt_ask_refuse(ask, code, why);
        ask->done = ask->started;
    }
}

static void step_engines(struct mt_serving *serving)
{
    for (struct mt_served_model *model = serving->models.first; model != NULL; model = model->next) {
        bool working = false;
        if (mt_engine_requests(model->session.engine) == 0) continue;
        if (mt_engine_step(model->session.engine, &working) == MT_OK) continue;
        mt_log_error(serving->options->log, "%s: %s", model->name, serving->ctx->message);
        give_up(serving, model, 500, serving->ctx->message);
    }
}

// ------------------------------------------------------------------ answers

static void look_after(struct mt_serving *serving, struct mt_ask *ask, double now, bool look)
{
    double most = serving->options->request_seconds;
    if (look && ask->exchange != NULL && mt_exchange_is_gone(ask->exchange)) {
        mt_ask_refuse(ask, 500, "nobody reads the answer");
    } else if (most > 0.0 && now - ask->since > most) {
        mt_ask_refuse(ask, 504, "the request took longer than the server allows");
    } else if (mt_ask_send(ask) != MT_OK) {
        mt_ask_refuse(ask, 503, "no memory is left for an answer");
    }
}

static void send_answers(struct mt_serving *serving)
{
    double now = mt_clock_seconds();
    bool look = now - serving->looked > GONE_SECONDS;
    if (look) serving->looked = now;
    for (struct mt_ask **place = &serving->first; *place != NULL;) {
        struct mt_ask *ask = *place;
        look_after(serving, ask, now, look);
        if (!mt_ask_is_over(ask)) {
            place = &ask->next;
            continue;
        }
        *place = ask->next;
        ask->model->asks--;
        mt_ask_free(ask);
        mt_release(&serving->requests, ask, sizeof *ask);
    }
    mt_served_models_sweep(&serving->models);
}

// ------------------------------------------------------------------ the whole

static void refuse_all(struct mt_serving *serving)
{
    for (struct mt_served_model *model = serving->models.first; model != NULL; model = model->next)
        give_up(serving, model, 503, "the server is stopping");
}

/* Goes on until all is answered, but not for longer than is allowed. */
static void run(struct mt_serving *serving, const struct mt_interrupt *interrupt)
{
    double stop = 0.0;
    bool refused = false;
    while (stop == 0.0 || serving->first != NULL) {
        take_requests(serving);
        start_choices(serving);
        step_engines(serving);
        send_answers(serving);
        if (stop == 0.0 && mt_interrupt_seen(interrupt) != 0) {
            mt_http_server_drain(serving->server);
            stop = mt_clock_seconds() + serving->options->grace_seconds;
        }
        if (stop > 0.0 && !refused && mt_clock_seconds() > stop) {
            refuse_all(serving);
            refused = true;
        }
    }
    // What came between the last look and the closing of the door is told that, too.
    for (int i = 0; i < MOST_SENDING && mt_http_server_is_sending(serving->server); i++) {
        struct mt_exchange *exchange = mt_http_server_next(serving->server, SENDING_MILLIS);
        if (exchange != NULL) mt_exchange_refuse(serving->ctx, exchange, 503, "the server is stopping");
    }
}

enum mt_status mt_serve(struct mt_context *ctx, const struct mt_serve_options *options,
                        const struct mt_interrupt *interrupt)
{
    struct mt_serving serving = {
        .ctx = ctx, .options = options, .models = {.ctx = ctx, .opener = options->opener}};
    enum mt_status status = MT_OK;
    mt_context_init(&serving.requests, &ctx->allocator);
    serving.requests.limit_bytes = options->most_bytes;
    for (size_t i = 0; i < options->count && status == MT_OK; i++) {
        const struct mt_serve_model *model = &options->models[i];
        status =
            mt_served_models_add(&serving.models, model->name, model->directory, model->adapter, model->base);
        if (mt_interrupt_seen(interrupt) != 0) break;
    }
    if (status == MT_OK) status = mt_http_server_open(ctx, &options->http, &serving.server);
    if (status == MT_OK) {
        options->ready(options->self, mt_http_server_port(serving.server));
        run(&serving, interrupt);
    }
    mt_http_server_close(serving.server);
    mt_served_models_close(&serving.models);
    return status;
}
