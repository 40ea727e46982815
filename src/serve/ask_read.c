/* The body of a request for text becomes an ask. A key that this server does not know is refused: it would
 * change what was asked, and nobody would notice. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "formats/text/printable.h"
#include "serve/ask.h"

#define ARENA_BYTES  4096
#define MOST_STOPS   16
#define STOP_BYTES   1024
#define PLAIN_TOKENS 16 // of an answer to a plain prompt where nobody says, as OpenAI has it
#define MOST_COUNT   (INT64_C(1) << 31)

const struct mt_json_limits mt_ask_body_limits = {
    .max_bytes = (size_t)64 << 20, .max_values = 1000000, .max_depth = 64};

struct reading {
    struct mt_ask *ask;
    struct mt_context *ctx; // of the ask
    struct mt_json_node root;
    uint64_t number;
    bool seeded;
    int64_t max_new; // -1: not given
    bool logs;       // of a chat: "logprobs": true
};

// ------------------------------------------------------------------ single keys

static enum mt_status read_count(struct reading *r, const struct mt_json_node *node, int64_t least,
                                 int64_t most, int64_t *value)
{
    (void)r;
    return mt_json_as_integer(node, least, most, value);
}

static enum mt_status read_max_tokens(struct reading *r, const struct mt_json_node *node)
{
    return read_count(r, node, 0, MOST_COUNT, &r->max_new);
}

static enum mt_status read_temperature(struct reading *r, const struct mt_json_node *node)
{
    return mt_json_as_real(node, 0.0, 100.0, &r->ask->sampling.temperature);
}

static enum mt_status read_top_p(struct reading *r, const struct mt_json_node *node)
{
    return mt_json_as_real(node, 0.0, 1.0, &r->ask->sampling.top_p);
}

/* vLLM writes -1 for all. */
static enum mt_status read_top_k(struct reading *r, const struct mt_json_node *node)
{
    enum mt_status status = read_count(r, node, -1, MOST_COUNT, &r->ask->sampling.top_k);
    if (r->ask->sampling.top_k < 0) r->ask->sampling.top_k = 0;
    return status;
}

static enum mt_status read_penalty(struct reading *r, const struct mt_json_node *node)
{
    return mt_json_as_real(node, 1e-3, 1e3, &r->ask->sampling.repetition_penalty);
}

static enum mt_status read_seed(struct reading *r, const struct mt_json_node *node)
{
    int64_t seed = 0;
    enum mt_status status = mt_json_as_integer(node, INT64_MIN, INT64_MAX, &seed);
    r->ask->sampling.seed = (uint64_t)seed;
    r->seeded = true;
    return status;
}

static enum mt_status read_samples(struct reading *r, const struct mt_json_node *node)
{
    return read_count(r, node, 1, MT_ASK_MOST_CHOICES, &r->ask->samples);
}

static enum mt_status add_stop(struct mt_ask *ask, const struct mt_json_node *node, size_t index)
{
    const char *text = NULL;
    enum mt_status status = mt_json_as_string(node, &text);
    if (status == MT_OK && text[0] == '\0') return mt_json_fail(node, "is an empty text");
    if (status == MT_OK && strlen(text) > STOP_BYTES)
        return mt_json_fail(node, "is longer than %d bytes", STOP_BYTES);
    if (status == MT_OK) status = mt_arena_copy_text(&ask->arena, text, strlen(text), &ask->stops[index]);
    return status;
}

static enum mt_status read_stop(struct reading *r, const struct mt_json_node *node)
{
    struct mt_ask *ask = r->ask;
    enum mt_status status = MT_OK;
    bool several = mt_json_kind(node) == MT_JSON_ARRAY;
    size_t count = several ? mt_json_count(node) : 1;
    if (count > MOST_STOPS)
        return mt_json_fail(node, "has %zu texts, expected at most %d", count, MOST_STOPS);
    if (count == 0) return MT_OK;
    ask->stops = mt_arena_array(&ask->arena, count + 1, sizeof *ask->stops, &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_json_node item = several ? mt_json_element(node, i) : *node;
        status = add_stop(ask, &item, i);
    }
    return status;
}

static enum mt_status read_stream(struct reading *r, const struct mt_json_node *node)
{
    return mt_json_as_bool(node, &r->ask->stream);
}

