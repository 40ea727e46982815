/*
 * What an expert is worth on some data, by several scores, and which experts to keep by one of them. The
 * collector computes the scores (analysis/collector/collector.h); docs/analysis.md says where each comes from
 * and what of it is ours. A new score is one row in expert_scores.c.
 */
#ifndef MT_ANALYSIS_EXPERT_SCORES_H
#define MT_ANALYSIS_EXPERT_SCORES_H

#include <stdbool.h>

#include "metier/context.h"

enum mt_expert_score {
    MT_SCORE_USE,
    MT_SCORE_MEAN,
    MT_SCORE_REAP,
    MT_SCORE_EASY_EP,
    MT_EXPERT_SCORES, // how many there are
};

/* What is known of a slot that an expert served. */
struct mt_slot_facts {
    double weight; // as the layer uses it: normalised and scaled as the model does
    double length; // of the expert's output, before weighting; NaN: not known
    double change; // 1 - cos of the token's residual stream before and after its routed experts; NaN likewise
};

struct mt_expert_score_kind {
    const char *name;    // "reap"
    const char *formula; // in one line
    // Summed over the slots an expert served. NULL: the collector has the score among its other figures.
    double (*of_slot)(const struct mt_slot_facts *slot);
    bool mean;            // the sum is divided by the number of slots; an expert without any has 0
    bool lengths, change; // what it reads of a slot beside the weight
};

const struct mt_expert_score_kind *mt_expert_score_kind(enum mt_expert_score score);

/* The one score as a set of scores, for mt_collector_options.scores. */
#define MT_SCORE_BIT(score) (1u << (score))

/* Finds a score by its name. Refused, with all names and what asked for it (an option, a key) before them. */
enum mt_status mt_expert_score_named(struct mt_context *ctx, const char *asker, const char *name,
                                     enum mt_expert_score *score);

/*
 * kept[j]: whether expert j is one of the `keep` best by score [experts], or with groups (runs of equal
 * length) one of the keep / groups best of its group. Of equals the lower number is better; a score that is
 * not a number is the worst. keep is in 0 .. experts; groups, at least 1, divides both.
 */
void mt_experts_keep_best(const double *score, int experts, int groups, int keep, bool *kept);

/*
 * How many experts of a layer "16" or "50%" keeps (a share is rounded to the nearest number, halves up).
 * Refused, with the option's name: what is no such text, fewer than `slots`, more than `experts`.
 */
enum mt_status mt_experts_keep_parse(struct mt_context *ctx, const char *option, const char *text,
                                     int experts, int slots, int *keep);

#endif
