/* Log-probabilities of tokens and of the likeliest in their places, as answers report them. */
#ifndef MT_SERVE_TOKEN_LOGS_H
#define MT_SERVE_TOKEN_LOGS_H

#include "infer/sampler.h"

#define MT_TOKEN_LOGS_MOST 20 // likeliest tokens of a place

/* Places one after the other, 1 + top entries each: the token itself, then the likeliest, most likely first.
 */
struct mt_token_logs {
    struct mt_context *ctx;  // borrowed
    struct mt_likely *place; // [count, 1 + top]
    size_t count, capacity;
    int top;
};

/* Room for so many places. The caller frees. */
enum mt_status mt_token_logs_create(struct mt_context *ctx, size_t places, int top,
                                    struct mt_token_logs *logs);
void mt_token_logs_free(struct mt_token_logs *logs); // a zeroed struct is allowed

/* One more place: the token `id`, and the logits [vocabulary] there. Nothing beyond the room. */
void mt_token_logs_add(struct mt_token_logs *logs, int32_t id, const float *logits, int64_t vocabulary);

/* The entries of a place. */
const struct mt_likely *mt_token_logs_at(const struct mt_token_logs *logs, size_t place);

#endif
