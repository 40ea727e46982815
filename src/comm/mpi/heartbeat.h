/*
 * Ranks that hear of each other. A rank that dies is noticed by the launcher; one that is stopped (SIGSTOP, a
 * frozen machine) is not: its connections stay open, and the others would wait for ever. So a thread of each
 * rank tells the next rank, in a ring, that it lives, and listens to the one before. A rank that was not
 * heard of for too long is named, and the job is ended.
 *
 * Silence is counted in the listener's own rounds: a job that is stopped as a whole and goes on together
 * counts nothing.
 */
#ifndef MT_COMM_MPI_HEARTBEAT_H
#define MT_COMM_MPI_HEARTBEAT_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

struct mt_heartbeat {
    bool begun;
    MPI_Comm comm; // of the heartbeat alone
    int rank, size;
    double timeout; // seconds of silence that are too many
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked; // to end
    bool over;            // under the lock: nobody works any more
};

/*
 * Begins, in a caller-owned zeroed struct that stays where it is until the end; all ranks of `comm` together.
 * `timeout`: seconds, rank 0's counts; 0: no heartbeat. `level`: what MPI allows threads; less than all
 * leaves ranks without a heartbeat, and rank 0 says so. Not 0: a thread cannot be started.
 */
int mt_heartbeat_begin(struct mt_heartbeat *heartbeat, MPI_Comm comm, int level, int timeout);

/* Waits until all ranks are here, while heartbeats go on; then ends. One that has not begun is allowed. */
void mt_heartbeat_end(struct mt_heartbeat *heartbeat);

#endif
