/*
 * Ranks over MPI: the module metier_mpi.so. Errors are MPI's to handle, which ends the job: a peer that is
 * gone does not come back. Messages between two ranks arrive in the order they were sent, so exchanges under
 * way together are told apart by their tags; a message of more than MOST bytes goes in several.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>

#if defined(OPEN_MPI)
#include <mpi-ext.h> // MPIX_Query_cuda_support
#endif

#include "comm/mpi/heartbeat.h"
#include "comm/transport.h"

#define MOST     (1 << 30)
#define MESSAGES (MT_TRANSPORT_MOST_BYTES / MOST) // of each kind an exchange may have with one rank

struct group {
    MPI_Comm comm;
    int host_ranks;
    int level;                     // what MPI allows threads, and
    struct mt_heartbeat heartbeat; // its thread: the job's
};

struct request {
    int count;
    MPI_Request of[]; // [2 kinds, ranks, MESSAGES]
};

static size_t request_bytes(int ranks)
{
    return sizeof(struct request) + 2 * (size_t)ranks * MESSAGES * sizeof(MPI_Request);
}

static int count_host_ranks(MPI_Comm comm)
{
    MPI_Comm host;
    int count = 1;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &count);
    MPI_Comm_free(&host);
    return count;
}

static size_t group_bytes(int ranks)
{
    (void)ranks;
    return sizeof(struct group);
}

static int open_group(struct mt_context *ctx, int timeout, void *group)
{
    struct group *g = group;
    (void)ctx;
    (void)timeout; // the launcher waits
    sigset_t asked;
    sigset_t before;
    // MPI starts threads, which inherit what is blocked: a signal that asks the program to end is for our
    // own.
    (void)sigemptyset(&asked);
    (void)sigaddset(&asked, SIGINT);
    (void)sigaddset(&asked, SIGTERM);
    (void)sigaddset(&asked, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &asked, &before);
    int started = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &g->level); // the heartbeat is a thread
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started != MPI_SUCCESS) return 1;
    g->comm = MPI_COMM_WORLD;
    g->host_ranks = count_host_ranks(g->comm);
    return 0;
}

static int watch(void *group, int timeout)
{
    struct group *g = group;
    return mt_heartbeat_begin(&g->heartbeat, g->comm, g->level, timeout);
}

static void split(void *group, int colour, void *part)
{
    const struct group *g = group;
    struct group *p = part;
    int rank = 0;
    MPI_Comm_rank(g->comm, &rank);
    MPI_Comm_split(g->comm, colour, rank, &p->comm);
    p->host_ranks = count_host_ranks(p->comm);
}

static void close_group(void *group, bool all)
{
    struct group *g = group;
    if (all) {
        mt_heartbeat_end(&g->heartbeat);
        MPI_Finalize();
        return;
    }
    MPI_Comm_free(&g->comm);
}

static int rank_of(const void *group)
{
    int rank = 0;
    MPI_Comm_rank(((const struct group *)group)->comm, &rank);
    return rank;
}

static int size_of(const void *group)
{
    int size = 1;
    MPI_Comm_size(((const struct group *)group)->comm, &size);
    return size;
}

static int host_ranks(const void *group)
{
    return ((const struct group *)group)->host_ranks;
}

/* Open MPI says so where it was built to; a library that says nothing does not. */
static bool reads_devices(void)
{
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}

/* The next message of `left` bytes. */
static int message(size_t left)
{
    return left < MOST ? (int)left : MOST;
}

static void start(void *group, const struct mt_exchange *exchange, void *request)
{
    const struct group *g = group;
    struct request *r = request;
    int ranks = size_of(group);
    int own = rank_of(group);
    r->count = 0;
    for (int peer = 0; peer < ranks; peer++) {
        if (peer == own) continue;
        for (size_t at = 0; at < exchange->receive_bytes[peer]; at += MOST) {
            unsigned char *target = exchange->receive + exchange->receive_at[peer] + at;
            MPI_Irecv(target, message(exchange->receive_bytes[peer] - at), MPI_BYTE, peer, exchange->tag,
                      g->comm, &r->of[r->count++]);
        }
    }
    // Not everybody to the lowest rank first.
    for (int i = 1; i < ranks; i++) {
        int peer = (own + i) % ranks;
        for (size_t at = 0; at < exchange->send_bytes[peer]; at += MOST) {
            const unsigned char *source = exchange->send + exchange->send_at[peer] + at;
            MPI_Isend(source, message(exchange->send_bytes[peer] - at), MPI_BYTE, peer, exchange->tag,
                      g->comm, &r->of[r->count++]);
        }
    }
}

static bool test(void *request)
{
    struct request *r = request;
    int done = 0;
    MPI_Testall(r->count, r->of, &done, MPI_STATUSES_IGNORE);
    if (done) r->count = 0;
    return done != 0;
}

static void wait(void *request)
{
    struct request *r = request;
    MPI_Waitall(r->count, r->of, MPI_STATUSES_IGNORE);
    r->count = 0;
}

static void barrier(void *group)
{
    MPI_Barrier(((const struct group *)group)->comm);
}

static void broadcast(void *group, void *data, size_t bytes, int root)
{
    for (size_t at = 0; at < bytes; at += MOST)
        MPI_Bcast((char *)data + at, message(bytes - at), MPI_BYTE, root,
                  ((const struct group *)group)->comm);
}

static void gather(void *group, const void *mine, size_t bytes, void *all)
{
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, ((const struct group *)group)->comm);
}

static void abort_job(void *group, int exit_status)
{
    MPI_Abort(((const struct group *)group)->comm, exit_status);
}

extern const struct mt_transport mt_transport_mpi;
const struct mt_transport mt_transport_mpi = {
    .name = "MPI",
    .group_bytes = group_bytes,
    .request_bytes = request_bytes,
    .open = open_group,
    .watch = watch,
    .split = split,
    .close = close_group,
    .rank = rank_of,
    .size = size_of,
    .host_ranks = host_ranks,
    .reads_devices = reads_devices,
    .start = start,
    .test = test,
    .wait = wait,
    .barrier = barrier,
    .broadcast = broadcast,
    .gather = gather,
    .abort = abort_job,
};
