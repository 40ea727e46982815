/*
 * One request for text, from the moment it is read to its last byte: what was asked, and its choices, each a
 * request of the engine or two.
 *
 * A choice depends on what was asked alone, not on what is computed beside it: draws are counted by its
 * number, the seed and the position (infer/engine.h).
 */
#ifndef MT_SERVE_ASK_H
#define MT_SERVE_ASK_H

#include "formats/text/json_text.h"
#include "serve/http.h"
#include "serve/served_model.h"
#include "serve/token_logs.h"

#define MT_ASK_MOST_CHOICES 256
#define MT_ASK_MOST_PLACES  (4 << 20) // tokens of all answers, times 1 + the likeliest told of each
#define MT_ASK_TOKEN_BYTES  128       // of a text: no text has as long tokens on the average

extern const struct mt_json_limits mt_ask_body_limits;

struct mt_ask_prompt {
    struct mt_id_list ids;
    struct mt_byte_list text; // for an echo
};

enum mt_choice_state {
    MT_CHOICE_WAITING,
    MT_CHOICE_SCORING, // the prompt's own probabilities are computed, for an echo
    MT_CHOICE_WRITING,
    MT_CHOICE_DONE,
};

struct mt_choice {
    struct mt_ask *ask; // borrowed
    const struct mt_ask_prompt *prompt;
    enum mt_choice_state state;
    struct mt_answer answer;
    struct mt_generation generation;
    struct mt_scoring scoring;
    struct mt_continuation continuation;
    struct mt_token_logs prompt_logs; // of the prompt's tokens but the first
    struct mt_token_logs logs;
    struct mt_routing_trace trace;
    const char *finish; // "stop" or "length"; NULL: not yet
    size_t shown;       // bytes of the answer that were sent
    size_t shown_tokens;
    bool begun; // something of it was sent
};

struct mt_ask {
    struct mt_context *ctx; // borrowed; of all that asks hold, and bounded
    struct mt_ask *next;
    struct mt_exchange *exchange;  // NULL: it was answered, or never will be
    struct mt_served_model *model; // borrowed
    struct mt_arena arena;         // of the texts below and the arrays
    double since;                  // mt_clock_seconds when it came
    char id[40];
    int64_t created; // seconds since 1970

    bool chat, stream, usage, echo, routing;
    int top;         // likeliest tokens reported in each place; -1: no probabilities
    int64_t max_new; // tokens of an answer
    int64_t samples; // choices of each prompt
    struct mt_sampling sampling;
    const char **stops; // NULL-terminated; NULL: none

    struct mt_ask_prompt *prompts;
    size_t prompt_count;
    struct mt_choice *choices; // [prompt_count * samples]
    size_t choice_count;
    size_t started, done;
    bool streaming; // the answer has begun
};

/*
 * Reads the body of POST /v1/completions or /v1/chat/completions. The ask is whole, with its choices, none
 * begun. `number` is another one for each ask. All memory is ctx's, which also says what failed. The caller
 * frees, also after a failure.
 */
enum mt_status mt_ask_read(struct mt_ask *ask, struct mt_context *ctx, struct mt_served_models *models,
                           bool chat, const void *body, size_t bytes, uint64_t number);

/* What it holds; none of its choices may be in an engine. */
void mt_ask_free(struct mt_ask *ask);

/*
 * Puts the next choice into the engine's line, or refuses the ask. One that is refused later, for want of
 * memory, takes no other with it.
 */
void mt_ask_start_choice(struct mt_ask *ask);

/* Sends what has come since the last call; the whole answer, when it is whole. */
enum mt_status mt_ask_send(struct mt_ask *ask);

/* Answers with an error instead. No further choice is begun; those in the engine end with their next token.
 */
void mt_ask_refuse(struct mt_ask *ask, int code, const char *why);

/* True when it was answered and none of its choices is in the engine. */
bool mt_ask_is_over(const struct mt_ask *ask);

/* Answers an exchange with an error as OpenAI's API writes it. The exchange is the server's. */
void mt_exchange_refuse(struct mt_context *ctx, struct mt_exchange *exchange, int code, const char *why);

/* Appends the whole answer; with `choice`, a piece of a streamed one instead. */
enum mt_status mt_ask_write(const struct mt_ask *ask, struct mt_json_text *text);
enum mt_status mt_ask_write_piece(const struct mt_ask *ask, const struct mt_choice *choice,
                                  struct mt_json_text *text);

/* Appends the last piece of a stream, which counts tokens. */
enum mt_status mt_ask_write_usage(const struct mt_ask *ask, struct mt_json_text *text);

#endif
