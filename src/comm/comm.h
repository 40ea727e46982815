/*
 * Many processes as one program: a rank among ranks, and what they tell each other.
 *
 * Started alone there is one rank, and nothing is loaded, sent or printed. Started by mpirun or srun the
 * ranks find each other through Open MPI, which lives in a module of its own (lib/metier/metier_mpi.so): no
 * type of it is seen here. Every call below is collective: all ranks of the group make it, in the same order.
 *
 * Sums are taken in the order of the ranks, each element once, and everybody gets the very same bits: a
 * result depends on how many ranks there are, never on which of them was early.
 *
 * A network that breaks, a rank that dies or is stopped for long (METIER_RANK_TIMEOUT) ends the job: calls
 * that send return no status.
 */
#ifndef MT_COMM_COMM_H
#define MT_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/timeline.h"
#include "metier/context.h"

struct mt_comm; // opaque: a group of ranks

/* Ranks that the launcher's environment speaks of, before any is looked for; 1: started alone. */
int mt_comm_job_size(void);

/*
 * All ranks of the job, as the launcher's environment says; without a launcher, or with one rank, this
 * process alone. The context is borrowed. The caller closes, last of all groups.
 */
enum mt_status mt_comm_open(struct mt_context *ctx, struct mt_comm **comm);

/* This process alone, whatever started it. */
enum mt_status mt_comm_open_alone(struct mt_context *ctx, struct mt_comm **comm);

/*
 * A rank of as many as one likes, none of which is there: for counting what it would hold. Small sums,
 * agreements and exchanges leave what the rank has; nothing else may be called.
 */
enum mt_status mt_comm_open_on_paper(struct mt_context *ctx, int rank, int ranks, struct mt_comm **comm);

/* The ranks that name the same colour, in their order, as a group of its own. The caller closes it. */
enum mt_status mt_comm_split(struct mt_comm *comm, int colour, struct mt_comm **part);

void mt_comm_close(struct mt_comm *comm); // NULL is allowed

int mt_comm_rank(const struct mt_comm *comm);
int mt_comm_size(const struct mt_comm *comm);
int mt_comm_host_ranks(const struct mt_comm *comm); // how many of them run on this machine

/*
 * Threads of this rank: as many as asked for. 0: an equal part of the machine's among ranks that share it,
 * and 0 for a rank that has it to itself.
 */
int64_t mt_comm_threads(const struct mt_comm *comm, int64_t asked);

/* True when transfers may be given memory of a GPU. */
bool mt_comm_reads_devices(const struct mt_comm *comm);

/*
 * Collective, after the rank's GPU was made the calling thread's (mt_device_enter): from now on transfers of
 * this group may be sent by the cards themselves, over NCCL. Fails on all ranks or on none, with the reason;
 * the group then stays as it was. on_host: what is sent lies in memory of the host, which only a stand-in of
 * NCCL sends. Nothing with one rank.
 */
enum mt_status mt_comm_use_cards(struct mt_comm *comm, bool on_host);

/* For tests and measurements: the same with one rank, too, whose card then sends to itself. */
enum mt_status mt_comm_use_cards_alone(struct mt_comm *comm, bool on_host);
bool mt_comm_has_cards(const struct mt_comm *comm);

/* What bytes were sent for, by the call that sent them. */
enum mt_comm_kind {
    MT_COMM_SUM,       // large sums
    MT_COMM_EXCHANGE,  // exchanges
    MT_COMM_GATHER,    // gatherings, small sums, agreements
    MT_COMM_BROADCAST, // broadcasts
    MT_COMM_HAND_OVER, // what rank 0 was given
    MT_COMM_KINDS
};

/* Bytes this rank has handed over to others so far, in all groups split from the same job: of one kind, and
 * of all. */
uint64_t mt_comm_sent_of(const struct mt_comm *comm, enum mt_comm_kind kind);
uint64_t mt_comm_sent_bytes(const struct mt_comm *comm);

/* Exchanges, gatherings and sums of all groups of the job are noted there from now on; borrowed; NULL:
 * nowhere.
 */
void mt_comm_set_timeline(struct mt_comm *comm, struct mt_timeline *timeline);
struct mt_timeline *mt_comm_timeline(const struct mt_comm *comm); // NULL: none

// ------------------------------------------------------------------ small things

void mt_comm_barrier(struct mt_comm *comm);

/* root's bytes, to all. */
void mt_comm_broadcast(struct mt_comm *comm, void *data, size_t bytes, int root);

/* all[r] = what rank r gave, `bytes` each, at most 2 GiB; to all. */
void mt_comm_gather(struct mt_comm *comm, const void *mine, size_t bytes, void *all);

/* Element by element, in place, to all. For a few thousand numbers: all ranks' are brought together. */
void mt_comm_sum_f64(struct mt_comm *comm, double *values, size_t count);
void mt_comm_sum_i64(struct mt_comm *comm, int64_t *values, size_t count);
void mt_comm_max_i64(struct mt_comm *comm, int64_t *values, size_t count);

