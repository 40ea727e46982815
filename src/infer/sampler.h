/*
 * The next token from its logits: the highest, or drawn. A draw is a pure function of (seed, request,
 * position), so it does not depend on what else is being generated, or when.
 *
 * In this order, as transformers does it: repetition penalty, temperature, top-k, top-p, draw. Ties go to the
 * lowest id.
 */
#ifndef MT_INFER_SAMPLER_H
#define MT_INFER_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "metier/context.h"

struct mt_sampling {
    double temperature;        // 0: the highest logit, nothing is drawn
    double top_p;              // the fewest tokens that have this much probability together; 1: all
    int64_t top_k;             // so many of the highest; 0: all
    double repetition_penalty; // logits of tokens already there: divided (below 0 multiplied); 1: none
    uint64_t seed;
};

/* Refuses what makes no sense. */
enum mt_status mt_sampling_check(struct mt_context *ctx, const struct mt_sampling *sampling);

struct mt_sampler {
    struct mt_context *ctx; // borrowed
    int64_t vocabulary;     // V
    int32_t *heap;          // [V]: ids, highest first
    int32_t *seen;          // [V]: the round in which an id was last penalised
    int32_t round;
};

/* The caller destroys. */
enum mt_status mt_sampler_create(struct mt_context *ctx, int64_t vocabulary, struct mt_sampler *sampler);
void mt_sampler_destroy(struct mt_sampler *sampler); // a zeroed struct is allowed

/* What the choice depends on besides the logits. */
struct mt_sampling_place {
    uint64_t request;    // its number
    int64_t position;    // of the token to come
    const int32_t *past; // [position]: all tokens before it
};

/* logits [V] are changed when tokens are penalised or drawn. */
int32_t mt_sampler_choose(struct mt_sampler *sampler, const struct mt_sampling *sampling,
                          const struct mt_sampling_place *place, float *logits);

/* Whether none of them is infinite or no number. */
bool mt_logits_finite(const float *logits, int64_t vocabulary);

/* The id of the highest logit. */
int32_t mt_logits_highest(const float *logits, int64_t vocabulary);

/* log Σ exp(logit): what a logit is more than the log of its token's probability. */
double mt_logits_log_sum(const float *logits, int64_t vocabulary);

struct mt_likely {
    int32_t id;
    float log; // its logit, or log p
};

/* The `most` highest logits, the highest first; their number. */
int mt_logits_likeliest(const float *logits, int64_t vocabulary, struct mt_likely *likely, int most);

#endif
