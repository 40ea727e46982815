/*
 * Experts taken away without touching weights: routers do as if they were not there.
 *
 * Their logits get -1e30 before anything is made of them, so that scores are those of the others alone: a
 * softmax is over these, a sigmoid of theirs is 0. Where a bias selects as well, theirs is -1e30, too. Where
 * groups are chosen first and those kept hold fewer experts than a token has slots, one that was taken away
 * fills a slot with weight 0.
 */
#ifndef MT_MODEL_PRUNE_H
#define MT_MODEL_PRUNE_H

#include "model/model.h"

struct mt_pruning {
    struct mt_model *model; // borrowed; NULL: nothing is taken away
    struct mt_buffer masks; // f32 [layers,n] on the device: the router's bias or 0, or what logits get
    float *biases;          // [layers,n] on the host: what selected before
    struct mt_tensor *own;  // [layers]: the routers' own biases
};

/*
 * Takes experts away until the end: experts[layers] arrays of n flags, NULL arrays: none of that layer.
 * Refused where fewer are left than a token has slots. The caller ends it, before the model is closed.
 */
enum mt_status mt_pruning_begin(struct mt_model *model, const bool *const *experts,
                                struct mt_pruning *pruning);
enum mt_status mt_pruning_end(struct mt_pruning *pruning); // a zeroed struct is allowed

/* Flags the so many experts with the smallest loads, the first of equals: flags[n]. */
void mt_prune_least(const double *load, int experts, int count, bool *flags);

#endif
