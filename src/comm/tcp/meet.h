/*
 * How ranks find each other. Rank 0 listens where all know; the others come, prove that they have the token
 * (hello.h) and say who they are. When all are there, rank 0 tells everybody everybody's address, and each
 * rank connects to those below it, in the same way. At the end each pair has a connection, and nobody
 * listens any more.
 *
 * Strangers (no token, garbage, silence) are turned away and counted, and keep nobody waiting: a limited
 * number of them is heard at a time, each for a few seconds, and a rank that was pushed out comes again.
 */
#ifndef MT_COMM_TCP_MEET_H
#define MT_COMM_TCP_MEET_H

#include "comm/tcp/place.h"

/* All ranks there are. */
struct mt_tcp_met {
    int *sockets;       // [size]; -1: oneself. Whoever takes one puts -1 there
    uint64_t *machines; // [size]: the same for ranks of one machine
    int size;
    int timeout; // seconds, as rank 0 has them
    size_t bytes;
};

/*
 * Waits for all ranks, at most `timeout` seconds (0: for ever) at each of the meeting's stages. The caller
 * frees. `timeout` of rank 0 becomes everybody's.
 */
enum mt_status mt_tcp_meet(struct mt_context *ctx, const struct mt_tcp_place *place, int timeout,
                           struct mt_tcp_met *met);

/* Closes the sockets that nobody took. A zeroed struct is allowed. */
void mt_tcp_met_free(struct mt_context *ctx, struct mt_tcp_met *met);

#endif
