/*
 * Sizes of a run that fit its memory: which of the ways to compute the same step is the fastest that does.
 *
 * Recomputation costs time and changes no bit; fewer tokens at a time cost time, and change the objective's
 * terms a little. So everything is tried with the tokens as they are before there are fewer: nothing computed
 * again, then the experts, then all; then half of the tokens, and so on, down to one example. Before all that
 * the embedding goes to the host's memory, which costs the least.
 */
#ifndef MT_TRAIN_FIT_H
#define MT_TRAIN_FIT_H

#include "metier/status.h"
#include "model/planner.h"

/* Halvings of all numbers of tokens there can be, each with every recomputation, and the embedding's way. */
#define MT_FIT_MOST 73

/* One way to compute a step. */
struct mt_fit_sizes {
    enum mt_recompute recompute;
    int64_t tokens;       // of a micro-batch
    int64_t expert_ranks; // that share the routed experts
    bool host_embedding;  // the embedding lies in the host's memory
};

/* What may be chosen. */
struct mt_fit_freedom {
    bool recompute;       // any; else that of `first`
    bool host_embedding;  // it may go there
    int64_t least_tokens; // of a micro-batch, and no fewer; the first's: they are given
    int64_t step_tokens;  // of a whole step at the most: micro-batches are no larger, whatever they may be
    struct mt_fit_sizes first; // the fastest
};

struct mt_fit_try {
    struct mt_fit_sizes sizes;
    size_t bytes;
};

struct mt_fit {
    struct mt_fit_try tried[MT_FIT_MOST]; // in this order: each but the last does not fit
    int count;
    bool fits; // the last does
    // Of the tried: the one that fits. Where none does, the smallest that leaves the tokens as they are.
    int chosen;
};

/* Bytes that these sizes take. */
typedef enum mt_status mt_fit_counter(void *self, const struct mt_fit_sizes *sizes, size_t *bytes);

/* Tries one after the other, until one takes no more than `room` bytes. */
enum mt_status mt_fit_choose(const struct mt_fit_freedom *freedom, size_t room, mt_fit_counter *count,
                             void *self, struct mt_fit *fit);

/* Among whom the routed experts may be shared. */
struct mt_spread {
    int64_t ranks;   // of the run
    int64_t experts; // of a layer; 0: the model has none
    size_t alone;    // bytes of a rank that has all of them, in the least sizes,
    size_t least;    // and with as few of them as were tried
    int64_t expert_ranks;
    bool fits;
};

/*
 * How many ranks share the experts: one where a rank has room for all, so that all are data parallel; else
 * the fewest with which the least sizes fit. The last that was tried where none does.
 */
enum mt_status mt_fit_spread(const struct mt_fit_freedom *freedom, size_t room, mt_fit_counter *count,
                             void *self, struct mt_spread *spread);

/* Why, in one sentence. */
#define MT_SPREAD_BYTES 320
void mt_spread_sentence(const struct mt_spread *spread, size_t room, char text[MT_SPREAD_BYTES]);

const char *mt_recompute_name(enum mt_recompute recompute);

#endif