static enum mt_status read_stream_options(struct reading *r, const struct mt_json_node *node)
{
    enum mt_status status = mt_json_expect_object(node);
    return status == MT_OK ? mt_json_optional_bool(node, "include_usage", &r->ask->usage) : status;
}

static enum mt_status read_echo(struct reading *r, const struct mt_json_node *node)
{
    return mt_json_as_bool(node, &r->ask->echo);
}

static enum mt_status read_top(struct reading *r, const struct mt_json_node *node)
{
    int64_t top = 0;
    enum mt_status status = read_count(r, node, 0, MT_TOKEN_LOGS_MOST, &top);
    r->ask->top = (int)top;
    return status;
}

/* A number with plain prompts; with messages it says whether, and top_logprobs how many. */
static enum mt_status read_logs(struct reading *r, const struct mt_json_node *node)
{
    if (r->ask->chat) return mt_json_as_bool(node, &r->logs);
    return read_top(r, node);
}

static enum mt_status read_metier(struct reading *r, const struct mt_json_node *node)
{
    enum mt_status status = mt_json_expect_object(node);
    return status == MT_OK ? mt_json_optional_bool(node, "routing", &r->ask->routing) : status;
}

static enum mt_status nothing(struct reading *r, const struct mt_json_node *node)
{
    (void)r;
    (void)node;
    return MT_OK;
}

/* What would change the answer in a way this server cannot; what changes nothing passes. */
static enum mt_status refuse_unless_plain(struct reading *r, const struct mt_json_node *node)
{
    (void)r;
    double number = 0.0;
    enum mt_json_kind kind = mt_json_kind(node);
    const char *type = NULL;
    bool plain = false;
    if (kind == MT_JSON_INTEGER || kind == MT_JSON_REAL) {
        enum mt_status status = mt_json_as_real(node, -HUGE_VAL, HUGE_VAL, &number);
        if (status != MT_OK) return status;
        plain = number == (strcmp(node->key, "best_of") == 0 ? 1.0 : 0.0);
    } else if (kind == MT_JSON_STRING) {
        (void)mt_json_as_string(node, &type);
        plain = type != NULL && (strcmp(type, "auto") == 0 || type[0] == '\0');
    } else if (kind == MT_JSON_OBJECT) {
        plain = mt_json_count(node) == 0 ||
                (mt_json_get_string(node, "type", &type) == MT_OK && strcmp(type, "text") == 0);
    } else {
        plain = kind == MT_JSON_ARRAY && mt_json_count(node) == 0;
    }
    return plain ? MT_OK : mt_json_fail(node, "asks for something this server does not do");
}

enum for_whom {
    FOR_BOTH,
    FOR_PLAIN,
    FOR_CHAT,
};

static const struct {
    const char *key;
    enum for_whom whose;
    enum mt_status (*read)(struct reading *r, const struct mt_json_node *node);
} keys[] = {
    {"model", FOR_BOTH, nothing}, // read before
    {"prompt", FOR_PLAIN, nothing},
    {"messages", FOR_CHAT, nothing},
    {"tools", FOR_CHAT, nothing},
    {"functions", FOR_CHAT, nothing},
    {"max_tokens", FOR_BOTH, read_max_tokens},
    {"max_completion_tokens", FOR_CHAT, read_max_tokens},
    {"temperature", FOR_BOTH, read_temperature},
    {"top_p", FOR_BOTH, read_top_p},
    {"top_k", FOR_BOTH, read_top_k},
    {"repetition_penalty", FOR_BOTH, read_penalty},
    {"seed", FOR_BOTH, read_seed},
    {"n", FOR_BOTH, read_samples},
    {"stop", FOR_BOTH, read_stop},
    {"stream", FOR_BOTH, read_stream},
    {"stream_options", FOR_BOTH, read_stream_options},
    {"echo", FOR_PLAIN, read_echo},
    {"logprobs", FOR_BOTH, read_logs},
    {"top_logprobs", FOR_CHAT, read_top},
    {"metier", FOR_BOTH, read_metier},
    {"user", FOR_BOTH, nothing},
    {"metadata", FOR_BOTH, nothing},
    {"best_of", FOR_PLAIN, refuse_unless_plain},
    {"suffix", FOR_PLAIN, refuse_unless_plain},
    {"tool_choice", FOR_CHAT, refuse_unless_plain},
    {"response_format", FOR_CHAT, refuse_unless_plain},
    {"logit_bias", FOR_BOTH, refuse_unless_plain},
    {"presence_penalty", FOR_BOTH, refuse_unless_plain},
    {"frequency_penalty", FOR_BOTH, refuse_unless_plain},
};