/*
 * send_bytes[r] bytes go to rank r, receive_bytes[r] come from it; what belongs to rank r lies behind what
 * belongs to rank r-1, on both sides. The counts must agree between the two ends; zeros are allowed, 2 GiB
 * between two ranks are the most.
 */
void mt_comm_exchange(struct mt_comm *comm, const void *send, const size_t *send_bytes, void *receive,
                      const size_t *receive_bytes);

/* Bytes of rank `from`, to rank 0 alone. Only these two have to call it. */
void mt_comm_hand_over(struct mt_comm *comm, int from, const void *mine, void *received, size_t bytes);

// ------------------------------------------------------------------ exchanges, beside other work

/*
 * An exchange that goes on while the caller computes; several may be under way, each a transfer of its own.
 * What a rank has for itself is not copied: only its place is left out on both sides.
 */
struct mt_comm_transfer; // opaque

/*
 * What goes into one: as mt_comm_exchange. The memory is not to be touched until the wait is over, counts are
 * read at once.
 */
struct mt_comm_load {
    const void *send;
    const size_t *send_bytes; // [ranks]
    const size_t *send_at;    // [ranks]: where each rank's bytes begin; NULL: one rank's behind the other's
    void *receive;
    const size_t *receive_bytes; // [ranks]
    bool is_sum;                 // counted as MT_COMM_SUM
    // Sent by the cards (mt_comm_use_cards): issued on the stream and ordered by it, over for the host at
    // once.
    bool on_cards;
    void *stream; // a cudaStream_t; NULL: memory of the host
};

/* All ranks make their transfers in the same order. The caller frees; the group outlives it. */
enum mt_status mt_comm_transfer_create(struct mt_comm *comm, struct mt_comm_transfer **transfer);
void mt_comm_transfer_free(struct mt_comm_transfer *transfer); // NULL is allowed

void mt_comm_transfer_start(struct mt_comm_transfer *transfer, const struct mt_comm_load *load);

/* Does what can be done without waiting. True: it is not under way. */
bool mt_comm_transfer_progress(struct mt_comm_transfer *transfer);

/* Ends it; nothing when none was begun. */
void mt_comm_transfer_wait(struct mt_comm_transfer *transfer);

// ------------------------------------------------------------------ large sums, beside other work

/* A rank's share of some numbers: as large as the others' but for 16, and at a multiple of 16; it may be
 * none. */
struct mt_comm_share {
    size_t first, count;
};
struct mt_comm_share mt_comm_share_of(size_t count, int rank, int ranks);

/*
 * A sum of f32 numbers over all ranks, in place, that goes on while the caller computes, in two halves: every
 * rank adds up its share of the numbers; when the caller has made of it what it wants, all hand theirs round.
 * Each half sends (P-1)/P of the numbers' bytes.
 */
struct mt_comm_sum; // opaque

/* For up to `most` numbers at a time. All ranks make their sums in the same order. The caller frees; the
 * group outlives it. */
enum mt_status mt_comm_sum_create(struct mt_comm *comm, size_t most, struct mt_comm_sum **sum);
void mt_comm_sum_free(struct mt_comm_sum *sum); // NULL is allowed

/* Begins the first half; values are not to be touched until the wait is over, when our share is the sum and
 * the rest is as it was. Several sums may be under way. */
void mt_comm_sum_start(struct mt_comm_sum *sum, float *values, size_t count);

/* Begins the second: after the wait every share is as its rank has it. */
void mt_comm_sum_hand_round(struct mt_comm_sum *sum, float *values, size_t count);

/* Does what can be done without waiting: call it now and then between other work. True: none is under way. */
bool mt_comm_sum_progress(struct mt_comm_sum *sum);

/* Ends the half that was begun; nothing when none was. */
void mt_comm_sum_wait(struct mt_comm_sum *sum);

// ------------------------------------------------------------------ failures

/*
 * MT_OK when every rank brings MT_OK. Else everybody gets the status of the lowest rank that failed and, in
 * the context, its message, with "rank R: " before it unless all have failed: nobody goes on alone.
 * mt_comm_failed_rank says who it was.
 */
enum mt_status mt_comm_agree(struct mt_comm *comm, struct mt_context *ctx, enum mt_status status);

/* The rank whose failure was agreed on; -1: there was none. */
int mt_comm_failed_rank(const struct mt_comm *comm);

/*
 * For a failure in the middle of something collective, where the others wait for what will not come: writes
 * the context's message and ends all ranks with exit status 1. Alone there is nobody to wait, and the status
 * comes back.
 */
enum mt_status mt_comm_abort(struct mt_comm *comm, const struct mt_context *ctx, enum mt_status status,
                             FILE *stream);

#endif
