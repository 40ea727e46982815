/*
 * The thread that reads and writes all connections of a rank (links.h) while others compute.
 *
 * Each rank tells every other that it lives, every second. A connection that closes without a goodbye, or a
 * rank that was silent for too long, ends the job: everybody names the rank it was. Silence is counted in
 * the listener's own rounds: a job that is stopped as a whole and goes on together counts nothing.
 */
#ifndef MT_COMM_TCP_FLOW_H
#define MT_COMM_TCP_FLOW_H

#include "comm/tcp/links.h"

struct mt_flow {
    struct mt_links links;
    int timeout;           // seconds; 0: silence is no failure
    bool begun;            // the thread
    int wake;              // an eventfd that it listens to
    struct pollfd *events; // [1 + ranks], owned
    pthread_t thread;
};

/* Takes the sockets over (and puts -1 in their places), in caller-owned memory that stays where it is. */
enum mt_status mt_flow_open(struct mt_context *ctx, struct mt_flow *flow, int rank, int size, int *sockets);

/* Starts the thread. Not 0: there is none to be had. */
int mt_flow_begin(struct mt_flow *flow, int timeout);

/* Says goodbye to all, waits for theirs, and closes. All ranks have done everything else before. */
void mt_flow_close(struct mt_flow *flow);

/* Between the two a request is made (mt_links_receive, mt_links_send); then the thread goes to work. */
void mt_flow_lock(struct mt_flow *flow, struct mt_link_request *request);
void mt_flow_start(struct mt_flow *flow);

bool mt_flow_test(struct mt_link_request *request);
void mt_flow_wait(struct mt_link_request *request);

/* Ends all ranks with this status; does not return. */
_Noreturn void mt_flow_abort(struct mt_flow *flow, int exit_status);

#endif
