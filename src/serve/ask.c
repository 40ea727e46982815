/* The choices of an ask in the engine, and what of them is sent when. */
#include "serve/ask.h"

#include <string.h>

#include "formats/text/printable.h"

#define MOST_UNREAD ((size_t)64 << 10) // bytes of a stream

void mt_ask_free(struct mt_ask *ask)
{
    if (ask->ctx == NULL) return;
    for (size_t i = 0; i < ask->choice_count; i++) {
        struct mt_choice *choice = &ask->choices[i];
        mt_answer_free(&choice->answer);
        mt_token_logs_free(&choice->logs);
        mt_token_logs_free(&choice->prompt_logs);
        mt_routing_trace_end(ask->model->log, &choice->trace);
    }
    for (size_t i = 0; i < ask->prompt_count; i++) {
        mt_id_list_free(&ask->prompts[i].ids);
        mt_byte_list_free(&ask->prompts[i].text);
    }
    mt_arena_free(&ask->arena);
    *ask = (struct mt_ask){0};
}

// ------------------------------------------------------------------ what the engine calls

/* An answer found no memory: its ask is lost. A failure would end the step, and with it those of all. */
static void lose(const struct mt_choice *choice, enum mt_status status)
{
    if (status != MT_OK) mt_ask_refuse(choice->ask, 503, choice->ask->ctx->message);
}

/* Kept until the token is known, which follows at once. */
static void take_logits(void *self, const float *logits)
{
    struct mt_served_model *model = ((struct mt_choice *)self)->ask->model;
    size_t vocabulary = (size_t)mt_model_description(model->session.model)->vocabulary;
    memcpy(model->logits, logits, vocabulary * sizeof *logits);
}

static void take_logs(struct mt_choice *choice, int32_t id)
{
    const struct mt_ask *ask = choice->ask;
    if (ask->top < 0) return;
    mt_token_logs_add(&choice->logs, id, ask->model->logits,
                      mt_model_description(ask->model->session.model)->vocabulary);
}

/* The token that ended the answer counts as one of it, as in vLLM: lm-evaluation-harness relies on that. */
static enum mt_status take_stop(void *self, int32_t id)
{
    struct mt_choice *choice = self;
    take_logs(choice, id);
    lose(choice, mt_id_list_append(&choice->answer.ids, id));
    return MT_OK;
}

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct mt_choice *choice = self;
    const struct mt_ask *ask = choice->ask;
    take_logs(choice, id);
    lose(choice, mt_answer_push(&choice->answer, id));
    *stop = choice->answer.stopped || ask->exchange == NULL;
    return MT_OK;
}

static enum mt_status take_end(void *self, enum mt_finish why)
{
    struct mt_choice *choice = self;
    choice->finish = why == MT_FINISH_LENGTH ? "length" : "stop";
    choice->state = MT_CHOICE_DONE;
    choice->ask->done++;
    lose(choice, mt_answer_end(&choice->answer));
    return MT_OK;
}

/* The engine has not taken it. */
static void drop(struct mt_choice *choice, enum mt_status status, const char *why)
{
    choice->state = MT_CHOICE_DONE;
    choice->ask->done++;
    mt_ask_refuse(choice->ask, status == MT_ERR_USAGE ? 400 : 503, why);
}

static void take_prompt_logits(void *self, size_t continuation, int64_t index, const float *logits)
{
    (void)continuation;
    struct mt_choice *choice = self;
    mt_token_logs_add(&choice->prompt_logs, choice->continuation.ids[index], logits,
                      mt_model_description(choice->ask->model->session.model)->vocabulary);
}

static void start_writing(struct mt_choice *choice)
{
    struct mt_ask *ask = choice->ask;
    struct mt_session *session = &ask->model->session;
    if (ask->max_new == 0) {
        (void)take_end(choice, MT_FINISH_LENGTH);
        return;
    }
    choice->state = MT_CHOICE_WRITING;
    choice->generation = (struct mt_generation){
        .ids = choice->prompt->ids.data,
        .count = (int64_t)choice->prompt->ids.count,
        .common = ask->routing ? 0 : INT64_MAX, // what another request computed has left no trace
        .number = (uint64_t)(choice - ask->choices),
        .sampling = ask->sampling,
        .max_new = ask->max_new,
        .stop_ids = session->stop_ids.data,
        .stop_count = session->stop_ids.count,
        .self = choice,
        .logits = ask->top >= 0 ? take_logits : NULL,
        .token = take_token,
        .stopped = take_stop,
        .finished = take_end,
    };
    enum mt_status status = mt_engine_add_generation(session->engine, &choice->generation);
    if (status != MT_OK) drop(choice, status, session->ctx->message);
}

static enum mt_status take_prompt_end(void *self)
{
    start_writing(self);
    return MT_OK;
}

/* The probabilities of a prompt's own tokens, which an echo reports, are those of all but the first. */
static void start_scoring(struct mt_choice *choice)
{
    const struct mt_id_list *ids = &choice->prompt->ids;
    struct mt_session *session = &choice->ask->model->session;
    choice->state = MT_CHOICE_SCORING;
    choice->continuation = (struct mt_continuation){.ids = ids->data + 1, .count = (int64_t)ids->count - 1};
    choice->scoring = (struct mt_scoring){.ids = ids->data,
                                          .count = 1,
                                          .common = INT64_MAX,
                                          .continuation = &choice->continuation,
                                          .continuations = 1,
                                          .self = choice,
                                          .logits = take_prompt_logits,
                                          .finished = take_prompt_end};
    enum mt_status status = mt_engine_add_scoring(session->engine, &choice->scoring);
    if (status != MT_OK) drop(choice, status, session->ctx->message);
}

