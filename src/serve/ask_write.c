/* Answers as OpenAI's API writes them: whole, or in pieces. */
#include <inttypes.h>
#include <string.h>

#include "serve/ask.h"

#define WEIGHT_DIGITS 4

// ------------------------------------------------------------------ tokens and their probabilities

/* A failure on the way is the text's. */
static void take_status(enum mt_status status, struct mt_json_text *text)
{
    if (text->status == MT_OK) text->status = status;
}

/* Appends a token as the text it stands for; half a character comes out as U+FFFD. */
static void put_token(const struct mt_ask *ask, int32_t id, struct mt_json_text *text)
{
    struct mt_byte_list piece = {.ctx = ask->ctx};
    take_status(
        mt_tokenizer_decode(ask->model->session.tokenizer, ask->ctx, &id, 1, MT_DECODE_SKIP_UNKNOWN, &piece),
        text);
    mt_json_text_bytes(text, piece.data, piece.count);
    mt_byte_list_free(&piece);
}

/* `"a": -0.5` of the likeliest in one place; of those that look alike, such as halves of characters, the
 * first. */
static void put_top(const struct mt_ask *ask, const struct mt_likely *place, struct mt_json_text *text)
{
    // With none asked for, the token itself stands there, as vLLM has it.
    int count = ask->top > 0 ? ask->top : 1;
    const struct mt_likely *likely = ask->top > 0 ? place + 1 : place;
    size_t start[MT_TOKEN_LOGS_MOST], length[MT_TOKEN_LOGS_MOST];
    int names = 0;
    mt_json_text_format(text, "{");
    for (int i = 0; i < count && likely[i].id >= 0; i++) {
        size_t before = text->length;
        bool known = false;
        mt_json_text_format(text, names > 0 ? ", " : "");
        start[names] = text->length;
        put_token(ask, likely[i].id, text);
        length[names] = text->length - start[names];
        for (int k = 0; k < names && !known; k++)
            known = text->status == MT_OK && length[k] == length[names] &&
                    memcmp(text->bytes + start[k], text->bytes + start[names], length[k]) == 0;
        if (known) text->length = before;
        if (known) continue;
        names++;
        mt_json_text_format(text, ": ");
        mt_json_text_number(text, (double)likely[i].log);
    }
    mt_json_text_format(text, "}");
}

/* The tokens of a choice: those of the prompt, where it is echoed, and the answer's from `first` on. */
struct told {
    const struct mt_choice *choice;
    size_t prompt; // tokens
    size_t first, count;
};

static struct told told_of(const struct mt_ask *ask, const struct mt_choice *choice, bool piece)
{
    return (struct told){.choice = choice,
                         .prompt = ask->echo ? choice->prompt->ids.count : 0,
                         .first = piece ? choice->shown_tokens : 0,
                         .count = choice->answer.ids.count};
}

static size_t told_count(const struct told *told)
{
    return told->prompt + told->count - told->first;
}

static int32_t told_id(const struct told *told, size_t i)
{
    if (i < told->prompt) return told->choice->prompt->ids.data[i];
    return told->choice->answer.ids.data[told->first + i - told->prompt];
}

/* NULL: the first of a prompt, of which nothing is known. */
static const struct mt_likely *told_place(const struct told *told, size_t i)
{
    if (i >= told->prompt) return mt_token_logs_at(&told->choice->logs, told->first + i - told->prompt);
    return i > 0 ? mt_token_logs_at(&told->choice->prompt_logs, i - 1) : NULL;
}

/* Where each token begins in the text, in characters. */
static enum mt_status put_offsets(const struct mt_ask *ask, const struct told *told,
                                  struct mt_json_text *text)
{
    struct mt_token_stream *stream = NULL;
    struct mt_byte_list decoded = {.ctx = ask->ctx};
    size_t characters = 0;
    size_t counted = 0;
    enum mt_status status =
        mt_token_stream_create(ask->ctx, ask->model->session.tokenizer, MT_DECODE_SKIP_UNKNOWN, &stream);
    mt_json_text_format(text, "[");
    for (size_t i = 0; i < told_count(told) && status == MT_OK; i++) {
        mt_json_text_format(text, "%s%zu", i > 0 ? ", " : "", characters);
        status = mt_token_stream_push(stream, told_id(told, i), &decoded);
        for (; counted < decoded.count; counted++) characters += (decoded.data[counted] & 0xc0) != 0x80;
    }
    mt_json_text_format(text, "]");
    mt_token_stream_free(stream);
    mt_byte_list_free(&decoded);
    return status;
}

