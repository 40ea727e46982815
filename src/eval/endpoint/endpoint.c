/* Questions to an endpoint: answers in writing, and likelihoods of given continuations. */
#include "eval/endpoint/endpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "eval/endpoint/chat_api.h"
#include "eval/endpoint/completion_api.h"

#define BATCH_PER_REQUEST                                                                                    \
    8 // questions asked together for each request under way, so that few wait for the last
#define DRAWING_TEMPERATURE 0.8
#define ARENA_BYTES         ((size_t)1 << 16)
#define SCORE_BYTES         ((size_t)16 << 20) // of a reply with every token of a prompt
#define NAME_BYTES          1024

struct mt_endpoint {
    struct mt_context *ctx; // borrowed
    struct mt_endpoint_options options;
    char place[MT_HTTP_PLACE_BYTES];       // of answers
    char score_place[MT_HTTP_PLACE_BYTES]; // of likelihoods
    char name[NAME_BYTES];                 // model and place, for the summary
    bool scored;                           // a likelihood came back: the endpoint can do it
};

/* One call of generate or score: a row of requests, some for each question. */
struct asking {
    struct mt_endpoint *endpoint;
    struct mt_arena arena; // of the arrays
    const struct mt_answer_listener *listener;
    size_t *left;             // [questions]: requests without a reply
    bool *failed;             // [questions]: a request got nowhere
    int64_t tokens;           // as the replies count them
    struct mt_byte_list text; // of the request or the reply at hand
    // Answers in writing.
    const struct mt_question *questions;
    const struct mt_answer_options *options;
    struct mt_byte_list *answers;
    size_t samples;
    // Likelihoods.
    const struct mt_choice_question *choosing;
    size_t *owner; // [requests]: the question
    size_t *first; // [questions]: its first request
};

static enum mt_status open_asking(struct asking *asking, size_t questions)
{
    enum mt_status status = MT_OK;
    asking->text.ctx = asking->endpoint->ctx;
    mt_arena_init(&asking->arena, asking->endpoint->ctx, ARENA_BYTES);
    asking->left = mt_arena_array(&asking->arena, questions, sizeof *asking->left, &status);
    asking->failed = mt_arena_array(&asking->arena, questions, sizeof *asking->failed, &status);
    return status;
}

static void close_asking(struct asking *asking)
{
    mt_byte_list_free(&asking->text);
    mt_arena_free(&asking->arena);
}

static bool go_on(void *self)
{
    const struct asking *asking = self;
    return asking->listener->go_on(asking->listener->self, asking->tokens);
}

/* A request has its reply, or got nowhere (`why`). */
static enum mt_status settle(struct asking *asking, size_t question, const char *why)
{
    const struct mt_answer_listener *listener = asking->listener;
    asking->left[question]--;
    if (why != NULL && !asking->failed[question]) {
        asking->failed[question] = true;
        return listener->failed(listener->self, question, why);
    }
    if (asking->failed[question] || asking->left[question] > 0) return MT_OK;
    return listener->answered(listener->self, question);
}

// ------------------------------------------------------------------ answers in writing

/* The same for the same question, another for each of its answers; of 31 bits, which every endpoint takes. */
static uint32_t seed_of(const struct asking *asking, size_t index)
{
    const struct mt_question *question = &asking->questions[index / asking->samples];
    uint64_t state = asking->options->seed + asking->endpoint->options.seed;
    state = state * UINT64_C(6364136223846793005) + question->number;
    state = state * UINT64_C(6364136223846793005) + index % asking->samples;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33);
}

static enum mt_status write_request(void *self, size_t index, struct mt_byte_list *body)
{
    const struct asking *asking = self;
    const struct mt_endpoint_options *options = &asking->endpoint->options;
    double several = asking->samples > 1 ? DRAWING_TEMPERATURE : 0.0;
    const struct mt_completion completion = {.model = options->model,
                                             .prompt = asking->questions[index / asking->samples].prompt,
                                             .chat = !options->plain,
                                             .max_tokens = asking->options->max_tokens,
                                             .stop = asking->options->stop,
                                             .temperature =
                                                 options->temperature >= 0.0 ? options->temperature : several,
                                             .top_p = options->top_p > 0.0 ? options->top_p : 1.0,
                                             .seed = seed_of(asking, index)};
    return mt_completion_request(&completion, body);
}