static enum mt_status read_keys(struct reading *r)
{
    void *position = NULL;
    struct mt_json_node node = {0};
    while (mt_json_next(&r->root, &position, &node)) {
        size_t i = 0;
        const size_t count = sizeof keys / sizeof keys[0];
        for (; i < count; i++) {
            bool ours = keys[i].whose == FOR_BOTH || (keys[i].whose == FOR_CHAT) == r->ask->chat;
            if (ours && strcmp(keys[i].key, node.key) == 0) break;
        }
        if (i == count) return mt_json_fail(&node, "is a key that this server does not know");
        if (mt_json_kind(&node) == MT_JSON_NULL) continue;
        enum mt_status status = keys[i].read(r, &node);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ prompts

/* A session tells of its failures in its own context, what it was given in ours. */
static enum mt_status told(const struct reading *r, enum mt_status status)
{
    const char *message = r->ask->model->session.ctx->message;
    if (status != MT_OK && message[0] != '\0') (void)mt_fail(r->ctx, status, "%s", message);
    return status;
}

/* So that no text is cut into tokens, which keeps others waiting, that has no room anyway. */
static enum mt_status check_text(const struct reading *r, size_t bytes)
{
    int64_t room = r->ask->model->session.context;
    if (bytes / MT_ASK_TOKEN_BYTES < (size_t)room) return MT_OK;
    return mt_fail(r->ctx, MT_ERR_USAGE, "a prompt has %zu bytes, and there is room for %lld tokens", bytes,
                   (long long)room);
}

/* Room for an answer has to be left. */
static enum mt_status check_prompt(const struct reading *r, const struct mt_ask_prompt *prompt)
{
    int64_t room = r->ask->model->session.context;
    if (prompt->ids.count == 0) return mt_fail(r->ctx, MT_ERR_USAGE, "a prompt has no tokens");
    if ((int64_t)prompt->ids.count < room) return MT_OK;
    return mt_fail(r->ctx, MT_ERR_USAGE,
                   "a prompt has %zu tokens, and prompt and answer together have room for %lld",
                   prompt->ids.count, (long long)room);
}

static enum mt_status take_text(struct reading *r, const char *text, struct mt_ask_prompt *prompt)
{
    size_t bytes = strlen(text);
    enum mt_status status = check_text(r, bytes);
    if (status == MT_OK && r->ask->echo) status = mt_byte_list_append(&prompt->text, text, bytes);
    if (status != MT_OK) return status;
    r->ask->model->session.ctx->message[0] = '\0';
    return told(r, mt_session_encode_text(&r->ask->model->session, text, bytes, &prompt->ids));
}

static enum mt_status take_ids(struct reading *r, const struct mt_json_node *list,
                               struct mt_ask_prompt *prompt)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < mt_json_count(list) && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(list, i);
        int64_t id = 0;
        status = mt_json_as_integer(&item, 0, INT32_MAX, &id);
        if (status == MT_OK) status = mt_id_list_append(&prompt->ids, (int32_t)id);
    }
    if (status != MT_OK || !r->ask->echo) return status;
    return mt_tokenizer_decode(r->ask->model->session.tokenizer, r->ctx, prompt->ids.data, prompt->ids.count,
                               MT_DECODE_SKIP_UNKNOWN, &prompt->text);
}

static enum mt_status make_prompts(struct reading *r, size_t count)
{
    struct mt_ask *ask = r->ask;
    enum mt_status status = MT_OK;
    ask->prompts = mt_arena_array(&ask->arena, count, sizeof *ask->prompts, &status);
    if (status != MT_OK) return status;
    ask->prompt_count = count;
    for (size_t i = 0; i < count; i++) {
        ask->prompts[i].ids.ctx = r->ctx;
        ask->prompts[i].text.ctx = r->ctx;
    }
    return MT_OK;
}