static void put_plain_logs(const struct mt_ask *ask, const struct told *told, struct mt_json_text *text)
{
    size_t count = told_count(told);
    mt_json_text_format(text, "{\"tokens\": [");
    for (size_t i = 0; i < count; i++) {
        mt_json_text_format(text, i > 0 ? ", " : "");
        put_token(ask, told_id(told, i), text);
    }
    mt_json_text_format(text, "], \"token_logprobs\": [");
    for (size_t i = 0; i < count; i++) {
        const struct mt_likely *place = told_place(told, i);
        mt_json_text_format(text, i > 0 ? ", " : "");
        if (place != NULL) mt_json_text_number(text, (double)place->log);
        if (place == NULL) mt_json_text_format(text, "null");
    }
    mt_json_text_format(text, "], \"top_logprobs\": [");
    for (size_t i = 0; i < count; i++) {
        const struct mt_likely *place = told_place(told, i);
        mt_json_text_format(text, i > 0 ? ", " : "");
        if (place != NULL) put_top(ask, place, text);
        if (place == NULL) mt_json_text_format(text, "null");
    }
    mt_json_text_format(text, "], \"text_offset\": ");
    enum mt_status status = put_offsets(ask, told, text);
    take_status(status, text);
    mt_json_text_format(text, "}");
}

static void put_likely(const struct mt_ask *ask, const struct mt_likely *likely, struct mt_json_text *text)
{
    struct mt_byte_list piece = {.ctx = ask->ctx};
    mt_json_text_format(text, "{\"token\": ");
    put_token(ask, likely->id, text);
    mt_json_text_format(text, ", \"logprob\": ");
    mt_json_text_number(text, (double)likely->log);
    mt_json_text_format(text, ", \"bytes\": [");
    enum mt_status status = mt_tokenizer_decode(ask->model->session.tokenizer, ask->ctx, &likely->id, 1,
                                                MT_DECODE_SKIP_UNKNOWN, &piece);
    take_status(status, text);
    for (size_t i = 0; i < piece.count; i++)
        mt_json_text_format(text, "%s%u", i > 0 ? ", " : "", piece.data[i]);
    mt_json_text_format(text, "]");
    mt_byte_list_free(&piece);
}

static void put_chat_logs(const struct mt_ask *ask, const struct told *told, struct mt_json_text *text)
{
    mt_json_text_format(text, "{\"content\": [");
    for (size_t i = 0; i < told_count(told); i++) {
        const struct mt_likely *place = told_place(told, i);
        mt_json_text_format(text, i > 0 ? ", " : "");
        put_likely(ask, place, text);
        mt_json_text_format(text, ", \"top_logprobs\": [");
        for (int k = 1; k <= ask->top && place[k].id >= 0; k++) {
            mt_json_text_format(text, k > 1 ? ", " : "");
            put_likely(ask, &place[k], text);
            mt_json_text_format(text, "}");
        }
        mt_json_text_format(text, "]}");
    }
    mt_json_text_format(text, "]}");
}

static void put_logs(const struct mt_ask *ask, const struct mt_choice *choice, bool piece,
                     struct mt_json_text *text)
{
    const struct told told = told_of(ask, choice, piece);
    mt_json_text_format(text, ", \"logprobs\": ");
    if (ask->top < 0) {
        mt_json_text_format(text, "null");
    } else if (ask->chat) {
        put_chat_logs(ask, &told, text);
    } else {
        put_plain_logs(ask, &told, text);
    }
}

// ------------------------------------------------------------------ routing

/* A list for each layer, of the experts or the weights of its slots. */
static void put_by_layer(const struct mt_routing_trace *trace, size_t row, bool weights,
                         struct mt_json_text *text)
{
    size_t slots = (size_t)trace->slots;
    mt_json_text_format(text, weights ? ", \"weights\": [" : ", \"experts\": [");
    for (size_t i = 0; i < (size_t)trace->layers * slots; i++) {
        mt_json_text_format(text, "%s%s", i > 0 ? ", " : "", i % slots == 0 ? "[" : "");
        if (weights) mt_json_text_rounded(text, (double)trace->weight[row + i], WEIGHT_DIGITS);
        if (!weights) mt_json_text_format(text, "%d", trace->expert[row + i]);
        if (i % slots == slots - 1) mt_json_text_format(text, "]");
    }
    mt_json_text_format(text, "]");
}

/* Prompt and answer, token by token. The last token was never computed with: it has no experts. */
static void put_routing(const struct mt_ask *ask, const struct mt_choice *choice, struct mt_json_text *text)
{
    const struct mt_routing_trace *trace = &choice->trace;
    const struct mt_id_list *prompt = &choice->prompt->ids;
    const struct mt_id_list *answer = &choice->answer.ids;
    mt_json_text_format(text, ", \"metier\": {\"routing\": {\"experts\": %d, \"slots\": %d, \"layers\": [",
                        mt_routing_log_experts(ask->model->log), trace->slots);
    for (int i = 0; i < trace->layers; i++)
        mt_json_text_format(text, "%s%" PRId64, i > 0 ? ", " : "",
                            mt_routing_log_loads(ask->model->log, i).layer);
    mt_json_text_format(text, "], \"prompt_tokens\": %zu, \"tokens\": [", prompt->count);
    for (size_t i = 0; i < prompt->count + answer->count; i++) {
        int32_t id = i < prompt->count ? prompt->data[i] : answer->data[i - prompt->count];
        mt_json_text_format(text, "%s{\"id\": %" PRId32 ", \"text\": ", i > 0 ? ", " : "", id);
        put_token(ask, id, text);
        size_t row = i * (size_t)trace->layers * (size_t)trace->slots;
        if ((int64_t)i < trace->tokens) put_by_layer(trace, row, false, text);
        if ((int64_t)i < trace->tokens) put_by_layer(trace, row, true, text);
        mt_json_text_format(text, "}");
    }
    mt_json_text_format(text, "]}}");
}

