/* Requests for one token with its likeliest rivals, and what comes back. */
#include "infer/probe/asked.h"

#include <inttypes.h>
#include <stdio.h>

#include "eval/text.h"
#include "formats/text/json.h"

#define FEW       5       // what OpenAI's own servers give
#define LEAST_LOG (-1e30) // what servers write for a probability of 0 is above it
#define MOST_LOG  1e-3    // 0, rounded
#define FAINTEST  (-20.0) // below it rounding is all there is
#define WHY_BYTES 512
#define NO_LOGS                                                                                              \
    "the server gives no log-probabilities of the likeliest tokens (/v1/completions with \"logprobs\")"

static const struct mt_json_limits reply_limits = {
    .max_bytes = (size_t)4 << 20, .max_values = 100000, .max_depth = 32, .integers_as_real = true};

// ------------------------------------------------------------------ replies

static enum mt_status add_token(struct mt_arena *arena, const char *text, const struct mt_json_node *log,
                                struct mt_asked_place *place)
{
    struct mt_asked_token token = {0};
    enum mt_status status = mt_json_as_real(log, LEAST_LOG, MOST_LOG, &token.log);
    if (status != MT_OK || token.log < FAINTEST || place->count == MT_ASKED_MOST) return status;
    status = mt_arena_copy_text(arena, text, strlen(text), &token.text);
    if (status == MT_OK) place->token[place->count++] = token;
    return status;
}

/* {" the": -1.2, ...} */
static enum mt_status read_object(struct mt_arena *arena, const struct mt_json_node *top,
                                  struct mt_asked_place *place)
{
    enum mt_status status = MT_OK;
    struct mt_json_node log;
    void *position = NULL;
    while (status == MT_OK && mt_json_next(top, &position, &log))
        status = add_token(arena, log.key, &log, place);
    return status;
}

/* [{"token": " the", "logprob": -1.2}, ...] */
static enum mt_status read_list(struct mt_arena *arena, const struct mt_json_node *top,
                                struct mt_asked_place *place)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < mt_json_count(top) && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(top, i);
        struct mt_json_node log;
        const char *text = NULL;
        status = mt_json_expect_object(&item);
        if (status == MT_OK) status = mt_json_get_string(&item, "token", &text);
        if (status == MT_OK && !mt_json_member(&item, "logprob", &log))
            status = mt_json_fail(&item, "has no \"logprob\"");
        if (status == MT_OK) status = add_token(arena, text, &log, place);
    }
    return status;
}

/* The first element of a list that has any. */
static bool has_first(const struct mt_json_node *object, const char *key, struct mt_json_node *list,
                      struct mt_json_node *first)
{
    if (!mt_json_member(object, key, list) || mt_json_kind(list) != MT_JSON_ARRAY || mt_json_count(list) == 0)
        return false;
    *first = mt_json_element(list, 0);
    return mt_json_kind(first) == MT_JSON_OBJECT;
}

static enum mt_status read_choice(struct mt_arena *arena, const struct mt_json_node *choice,
                                  struct mt_asked_place *place)
{
    struct mt_json_node logs;
    struct mt_json_node list;
    struct mt_json_node first;
    struct mt_json_node top;
    bool any = mt_json_kind(choice) == MT_JSON_OBJECT && mt_json_member(choice, "logprobs", &logs) &&
               mt_json_kind(&logs) == MT_JSON_OBJECT;
    if (any && has_first(&logs, "top_logprobs", &list, &first)) return read_object(arena, &first, place);
    // As of a chat: llama.cpp has it so here, too.
    if (any && has_first(&logs, "content", &list, &first) && mt_json_member(&first, "top_logprobs", &top) &&
        mt_json_kind(&top) == MT_JSON_ARRAY)
        return read_list(arena, &top, place);
    return mt_fail(arena->ctx, MT_ERR_UNSUPPORTED, NO_LOGS);
}

