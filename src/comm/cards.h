/*
 * Bytes between the memories of GPUs, which the cards send each other: NCCL, whose library is loaded when it
 * is first asked for. What is sent is issued on a stream and ordered by it; the host never waits.
 *
 * Only sending and receiving is used. Sums are made of it by whoever wants them, so that they are taken in
 * the order of ranks like all others, whatever the cards are connected by.
 */
#ifndef MT_COMM_CARDS_H
#define MT_COMM_CARDS_H

#include "comm/transport.h"
#include "metier/context.h"

struct mt_cards; // opaque: the cards of a group of ranks

/* What rank 0 makes and all ranks are given, so that they find each other. */
struct mt_cards_id {
    char bytes[128];
};

struct mt_cards_options {
    int rank, ranks;
    /* In a thread of its own, when the connection has failed: with the reason. Does not return. */
    void (*failed)(void *self, const char *reason);
    void *self;
};

/* Loads the library. Borrows the context; the caller closes. */
enum mt_status mt_cards_open(struct mt_context *ctx, const struct mt_cards_options *options,
                             struct mt_cards **cards);
void mt_cards_close(struct mt_cards *cards); // NULL is allowed

enum mt_status mt_cards_make_id(struct mt_cards *cards, struct mt_cards_id *id);

/* All ranks, which wait for each other: connects the GPU that is current in the calling thread. */
enum mt_status mt_cards_connect(struct mt_cards *cards, const struct mt_cards_id *id);

/* True where the library is a stand-in that sends memory of the host (tests/comm/nccl_double.c). */
bool mt_cards_send_host_memory(const struct mt_cards *cards);

int mt_cards_version(const struct mt_cards *cards); // of the library: 22803 is 2.28.3

/* Issues an exchange on the stream, a cudaStream_t. All ranks issue theirs in the same order. A rank's part
 * for itself is skipped, unless it is alone: then its card sends to itself. */
enum mt_status mt_cards_exchange(struct mt_cards *cards, const struct mt_exchange *exchange, void *stream);

#endif
