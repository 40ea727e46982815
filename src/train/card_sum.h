/*
 * What gradient_sum.h does, where the GPUs send to each other themselves (parallel.transport): everything is
 * issued on the sender's stream, and the host waits for nothing. Sums are the same numbers, added up in the
 * same order.
 */
#ifndef MT_TRAIN_CARD_SUM_H
#define MT_TRAIN_CARD_SUM_H

#include "train/buckets.h"

struct mt_card_sum; // opaque

/* The sender is a device beside that of the parameters (ops/streams.h). The caller frees; buckets and sender
 * outlive it. */
enum mt_status mt_card_sum_create(const struct mt_buckets *buckets, struct mt_device *sender,
                                  struct mt_card_sum **sum);
void mt_card_sum_free(struct mt_card_sum *sum); // NULL is allowed

/* As mt_gradient_sum_layer_done: this rank's shares of buckets that are complete become the sums. */
enum mt_status mt_card_sum_layer_done(struct mt_card_sum *sum, int64_t layer);

/* What is issued to the device from now on finds the sums of all buckets. */
enum mt_status mt_card_sum_finish(struct mt_card_sum *sum);

/* As mt_gradient_sum_hand_round, of a bucket that other ranks hold, too. */
enum mt_status mt_card_sum_hand_round(struct mt_card_sum *sum, size_t bucket);

/* What is issued to the device from now on finds everybody's values. */
enum mt_status mt_card_sum_take_values(struct mt_card_sum *sum);

#endif
