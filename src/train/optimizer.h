/*
 * AdamW over everything trainable, as one call: masters, gradients and both moments lie flat, in the same
 * order. Clipping by the norm of all gradients together is part of the step, as PyTorch's clip_grad_norm_:
 * gradients are multiplied with limit / (norm + 1e-6) when that is below 1.
 *
 * Where ranks share the routed experts, each moves what it holds; the norm is that of all gradients.
 */
#ifndef MT_TRAIN_OPTIMIZER_H
#define MT_TRAIN_OPTIMIZER_H

#include "model/params/params.h"

struct mt_optimizer_options {
    double beta1, beta2, epsilon;
    double weight_decay; // decoupled; of everything trainable, norms and biases too
    double clip;         // 0: never
};

struct mt_optimizer {
    struct mt_params *params; // borrowed
    struct mt_optimizer_options options;
    struct mt_buffer memory;        // both moments and the number below
    struct mt_tensor first, second; // f32, flat, as long as params->masters
    struct mt_tensor number;        // f64 [1]: where reductions end
};

/* Allocates the moments, zero, and sizes the device's scratch. The caller frees. */
enum mt_status mt_optimizer_create(struct mt_params *params, const struct mt_optimizer_options *options,
                                   struct mt_optimizer *optimizer);
void mt_optimizer_free(struct mt_optimizer *optimizer); // a zeroed struct is allowed

/* Bytes of the moments for so many bytes of masters. */
size_t mt_optimizer_bytes(size_t masters);

/* The norm of all gradients, the same on every rank; not finite when one of them is not. Collective among the
 * ranks that share the experts. */
enum mt_status mt_optimizer_norm(struct mt_optimizer *optimizer, double *norm);

/* Moves the masters by the gradients, whose norm is given. `step` counts from 1. */
enum mt_status mt_optimizer_step(struct mt_optimizer *optimizer, uint64_t step, double learning_rate,
                                 double norm, bool *clipped);

/* Finds a number that is not finite among values and moments here; *bad is NULL when all are. */
enum mt_status mt_optimizer_check(struct mt_optimizer *optimizer, const struct mt_param **bad);

/* The first parameter here whose gradient is not finite; NULL: none. */
enum mt_status mt_optimizer_find_bad_gradient(struct mt_optimizer *optimizer, const struct mt_param **bad);

#endif