static enum mt_status take_prompt(struct reading *r, const struct mt_json_node *node,
                                  struct mt_ask_prompt *prompt)
{
    const char *text = NULL;
    if (mt_json_kind(node) == MT_JSON_ARRAY) return take_ids(r, node, prompt);
    enum mt_status status = mt_json_as_string(node, &text);
    return status == MT_OK ? take_text(r, text, prompt) : status;
}

/* A text, a list of texts, a list of ids, or a list of such lists. */
static enum mt_status read_prompts(struct reading *r)
{
    struct mt_json_node node = {0};
    if (!mt_json_member(&r->root, "prompt", &node))
        return mt_fail(r->ctx, MT_ERR_USAGE, "the request has no \"prompt\"");
    bool list = mt_json_kind(&node) == MT_JSON_ARRAY && mt_json_count(&node) > 0;
    struct mt_json_node first = list ? mt_json_element(&node, 0) : node;
    bool several = list && mt_json_kind(&first) != MT_JSON_INTEGER;
    size_t count = several ? mt_json_count(&node) : 1;
    if (count > MT_ASK_MOST_CHOICES)
        return mt_json_fail(&node, "has %zu prompts, expected at most %d", count, MT_ASK_MOST_CHOICES);
    enum mt_status status = make_prompts(r, count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_json_node item = several ? mt_json_element(&node, i) : node;
        status = take_prompt(r, &item, &r->ask->prompts[i]);
        if (status == MT_OK) status = check_prompt(r, &r->ask->prompts[i]);
    }
    return status;
}

/* Messages and tools, as rows of data hold them. */
static enum mt_status read_messages(struct reading *r, const void *body, size_t bytes)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSON, .max_row_bytes = bytes + 2};
    struct mt_dataset *dataset = NULL;
    struct mt_byte_list list = {.ctx = r->ctx};
    struct mt_row row;
    if (!mt_json_has(&r->root, "messages"))
        return mt_fail(r->ctx, MT_ERR_USAGE, "the request has no \"messages\"");
    mt_row_init(r->ctx, &row);
    enum mt_status status = check_text(r, bytes);
    if (status == MT_OK) status = make_prompts(r, 1);
    if (status == MT_OK) status = mt_byte_list_append_text(&list, "[");
    if (status == MT_OK) status = mt_byte_list_append(&list, body, bytes);
    if (status == MT_OK) status = mt_byte_list_append_text(&list, "]");
    if (status == MT_OK)
        status = mt_dataset_open_memory(r->ctx, "request", list.data, list.count, &options, &dataset);
    if (status == MT_OK) status = mt_dataset_read(dataset, 0, &row);
    r->ask->model->session.ctx->message[0] = '\0';
    if (status == MT_OK)
        status = told(r, mt_session_encode_row(&r->ask->model->session, &row, &r->ask->prompts[0].ids));
    if (status == MT_OK) status = check_prompt(r, &r->ask->prompts[0]);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    mt_byte_list_free(&list);
    return status;
}

// ------------------------------------------------------------------ choices

/* Tokens of an answer; all together within bounds. */
static enum mt_status choose_room(struct reading *r)
{
    struct mt_ask *ask = r->ask;
    const struct mt_session *session = &ask->model->session;
    int64_t most = session->context;
    for (size_t i = 0; i < ask->prompt_count; i++) {
        int64_t count = (int64_t)ask->prompts[i].ids.count;
        most = session->context - count < most ? session->context - count : most;
    }
    ask->max_new = r->max_new >= 0 ? r->max_new : ask->chat ? most : PLAIN_TOKENS;
    if (ask->max_new > most) ask->max_new = most;
    if (ask->max_new == 0 && !ask->echo)
        return mt_fail(r->ctx, MT_ERR_USAGE, "max_tokens is 0, which needs \"echo\": true");
    int64_t tokens = (int64_t)ask->prompt_count * ask->max_new;
    for (size_t i = 0; i < ask->prompt_count && ask->echo; i++) tokens += (int64_t)ask->prompts[i].ids.count;
    int64_t places = tokens * ask->samples * (ask->top > 0 ? 1 + ask->top : 1);
    if (places > MT_ASK_MOST_PLACES)
        return mt_fail(
            r->ctx, MT_ERR_USAGE,
            "answers, max_tokens and logprobs make %lld numbers, expected at most %d: ask for less",
            (long long)places, MT_ASK_MOST_PLACES);
    return MT_OK;
}

