/*
 * AdamW over everything trainable: masters, gradients and both moments lie flat, in the same order. Clipping
 * by the norm of all gradients together is part of the step, as PyTorch's clip_grad_norm_: gradients are
 * multiplied with limit / (norm + 1e-6) when that is below 1.
 *
 * Many ranks divide the work: each moves its share of every bucket and has the moments of that alone.
 */
#ifndef MT_TRAIN_OPTIMIZER_H
#define MT_TRAIN_OPTIMIZER_H

#include "train/buckets.h"

struct mt_optimizer_options {
    double beta1, beta2, epsilon;
    double weight_decay; // decoupled; of everything trainable, norms and biases too
    double clip;         // 0: never
};

/* Somebody who wants to know which buckets have been moved, as soon as each is. */
struct mt_bucket_hook {
    enum mt_status (*moved)(void *self, size_t bucket); // its number in the list; NULL: nobody
    void *self;                                         // borrowed; handed to the call
};

struct mt_optimizer {
    struct mt_params *params; // borrowed
    struct mt_optimizer_options options;
    struct mt_bucket_hook hook; // the caller may set it
    struct mt_buckets buckets;
    struct mt_buffer memory;        // both moments and the number below
    struct mt_tensor first, second; // f32, flat, as long as buckets.own: a share after the other
    struct mt_tensor number;        // f64 [1]: where reductions end
};

/* Cuts what is trained into shares, allocates the moments of this rank's, zero, and sizes the device's
 * scratch. Groups outlive it. The caller frees. */
enum mt_status mt_optimizer_create(struct mt_params *params, const struct mt_gradient_groups *groups,
                                   const struct mt_optimizer_options *options,
                                   struct mt_optimizer *optimizer);
void mt_optimizer_free(struct mt_optimizer *optimizer); // a zeroed struct is allowed

/* Bytes of this rank's moments. */
size_t mt_optimizer_bytes(const struct mt_optimizer *optimizer);

/* The norm of all gradients, the same on every rank; not finite when one of them is not. Shares have their
 * sums. Collective. */
enum mt_status mt_optimizer_norm(struct mt_optimizer *optimizer, double *norm);

/* Moves this rank's share of the masters by the gradients, whose norm is given. `step` counts from 1. */
enum mt_status mt_optimizer_step(struct mt_optimizer *optimizer, uint64_t step, double learning_rate,
                                 double norm, bool *clipped);

/* Finds a number that is not finite among values and moments here; *bad is NULL when all are. */
enum mt_status mt_optimizer_check(struct mt_optimizer *optimizer, const struct mt_param **bad);

/* The first parameter whose gradient is not finite, of what this rank moves of it; NULL: none. */
enum mt_status mt_optimizer_find_bad_gradient(struct mt_optimizer *optimizer, const struct mt_param **bad);

#endif