/* Endpoints may leave a stop text in, or not know all of them. */
static struct mt_text cut_at_stops(struct mt_text text, const char *const *stop)
{
    for (; stop != NULL && *stop != NULL; stop++) text.bytes = mt_text_find(text, 0, *stop);
    return text;
}

static enum mt_status take_answer(void *self, size_t index, const struct mt_byte_list *body)
{
    struct asking *asking = self;
    struct mt_endpoint *endpoint = asking->endpoint;
    int64_t tokens = 0;
    bool cut = false;
    asking->text.count = 0;
    enum mt_status status = mt_chat_reply(endpoint->ctx, body->data, body->count, endpoint->options.http.key,
                                          &asking->text, &tokens, &cut);
    if (status == MT_ERR_FORMAT) return settle(asking, index / asking->samples, endpoint->ctx->message);
    if (status != MT_OK) return status;
    asking->tokens += tokens;
    struct mt_text text = cut_at_stops(mt_text_in(&asking->text), asking->options->stop);
    struct mt_answer_end *ends = asking->questions[index / asking->samples].ends;
    if (ends != NULL) ends[index % asking->samples].cut = cut && text.bytes == asking->text.count;
    status = mt_byte_list_append(&asking->answers[index], text.text, text.bytes);
    return status == MT_OK ? settle(asking, index / asking->samples, NULL) : status;
}

static enum mt_status lose_answer(void *self, size_t index, const char *why)
{
    struct asking *asking = self;
    return settle(asking, index / asking->samples, why);
}

static enum mt_status generate(void *self, const struct mt_question *questions, size_t count,
                               const struct mt_answer_options *options,
                               const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    struct mt_endpoint *endpoint = self;
    struct asking asking = {.endpoint = endpoint,
                            .listener = listener,
                            .questions = questions,
                            .options = options,
                            .answers = answers,
                            .samples = (size_t)options->samples};
    const struct mt_http_work work = {.count = count * asking.samples,
                                      .self = &asking,
                                      .request = write_request,
                                      .reply = take_answer,
                                      .refused = lose_answer,
                                      .go_on = go_on};
    enum mt_status status = open_asking(&asking, count);
    for (size_t i = 0; i < count && status == MT_OK; i++) asking.left[i] = asking.samples;
    if (status == MT_OK) status = mt_http_post_all(endpoint->ctx, &endpoint->options.http, &work);
    close_asking(&asking);
    return status;
}

// ------------------------------------------------------------------ likelihoods

/* Prefix and continuation of a request, one after the other, in asking->text; *prefix: bytes of the former.
 */
static enum mt_status join(struct asking *asking, size_t index, size_t *prefix)
{
    const struct mt_choice_question *question = &asking->choosing[asking->owner[index]];
    const struct mt_text *continuation =
        &question->continuations[index - asking->first[asking->owner[index]]];
    asking->text.count = 0;
    *prefix = question->prefix.bytes;
    enum mt_status status = mt_byte_list_append(&asking->text, question->prefix.text, question->prefix.bytes);
    if (status != MT_OK) return status;
    return mt_byte_list_append(&asking->text, continuation->text, continuation->bytes);
}

static enum mt_status ask_score(void *self, size_t index, struct mt_byte_list *body)
{
    struct asking *asking = self;
    size_t prefix = 0;
    enum mt_status status = join(asking, index, &prefix);
    if (status != MT_OK) return status;
    return mt_score_request(asking->endpoint->options.model, mt_text_in(&asking->text), body);
}

