/*
 * Buckets on their way round the ranks. Gradients are added up while backward is still at work: a bucket sets
 * out when the last layer that adds to it is done. Once each rank has moved its share of a bucket's values,
 * these go to all, while the next are moved.
 */
#ifndef MT_TRAIN_GRADIENT_SUM_H
#define MT_TRAIN_GRADIENT_SUM_H

#include "train/buckets.h"

struct mt_gradient_sum; // opaque

/* The caller frees; buckets and sender outlive it. sender: GPUs send to each other themselves (card_sum.h);
 * NULL: buckets travel by way of the host. */
enum mt_status mt_gradient_sum_create(const struct mt_buckets *buckets, struct mt_device *sender,
                                      struct mt_gradient_sum **sum);
void mt_gradient_sum_free(struct mt_gradient_sum *sum); // NULL is allowed

/* No layer at or above this one adds anything any more in this step: buckets set out. */
enum mt_status mt_gradient_sum_layer_done(struct mt_gradient_sum *sum, int64_t layer);

/* Nothing adds anything any more; on return this rank's share of every bucket is the sum. Of the others' the
 * gradients stay those of this rank alone. */
enum mt_status mt_gradient_sum_finish(struct mt_gradient_sum *sum);

/* This rank has moved its share of the values of that bucket, which set out. All ranks, from the first bucket
 * to the last. */
enum mt_status mt_gradient_sum_hand_round(struct mt_gradient_sum *sum, size_t bucket);

/* After that of every bucket: on return all values are the same bits on every rank of a group. */
enum mt_status mt_gradient_sum_take_values(struct mt_gradient_sum *sum);

/* Seconds spent in the last three so far: what backward did not hide. */
double mt_gradient_sum_waited(const struct mt_gradient_sum *sum);

#endif
