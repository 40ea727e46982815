/*
 * The gradients of all ranks, added up while backward is still at work: they are cut into buckets along the
 * layers, and a bucket sets out when the last layer that adds to it is done.
 */
#ifndef MT_TRAIN_GRADIENT_SUM_H
#define MT_TRAIN_GRADIENT_SUM_H

#include "comm/comm.h"
#include "model/params/params.h"

struct mt_gradient_sum; // opaque

/* Whose gradients are added up. */
struct mt_gradient_groups {
    struct mt_comm *all;    // ranks: of what every rank holds
    struct mt_comm *copies; // the ranks that hold the same routed experts; NULL: no experts are spread
};

/* The caller frees; parameters and groups outlive it. With one rank there is nothing to add up. */
enum mt_status mt_gradient_sum_create(const struct mt_gradient_groups *groups, const struct mt_params *params,
                                      size_t bucket_bytes, struct mt_gradient_sum **sum);
void mt_gradient_sum_free(struct mt_gradient_sum *sum); // NULL is allowed

/* No layer at or above this one adds anything any more in this step: buckets set out. */
enum mt_status mt_gradient_sum_layer_done(struct mt_gradient_sum *sum, int64_t layer);

/* Nothing adds anything any more; on return all gradients are the sums, the same bits on every rank of a
 * group. */
enum mt_status mt_gradient_sum_finish(struct mt_gradient_sum *sum);

/* Seconds spent in mt_gradient_sum_finish so far: what backward did not hide. */
double mt_gradient_sum_waited(const struct mt_gradient_sum *sum);

#endif