// ------------------------------------------------------------------ the answer

static void put_head(const struct mt_ask *ask, bool piece, struct mt_json_text *text)
{
    const char *object = !ask->chat ? "text_completion" : piece ? "chat.completion.chunk" : "chat.completion";
    mt_json_text_format(text,
                        "{\"id\": \"%s\", \"object\": \"%s\", \"created\": %" PRId64 ", \"model\": ", ask->id,
                        object, ask->created);
    mt_json_text_string(text, ask->model->name);
    mt_json_text_format(text, ", \"choices\": [");
}

static void put_finish(const char *finish, struct mt_json_text *text)
{
    mt_json_text_format(text, finish != NULL ? ", \"finish_reason\": \"%s\"" : ", \"finish_reason\": null",
                        finish);
}

static void put_usage(const struct mt_ask *ask, struct mt_json_text *text)
{
    size_t prompts = 0;
    size_t answers = 0;
    for (size_t i = 0; i < ask->prompt_count; i++) prompts += ask->prompts[i].ids.count;
    for (size_t i = 0; i < ask->choice_count; i++) answers += ask->choices[i].answer.ids.count;
    mt_json_text_format(text,
                        "\"usage\": {\"prompt_tokens\": %zu, \"completion_tokens\": %zu, "
                        "\"total_tokens\": %zu}",
                        prompts, answers, prompts + answers);
}

static void put_choice(const struct mt_ask *ask, const struct mt_choice *choice, struct mt_json_text *text)
{
    const struct mt_byte_list *answer = &choice->answer.text;
    mt_json_text_format(text, "{\"index\": %zu, ", (size_t)(choice - ask->choices));
    if (ask->chat) {
        mt_json_text_format(text, "\"message\": {\"role\": \"assistant\", \"content\": ");
        mt_json_text_bytes(text, answer->data, answer->count);
        mt_json_text_format(text, "}");
    } else if (ask->echo) {
        struct mt_byte_list whole = {.ctx = ask->ctx};
        enum mt_status status =
            mt_byte_list_append(&whole, choice->prompt->text.data, choice->prompt->text.count);
        if (status == MT_OK) status = mt_byte_list_append(&whole, answer->data, answer->count);
        mt_json_text_format(text, "\"text\": ");
        mt_json_text_bytes(text, whole.data, whole.count);
        take_status(status, text);
        mt_byte_list_free(&whole);
    } else {
        mt_json_text_format(text, "\"text\": ");
        mt_json_text_bytes(text, answer->data, answer->count);
    }
    put_logs(ask, choice, false, text);
    put_finish(choice->finish, text);
    mt_json_text_format(text, "}");
}

enum mt_status mt_ask_write(const struct mt_ask *ask, struct mt_json_text *text)
{
    put_head(ask, false, text);
    for (size_t i = 0; i < ask->choice_count; i++) {
        mt_json_text_format(text, i > 0 ? ", " : "");
        put_choice(ask, &ask->choices[i], text);
    }
    mt_json_text_format(text, "], ");
    put_usage(ask, text);
    if (ask->routing) put_routing(ask, &ask->choices[0], text);
    return mt_json_text_format(text, "}\n");
}

enum mt_status mt_ask_write_piece(const struct mt_ask *ask, const struct mt_choice *choice,
                                  struct mt_json_text *text)
{
    const uint8_t *fresh = choice->answer.text.data + choice->shown;
    size_t bytes = choice->answer.settled - choice->shown;
    put_head(ask, true, text);
    mt_json_text_format(text, "{\"index\": %zu, ", (size_t)(choice - ask->choices));
    if (ask->chat) {
        mt_json_text_format(text,
                            "\"delta\": {%s\"content\": ", choice->begun ? "" : "\"role\": \"assistant\", ");
        mt_json_text_bytes(text, fresh, bytes);
        mt_json_text_format(text, "}");
    } else {
        mt_json_text_format(text, "\"text\": ");
        mt_json_text_bytes(text, fresh, bytes);
    }
    put_logs(ask, choice, true, text);
    put_finish(choice->finish, text);
    mt_json_text_format(text, "}]");
    if (ask->routing && choice->finish != NULL) put_routing(ask, choice, text);
    return mt_json_text_format(text, "}");
}

enum mt_status mt_ask_write_usage(const struct mt_ask *ask, struct mt_json_text *text)
{
    put_head(ask, true, text);
    mt_json_text_format(text, "], ");
    put_usage(ask, text);
    return mt_json_text_format(text, "}");
}
