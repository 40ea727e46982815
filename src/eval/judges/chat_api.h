/*
 * The JSON of OpenAI-compatible chat completions: a request's body, a reply's text, a refusal's sentence.
 * What an endpoint sends is hostile: it is bounded, and should it send our own key back, the key does not
 * pass.
 */
#ifndef MT_EVAL_CHAT_API_H
#define MT_EVAL_CHAT_API_H

#include "eval/text.h"

/* Appends a request of one user message, `cold` at temperature 0; max_tokens 0: the endpoint's own limit. */
enum mt_status mt_chat_request(const char *model, struct mt_text text, int64_t max_tokens, bool cold,
                               struct mt_byte_list *body);

/* Appends the text of a reply; `key` (may be NULL) is blotted out in it. What is no reply is MT_ERR_FORMAT.
 */
enum mt_status mt_chat_reply(struct mt_context *ctx, const void *body, size_t bytes, const char *key,
                             struct mt_byte_list *text);

/* A line on why an endpoint refused, for a message; "" where it does not say. The key is blotted out. */
enum mt_status mt_chat_refusal(struct mt_context *ctx, const void *body, size_t bytes, const char *key,
                               char *line, size_t line_bytes);

#endif
