/*
 * What a server says of the next token after a text: the likeliest tokens and their log-probabilities, by
 * /v1/completions with "logprobs". Texts go out as token ids, so that no tokenizer stands in between. Tokens
 * come back as texts. A server is hostile: replies are bounded, and what is no log-probability is refused.
 */
#ifndef MT_INFER_ASKED_H
#define MT_INFER_ASKED_H

#include "eval/endpoint/http.h"
#include "infer/probe/variants.h"

#define MT_ASKED_MOST 20 // tokens of a place

struct mt_asked_token {
    const char *text;
    double log; // p
};

/* What follows one text. */
struct mt_asked_place {
    struct mt_asked_token token[MT_ASKED_MOST];
    int count; // 0: the server gave none for this text
};

struct mt_asking {
    const char *model;           // as the server calls it
    struct mt_http_options http; // its path is set here
};

/*
 * Asks about every text; places[count] are filled in, their texts in the arena. Servers that do not give
 * MT_ASKED_MOST tokens are asked for 5. A server that refuses a text, or gives no log-probabilities at all,
 * ends it.
 */
enum mt_status mt_ask_places(struct mt_arena *arena, const struct mt_asking *asking,
                             const struct mt_probe_text *texts, size_t count, struct mt_asked_place *places);

/* Reads one reply; MT_ERR_UNSUPPORTED: it has no log-probabilities. */
enum mt_status mt_asked_read(struct mt_arena *arena, const void *body, size_t bytes,
                             struct mt_asked_place *place);

#endif