enum mt_status mt_asked_read(struct mt_arena *arena, const void *body, size_t bytes,
                             struct mt_asked_place *place)
{
    struct mt_json json = {0};
    struct mt_json_node choices;
    struct mt_json_node choice;
    *place = (struct mt_asked_place){0};
    enum mt_status status = mt_json_parse(arena->ctx, "the reply", body, bytes, &reply_limits, &json);
    // The parser's own message may quote the text, and the text may be anything.
    if (status == MT_ERR_FORMAT) return mt_fail(arena->ctx, MT_ERR_FORMAT, "the server's reply is not JSON");
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK && !has_first(&root, "choices", &choices, &choice))
        status = mt_fail(arena->ctx, MT_ERR_FORMAT, "the server's reply has no \"choices\"");
    if (status == MT_OK) status = read_choice(arena, &choice, place);
    if (status == MT_OK && place->count == 0) status = mt_fail(arena->ctx, MT_ERR_UNSUPPORTED, NO_LOGS);
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ requests

struct round {
    struct mt_arena *arena;
    const struct mt_asking *asking;
    const struct mt_probe_text *texts;
    struct mt_asked_place *places;
    int logs; // asked for
    char refused[WHY_BYTES];
};

static enum mt_status request(void *self, size_t index, struct mt_byte_list *body)
{
    const struct round *round = self;
    const struct mt_probe_text *text = &round->texts[index];
    struct mt_text_writer writer = {.text = *body};
    mt_text_put_string(&writer, "{\"model\": ", mt_text_of(round->asking->model));
    mt_text_put(&writer, ", \"prompt\": [");
    for (size_t i = 0; i < text->count; i++)
        mt_text_putf(&writer, "%s%" PRId32, i > 0 ? ", " : "", text->ids[i]);
    // At temperature 1 log-probabilities are the model's own, before or after sampling's changes.
    mt_text_putf(&writer, "], \"max_tokens\": 1, \"temperature\": 1, \"top_p\": 1, \"logprobs\": %d}",
                 round->logs);
    *body = writer.text;
    return writer.status;
}

static enum mt_status reply(void *self, size_t index, const struct mt_byte_list *body)
{
    const struct round *round = self;
    enum mt_status status = mt_asked_read(round->arena, body->data, body->count, &round->places[index]);
    // llama.cpp gives none where the token that was drawn ends the text.
    return status == MT_ERR_UNSUPPORTED ? MT_OK : status;
}

static enum mt_status refused(void *self, size_t index, const char *why)
{
    struct round *round = self;
    (void)index;
    if (round->refused[0] == '\0') (void)snprintf(round->refused, sizeof round->refused, "%s", why);
    return MT_OK;
}

static enum mt_status ask(struct round *round, size_t count)
{
    struct mt_http_options http = round->asking->http;
    const struct mt_http_work work = {
        .count = count, .self = round, .request = request, .reply = reply, .refused = refused};
    http.path = MT_HTTP_COMPLETION;
    round->refused[0] = '\0';
    return mt_http_post_all(round->arena->ctx, &http, &work);
}

enum mt_status mt_ask_places(struct mt_arena *arena, const struct mt_asking *asking,
                             const struct mt_probe_text *texts, size_t count, struct mt_asked_place *places)
{
    struct round round = {
        .arena = arena, .asking = asking, .texts = texts, .places = places, .logs = MT_ASKED_MOST};
    char first[WHY_BYTES];
    enum mt_status status = ask(&round, 1); // to see how it answers
    (void)snprintf(first, sizeof first, "%s", round.refused);
    if (status == MT_OK && first[0] != '\0') {
        round.logs = FEW;
        status = ask(&round, 1);
        if (status == MT_OK && round.refused[0] != '\0')
            return mt_fail(arena->ctx, MT_ERR_UNSUPPORTED, "the server refuses: %s", first);
    }
    if (status == MT_OK) status = ask(&round, count);
    if (status == MT_OK && round.refused[0] != '\0')
        return mt_fail(arena->ctx, MT_ERR_UNSUPPORTED, "the server refuses: %s", round.refused);
    int logs = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++) logs += places[i].count;
    return status == MT_OK && logs == 0 ? mt_fail(arena->ctx, MT_ERR_UNSUPPORTED, NO_LOGS) : status;
}