static enum mt_status make_choice(struct mt_ask *ask, size_t index)
{
    struct mt_choice *choice = &ask->choices[index];
    struct mt_session *session = &ask->model->session;
    choice->ask = ask;
    choice->prompt = &ask->prompts[index / (size_t)ask->samples];
    return mt_answer_create(ask->ctx, session->tokenizer, ask->stops, &choice->answer);
}

static enum mt_status make_choices(struct reading *r)
{
    struct mt_ask *ask = r->ask;
    enum mt_status status = MT_OK;
    size_t count = ask->prompt_count * (size_t)ask->samples;
    if (count > MT_ASK_MOST_CHOICES)
        return mt_fail(r->ctx, MT_ERR_USAGE, "%zu answers were asked for, expected at most %d", count,
                       MT_ASK_MOST_CHOICES);
    if (ask->routing && count > 1)
        return mt_fail(r->ctx, MT_ERR_USAGE, "routing is only recorded for one prompt with one answer");
    if (ask->routing && ask->model->log == NULL)
        return mt_fail(r->ctx, MT_ERR_USAGE, "the model has no experts whose routing could be recorded");
    ask->choices = mt_arena_array(&ask->arena, count, sizeof *ask->choices, &status);
    if (status != MT_OK) return status;
    ask->choice_count = count;
    for (size_t i = 0; i < count && status == MT_OK; i++) status = make_choice(ask, i);
    return status;
}

static enum mt_status find_model(struct reading *r, struct mt_served_models *models)
{
    const char *name = NULL;
    enum mt_status status = mt_json_optional_string(&r->root, "model", &name);
    if (status != MT_OK) return status;
    r->ask->model = mt_served_models_find(models, name);
    if (r->ask->model == NULL)
        return mt_fail(r->ctx, MT_ERR_USAGE, "there is no model '%s'; GET /v1/models lists them",
                       mt_printable(name).text);
    return MT_OK;
}

/* All but the prompts. */
static enum mt_status read_settings(struct reading *r)
{
    struct mt_ask *ask = r->ask;
    ask->sampling = mt_session_sampling(&ask->model->session);
    ask->samples = 1;
    ask->top = -1;
    ask->created = (int64_t)time(NULL);
    (void)snprintf(ask->id, sizeof ask->id, "%s-%llu", ask->chat ? "chatcmpl" : "cmpl",
                   (unsigned long long)r->number);
    enum mt_status status = read_keys(r);
    if (status != MT_OK) return status;
    if (ask->chat && !r->logs && ask->top > 0)
        return mt_fail(r->ctx, MT_ERR_USAGE, "top_logprobs means nothing without \"logprobs\": true");
    if (ask->chat) ask->top = r->logs ? (ask->top > 0 ? ask->top : 0) : -1;
    if (ask->stream && ask->echo)
        return mt_fail(r->ctx, MT_ERR_USAGE, "\"echo\" is not streamed: ask without \"stream\"");
    if (!r->seeded) ask->sampling.seed = mt_rng_words(r->number, (uint64_t)ask->created, 0).word[0];
    return mt_sampling_check(r->ctx, &ask->sampling);
}

enum mt_status mt_ask_read(struct mt_ask *ask, struct mt_context *ctx, struct mt_served_models *models,
                           bool chat, const void *body, size_t bytes, uint64_t number)
{
    struct mt_json json = {0};
    struct reading r = {.ask = ask, .ctx = ctx, .number = number, .max_new = -1};
    ctx->message[0] = '\0';
    ask->ctx = ctx;
    ask->chat = chat;
    mt_arena_init(&ask->arena, ctx, ARENA_BYTES);
    enum mt_status status = mt_json_parse(ctx, "request", body, bytes, &mt_ask_body_limits, &json);
    if (status != MT_OK) return status;
    r.root = mt_json_root(&json);
    status = mt_json_expect_object(&r.root);
    if (status == MT_OK) status = find_model(&r, models);
    if (status == MT_OK) status = read_settings(&r);
    if (status == MT_OK) status = chat ? read_messages(&r, body, bytes) : read_prompts(&r);
    if (status == MT_OK) status = choose_room(&r);
    if (status == MT_OK) status = make_choices(&r);
    mt_json_free(&json);
    return status;
}
