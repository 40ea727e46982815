/*
 * How all ranks are getting on while each works by itself: now and then they add up what they have done, in
 * the background, and everybody learns whether work goes on. It is over, for all ranks after the same sum,
 * when everybody has finished, or one has failed or was asked to stop. Nobody ever waits for a rank that is
 * busy.
 */
#ifndef MT_COMM_RANK_PROGRESS_H
#define MT_COMM_RANK_PROGRESS_H

#include "comm/comm.h"

struct mt_rank_progress; // opaque

/* Of one rank. */
struct mt_rank_progress_state {
    int64_t done;  // items; exact while all ranks' are below 2^24
    double work;   // another amount, for a rate: about
    bool finished; // with all of its own
    bool failed;   // so that the others need not go on
    bool stop;     // was asked to
};

/* All ranks make one, together. The group outlives it; the caller frees it, after it is over. */
enum mt_status mt_rank_progress_create(struct mt_comm *comm, struct mt_context *ctx,
                                       struct mt_rank_progress **progress);
void mt_rank_progress_free(struct mt_rank_progress *progress); // NULL is allowed

/* Tells how this rank is getting on; call it often. Does not wait. True: it is over. */
bool mt_rank_progress_update(struct mt_rank_progress *progress, const struct mt_rank_progress_state *mine);

/* A moment of sleep, for a rank that has nothing to do but update until it is over. */
void mt_rank_progress_rest(void);

/* What all ranks had done when they last told: sums. */
int64_t mt_rank_progress_done(const struct mt_rank_progress *progress);
double mt_rank_progress_work(const struct mt_rank_progress *progress);

#endif
