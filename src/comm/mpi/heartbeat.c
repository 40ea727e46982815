/* The thread that sends heartbeats and listens for them. */
#include "comm/mpi/heartbeat.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#define ROUND_SECONDS   1.0
#define ROUNDS_AT_LEAST 8.0   // that silence of a whole timeout lasts
#define LAST_SECONDS    0.001 // a round while all end

enum word { ALIVE = 1, GOODBYE };

/* What a thread has said and heard. */
struct talk {
    MPI_Request said, heard;
    int saying, hearing; // words under way
    bool goodbye_said, goodbye_heard;
    double silent; // seconds
};

/* One round's rest, or until asked to end. True: asked. */
static bool rest(struct mt_heartbeat *heartbeat, double seconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    double nanos = (double)until.tv_nsec + seconds * 1e9;
    until.tv_sec += (time_t)(nanos / 1e9);
    until.tv_nsec = (long)(nanos - 1e9 * (double)(time_t)(nanos / 1e9));
    (void)pthread_mutex_lock(&heartbeat->lock);
    int waited = 0;
    while (!heartbeat->over && waited == 0)
        waited = pthread_cond_timedwait(&heartbeat->asked, &heartbeat->lock, &until);
    bool over = heartbeat->over;
    (void)pthread_mutex_unlock(&heartbeat->lock);
    return over;
}

static void listen(struct mt_heartbeat *heartbeat, struct talk *talk)
{
    int before = (heartbeat->rank + heartbeat->size - 1) % heartbeat->size;
    int done = 1;
    while (!talk->goodbye_heard && done) {
        if (talk->heard == MPI_REQUEST_NULL)
            MPI_Irecv(&talk->hearing, 1, MPI_INT, before, 0, heartbeat->comm, &talk->heard);
        MPI_Test(&talk->heard, &done, MPI_STATUS_IGNORE);
        if (!done) return;
        talk->silent = 0.0;
        talk->goodbye_heard = talk->hearing == GOODBYE;
    }
}

/* One word at a time: to a rank that is stopped none is heaped up. */
static void speak(struct mt_heartbeat *heartbeat, struct talk *talk, bool over)
{
    int next = (heartbeat->rank + 1) % heartbeat->size;
    int done = 1;
    MPI_Test(&talk->said, &done, MPI_STATUS_IGNORE);
    if (!done || talk->goodbye_said) return;
    talk->goodbye_said = over;
    talk->saying = over ? GOODBYE : ALIVE;
    MPI_Isend(&talk->saying, 1, MPI_INT, next, 0, heartbeat->comm, &talk->said);
}

static void end_job(const struct mt_heartbeat *heartbeat)
{
    int before = (heartbeat->rank + heartbeat->size - 1) % heartbeat->size;
    (void)fprintf(
        stderr,
        "metier: rank %d of %d: rank %d has not been heard of for %.0f seconds: it or its machine is "
        "stopped; this ends the job (METIER_RANK_TIMEOUT=0 waits for ever)\n",
        heartbeat->rank, heartbeat->size, before, heartbeat->timeout);
    (void)fflush(stderr);
    MPI_Abort(heartbeat->comm, 1);
}

static void *run(void *self)
{
    struct mt_heartbeat *heartbeat = self;
    struct talk talk = {.said = MPI_REQUEST_NULL, .heard = MPI_REQUEST_NULL};
    double round = heartbeat->timeout / ROUNDS_AT_LEAST;
    bool over = false;
    if (round > ROUND_SECONDS) round = ROUND_SECONDS;
    while (!talk.goodbye_said || !talk.goodbye_heard || talk.said != MPI_REQUEST_NULL) {
        speak(heartbeat, &talk, over);
        listen(heartbeat, &talk);
        if (talk.silent >= heartbeat->timeout) end_job(heartbeat);
        if (!talk.goodbye_heard) talk.silent += over ? LAST_SECONDS : round;
        if (over) {
            const struct timespec moment = {.tv_nsec = (long)(LAST_SECONDS * 1e9)};
            (void)nanosleep(&moment, NULL);
        } else {
            over = rest(heartbeat, round);
        }
    }
    return NULL;
}

/* With every signal blocked: they are for the threads that wait for them. */
static int start_thread(struct mt_heartbeat *heartbeat)
{
    pthread_condattr_t clock;
    sigset_t all;
    sigset_t before;
    if (pthread_condattr_init(&clock) != 0) return 1;
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&heartbeat->lock, NULL);
    (void)pthread_cond_init(&heartbeat->asked, &clock);
    (void)pthread_condattr_destroy(&clock);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&heartbeat->thread, NULL, run, heartbeat);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int mt_heartbeat_begin(struct mt_heartbeat *heartbeat, MPI_Comm comm, int level, int timeout)
{
    int lowest = level;
    MPI_Comm_rank(comm, &heartbeat->rank);
    MPI_Comm_size(comm, &heartbeat->size);
    MPI_Bcast(&timeout, 1, MPI_INT, 0, comm);
    MPI_Allreduce(&level, &lowest, 1, MPI_INT, MPI_MIN, comm);
    if (timeout == 0 || heartbeat->size == 1) return 0;
    if (lowest < MPI_THREAD_MULTIPLE) {
        if (heartbeat->rank == 0)
            (void)fprintf(stderr,
                          "metier: this MPI is not for several threads: a rank that is stopped is not "
                          "noticed\n");
        return 0;
    }
    heartbeat->timeout = timeout;
    MPI_Comm_dup(comm, &heartbeat->comm);
    heartbeat->begun = start_thread(heartbeat) == 0;
    return heartbeat->begun ? 0 : 1;
}

void mt_heartbeat_end(struct mt_heartbeat *heartbeat)
{
    if (!heartbeat->begun) return;
    MPI_Barrier(heartbeat->comm);
    (void)pthread_mutex_lock(&heartbeat->lock);
    heartbeat->over = true;
    (void)pthread_cond_signal(&heartbeat->asked);
    (void)pthread_mutex_unlock(&heartbeat->lock);
    (void)pthread_join(heartbeat->thread, NULL);
    (void)pthread_cond_destroy(&heartbeat->asked);
    (void)pthread_mutex_destroy(&heartbeat->lock);
    MPI_Comm_free(&heartbeat->comm);
    heartbeat->begun = false;
}
