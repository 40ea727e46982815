/*
 * The JSON of an evaluation's requests to an OpenAI-compatible endpoint: answers in writing by chat or
 * completion, and log-likelihoods by a completion that gives its prompt back (`echo`) with `logprobs`.
 *
 * Which of a reply's tokens are the continuation's is found from the end of the prompt: by the tokens' texts,
 * which must spell the continuation, else by `text_offset`, which must lead to the prompt's end. A reply that
 * does neither is refused: a wrong token more or less would be a wrong figure. A token that begins in the
 * prefix is the prefix's, unless there is no other. (There a model here is asked something else: it reads the
 * prefix's own tokens, which a text cannot say; text/plain_text.h.)
 */
#ifndef MT_EVAL_COMPLETION_API_H
#define MT_EVAL_COMPLETION_API_H

#include "eval/answerer.h"

struct mt_completion {
    const char *model;
    struct mt_text prompt;
    bool chat; // what a user says; else a text to go on with
    int64_t max_tokens;
    const char *const *stop; // NULL-terminated, may be NULL; the first four are sent: endpoints take no more
    double temperature;
    double top_p;  // 1: not said
    uint32_t seed; // said where the temperature is not 0
};

/* Appends a request for an answer; mt_chat_reply reads what comes back. */
enum mt_status mt_completion_request(const struct mt_completion *completion, struct mt_byte_list *body);

/* Appends a request for the log-likelihood of a text, all of it: prefix and continuation. */
enum mt_status mt_score_request(const char *model, struct mt_text whole, struct mt_byte_list *body);

/*
 * Reads the log-likelihood of whole[prefix ...] from a reply; white space at the end of the prefix counts
 * with the continuation, as text/plain_text.h says. `greedy` is false where the reply names no likeliest
 * tokens. *tokens: what it cost. MT_ERR_UNSUPPORTED: the endpoint gives no log-probabilities of prompts;
 * MT_ERR_FORMAT: the reply is none.
 */
enum mt_status mt_score_reply(struct mt_context *ctx, const void *body, size_t bytes, struct mt_text whole,
                              size_t prefix, struct mt_choice_score *score, int64_t *tokens);

#endif