static enum mt_status take_score(void *self, size_t index, const struct mt_byte_list *body)
{
    struct asking *asking = self;
    struct mt_endpoint *endpoint = asking->endpoint;
    size_t owner = asking->owner[index];
    const struct mt_choice_question *question = &asking->choosing[owner];
    size_t prefix = 0;
    int64_t tokens = 0;
    enum mt_status status = join(asking, index, &prefix);
    if (status != MT_OK) return status;
    status = mt_score_reply(endpoint->ctx, body->data, body->count, mt_text_in(&asking->text), prefix,
                            &question->scores[index - asking->first[owner]], &tokens);
    if (status == MT_ERR_UNSUPPORTED && !endpoint->scored)
        return mt_fail(endpoint->ctx, MT_ERR_UNSUPPORTED,
                       "task %s needs log-likelihoods, and %s gives no log-probabilities of a prompt "
                       "(completions with echo and logprobs, as vLLM has them)",
                       question->task, endpoint->score_place);
    if (status == MT_ERR_FORMAT || status == MT_ERR_UNSUPPORTED)
        return settle(asking, owner, endpoint->ctx->message);
    if (status != MT_OK) return status;
    endpoint->scored = true;
    asking->tokens += tokens;
    return settle(asking, owner, NULL);
}

static enum mt_status lose_score(void *self, size_t index, const char *why)
{
    struct asking *asking = self;
    return settle(asking, asking->owner[index], why);
}

static enum mt_status score(void *self, const struct mt_choice_question *questions, size_t count,
                            const struct mt_answer_listener *listener)
{
    struct mt_endpoint *endpoint = self;
    struct asking asking = {.endpoint = endpoint, .listener = listener, .choosing = questions};
    struct mt_http_work work = {
        .self = &asking, .request = ask_score, .reply = take_score, .refused = lose_score, .go_on = go_on};
    struct mt_http_options http = endpoint->options.http;
    http.path = MT_HTTP_COMPLETION;
    http.most_bytes = SCORE_BYTES;
    enum mt_status status = open_asking(&asking, count);
    for (size_t i = 0; i < count; i++) work.count += questions[i].count;
    asking.owner = mt_arena_array(&asking.arena, work.count, sizeof *asking.owner, &status);
    asking.first = mt_arena_array(&asking.arena, count, sizeof *asking.first, &status);
    size_t used = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        asking.first[i] = used;
        asking.left[i] = questions[i].count;
        for (size_t k = 0; k < questions[i].count; k++) asking.owner[used++] = i;
    }
    if (status == MT_OK) status = mt_http_post_all(endpoint->ctx, &http, &work);
    close_asking(&asking);
    return status;
}

// ------------------------------------------------------------------ the answerer

enum mt_status mt_endpoint_create(struct mt_context *ctx, const struct mt_endpoint_options *options,
                                  struct mt_endpoint **endpoint)
{
    void *memory = NULL;
    *endpoint = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **endpoint, &memory);
    if (status != MT_OK) return status;
    struct mt_endpoint *made = memory;
    *made = (struct mt_endpoint){.ctx = ctx, .options = *options};
    made->options.http.path = MT_HTTP_COMPLETION;
    status = mt_http_check(ctx, &made->options.http, made->score_place);
    if (!options->plain) made->options.http.path = MT_HTTP_CHAT;
    if (status == MT_OK) status = mt_http_check(ctx, &made->options.http, made->place);
    if (status != MT_OK) {
        mt_endpoint_destroy(made);
        return status;
    }
    (void)snprintf(made->name, sizeof made->name, "%.500s at %s", options->model, made->place);
    *endpoint = made;
    return MT_OK;
}

void mt_endpoint_destroy(struct mt_endpoint *endpoint)
{
    if (endpoint != NULL) mt_release(endpoint->ctx, endpoint, sizeof *endpoint);
}

const char *mt_endpoint_place(const struct mt_endpoint *endpoint, bool likelihoods)
{
    return likelihoods ? endpoint->score_place : endpoint->place;
}

struct mt_answerer mt_endpoint_answerer(struct mt_endpoint *endpoint)
{
    return (struct mt_answerer){.self = endpoint,
                                .name = endpoint->name,
                                .batch = (size_t)endpoint->options.http.parallel * BATCH_PER_REQUEST,
                                .generate = generate,
                                .score = score};
}