/* Room for what is told of its tokens, which asks in line do not hold yet. */
static enum mt_status make_room(struct mt_choice *choice)
{
    const struct mt_ask *ask = choice->ask;
    int64_t prompt = (int64_t)choice->prompt->ids.count;
    enum mt_status status = MT_OK;
    if (ask->top >= 0) status = mt_token_logs_create(ask->ctx, (size_t)ask->max_new, ask->top, &choice->logs);
    if (status == MT_OK && ask->top >= 0 && ask->echo)
        status = mt_token_logs_create(ask->ctx, (size_t)prompt - 1, ask->top, &choice->prompt_logs);
    if (status == MT_OK && ask->routing)
        status =
            mt_routing_trace_begin(ask->model->log, ask->ctx, choice, prompt + ask->max_new, &choice->trace);
    return status;
}

void mt_ask_start_choice(struct mt_ask *ask)
{
    struct mt_choice *choice = &ask->choices[ask->started++];
    enum mt_status status = make_room(choice);
    if (status != MT_OK) {
        drop(choice, status, ask->ctx->message);
    } else if (ask->echo && ask->top >= 0 && choice->prompt->ids.count > 1) {
        start_scoring(choice);
    } else {
        start_writing(choice);
    }
}

// ------------------------------------------------------------------ sending

static enum mt_status send_event(struct mt_ask *ask, struct mt_json_text *text)
{
    enum mt_status status = text->status;
    if (status == MT_OK) status = mt_exchange_write(ask->exchange, text->bytes, text->length);
    text->length = 0;
    return status;
}

static enum mt_status send_pieces(struct mt_ask *ask, struct mt_json_text *text)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < ask->choice_count && status == MT_OK; i++) {
        struct mt_choice *choice = &ask->choices[i];
        bool ended = choice->state == MT_CHOICE_DONE && choice->finish != NULL;
        bool more = choice->answer.settled > choice->shown;
        if (!more && !ended) continue;
        mt_json_text_format(text, "data: ");
        mt_ask_write_piece(ask, choice, text);
        mt_json_text_format(text, "\n\n");
        choice->shown = choice->answer.settled;
        choice->shown_tokens = choice->answer.ids.count;
        choice->begun = true;
        if (ended) choice->finish = NULL; // told
        status = send_event(ask, text);
    }
    return status;
}

static enum mt_status send_stream(struct mt_ask *ask, struct mt_json_text *text)
{
    enum mt_status status = MT_OK;
    if (!ask->streaming) status = mt_exchange_begin(ask->exchange, "text/event-stream; charset=utf-8");
    ask->streaming = true;
    if (status == MT_OK) status = send_pieces(ask, text);
    if (status != MT_OK || ask->done < ask->choice_count) return status;
    if (ask->usage) {
        mt_json_text_format(text, "data: ");
        mt_ask_write_usage(ask, text);
        mt_json_text_format(text, "\n\n");
    }
    mt_json_text_format(text, "data: [DONE]\n\n");
    return send_event(ask, text);
}

enum mt_status mt_ask_send(struct mt_ask *ask)
{
    struct mt_json_text text;
    enum mt_status status = MT_OK;
    bool done = ask->done == ask->choice_count;
    if (ask->exchange == NULL || (!done && !ask->stream)) return MT_OK;
    // A client that reads slowly gets more at a time, later, so that no more is kept than the answer itself.
    if (!done && ask->streaming && mt_exchange_unread(ask->exchange) > MOST_UNREAD) return MT_OK;
    mt_json_text_init(&text, ask->ctx);
    status = ask->stream ? send_stream(ask, &text) : mt_ask_write(ask, &text);
    if (status == MT_OK && done) {
        struct mt_exchange *exchange = ask->exchange;
        ask->exchange = NULL;
        if (ask->stream) mt_exchange_end(exchange);
        if (!ask->stream)
            status = mt_exchange_answer(exchange, 200, "application/json", text.bytes, text.length);
    }
    mt_json_text_free(&text);
    return status;
}

void mt_exchange_refuse(struct mt_context *ctx, struct mt_exchange *exchange, int code, const char *why)
{
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    mt_json_text_format(&text, "{\"error\": {\"message\": ");
    mt_json_text_string(&text, mt_printable(why).text);
    mt_json_text_format(&text, ", \"type\": \"%s\", \"code\": %d}}\n",
                        code < 500 ? "invalid_request_error" : "server_error", code);
    (void)mt_exchange_answer(exchange, code, "application/json", text.bytes, text.length);
    mt_json_text_free(&text);
}

void mt_ask_refuse(struct mt_ask *ask, int code, const char *why)
{
    struct mt_exchange *exchange = ask->exchange;
    struct mt_context *ctx = ask->model->session.ctx; // there may be no room in the ask's
    if (exchange == NULL) return;
    ask->exchange = NULL;
    if (!ask->streaming) {
        mt_exchange_refuse(ctx, exchange, code, why);
        return;
    }
    // The status has been sent: an event says it, and no [DONE] follows.
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    mt_json_text_format(&text, "data: {\"error\": {\"message\": ");
    mt_json_text_string(&text, mt_printable(why).text);
    if (mt_json_text_format(&text, ", \"code\": %d}}\n\n", code) == MT_OK)
        (void)mt_exchange_write(exchange, text.bytes, text.length);
    mt_json_text_free(&text);
    mt_exchange_end(exchange);
}

bool mt_ask_is_over(const struct mt_ask *ask)
{
    return ask->exchange == NULL && ask->started == ask->done;
}
