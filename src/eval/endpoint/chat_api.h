/*
 * The JSON of OpenAI-compatible endpoints: a request's body, a reply's text, a refusal's sentence. The
 * requests of an evaluation, and log-likelihoods: completion_api.h.
 * What an endpoint sends is hostile: it is bounded, and should it send our own key back, the key does not
 * pass.
 */
#ifndef MT_EVAL_CHAT_API_H
#define MT_EVAL_CHAT_API_H

#include "eval/text.h"
#include "formats/text/json.h"

/* Appends a request of one user message, `cold` at temperature 0; max_tokens 0: the endpoint's own limit. */
enum mt_status mt_chat_request(const char *model, struct mt_text text, int64_t max_tokens, bool cold,
                               struct mt_byte_list *body);

/*
 * Appends the text of a reply to a chat or a completion; `key` (may be NULL) is blotted out in it. *tokens
 * (may be NULL) becomes what it cost, as far as it says; *cut (may be NULL) whether it ended for its length.
 * A model that was cut off while it still thought has said nothing, "". What is no reply is MT_ERR_FORMAT.
 */
enum mt_status mt_chat_reply(struct mt_context *ctx, const void *body, size_t bytes, const char *key,
                             struct mt_byte_list *text, int64_t *tokens, bool *cut);

/* Puts U+FFFD for every NUL (\u0000) of a reply in JSON, in place: models write such things, and texts end
 * there. */
void mt_reply_without_nul(struct mt_byte_list *body);

/* The tokens of prompt and answer, by a reply's `usage`; 0 where it does not say. */
int64_t mt_reply_tokens(const struct mt_json_node *reply);

/* A line on why an endpoint refused, for a message; "" where it does not say. The key is blotted out. */
enum mt_status mt_chat_refusal(struct mt_context *ctx, const void *body, size_t bytes, const char *key,
                               char *line, size_t line_bytes);

#endif
