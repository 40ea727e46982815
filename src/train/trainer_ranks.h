/*
 * One run on many ranks. The micro-batches of a step are taken in rounds, one for each rank at a time, in the
 * order one rank alone would take them; every rank prepares all data and keeps all that learns but for the
 * routed experts of other ranks, where these are spread. What several ranks keep stays the same on them, bit
 * by bit. Rank 0 writes.
 */
#ifndef MT_TRAIN_TRAINER_RANKS_H
#define MT_TRAIN_TRAINER_RANKS_H

#include "train/log/timeline_file.h"
#include "train/trainer_parts.h"

/* What one rank found out in a round. */
struct mt_rank_loss {
    double task;   // L_h of its micro-batch
    double terms;  // of the objective
    double labels; // its micro-batch has
    double tokens;
    double failed; // 1: a number is none
};

/* A round, as this rank sees it. */
struct mt_round {
    size_t first, count; // micro-batches of all ranks
    int64_t tokens;      // of all of them
    bool idle;           // none is left for this rank
    bool last;           // of the step
};

/* The group of ranks, the threads of each, the memory rounds need. */
enum mt_status mt_trainer_open_ranks(struct mt_trainer *trainer);

/* What needs the model and the optimizer to be open: sums of gradients, statistics of all ranks. */
enum mt_status mt_trainer_join_ranks(struct mt_trainer *trainer);
void mt_trainer_close_ranks(struct mt_trainer *trainer);

/* Whether rows of spread experts are sent from the device's own memory; refuses what was asked for and cannot
 * be. */
enum mt_status mt_trainer_find_transfer(struct mt_trainer *trainer, bool *direct);

/* Bytes this rank has sent since the run was opened. */
uint64_t mt_trainer_sent(const struct mt_trainer *trainer);

/* True on the rank that writes files and talks. */
bool mt_trainer_writes(const struct mt_trainer *trainer);

/* Something that needs what all ranks keep, done by the rank that writes. */
typedef enum mt_status mt_trainer_writer(struct mt_trainer *trainer, const void *self);

/* Runs it there, while the ranks with other experts hand their part over; all ranks call this. */
enum mt_status mt_trainer_write(struct mt_trainer *trainer, mt_trainer_writer *writer, const void *self);

/* How many rounds a step has. */
size_t mt_trainer_rounds(const struct mt_trainer *trainer, const struct mt_step *step);

/* The micro-batch this rank takes in a round; an idle rank gets one token that counts for nothing. */
struct mt_round mt_trainer_round(const struct mt_trainer *trainer, const struct mt_batches *batches,
                                 const struct mt_step *step, size_t index, struct mt_batch *batch);

/* False when the micro-batch need not be run: an idle rank nobody waits for. */
bool mt_trainer_takes_part(const struct mt_trainer *trainer, const struct mt_round *round);

/*
 * Everybody's losses of a round, in trainer->losses[ranks]. `status` is this rank's own judgement of its
 * loss: if a rank has found a fault, all return it.
 */
enum mt_status mt_trainer_share_losses(struct mt_trainer *trainer, const struct mt_rank_loss *own,
                                       enum mt_status status);

/* A failure others cannot know of while they wait for this rank: ends the job, alone returns the status. */
enum mt_status mt_trainer_fail_alone(struct mt_trainer *trainer, enum mt_status status);

/* With local statistics, after a round: scales and brakes become the mean of the ranks that took part. */
void mt_trainer_share_state(struct mt_trainer *trainer, const struct mt_round *round);

/* The step's loads, variances and norms, of all ranks. */
enum mt_status mt_trainer_share_watch(struct mt_trainer *trainer);

/* With a timeline: it begins with the first step, and is written after the last. Collective. */
void mt_trainer_begin_timeline(struct mt_trainer *trainer);
enum mt_status mt_trainer_end_timeline(struct mt_trainer *trainer, struct mt_timeline_summary *summary);

/* Into the log: how many ranks there were, what this one sent, how long it waited for gradients. */
enum mt_status mt_trainer_tell_ranks(struct mt_trainer *trainer);

#endif
