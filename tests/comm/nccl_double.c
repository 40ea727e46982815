/*
 * A stand-in for NCCL's library, for src/comm/cards.c: the functions that are used there, between processes
 * of one machine, on memory of the host. Streams are NULL, and what is issued is done on return. Every pair
 * of ranks has a box in shared memory for each direction, which holds a piece at a time.
 *
 * METIER_DOUBLE_FAILS=N: after N groups the connection is broken, as ncclCommGetAsyncError would say; and
 * what is issued from then on hangs, as kernels of a broken connection do.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RANKS 16
#define PIECE 65536
#define CALLS 256 // of a group

enum { SUCCESS, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE, REMOTE_ERROR };

typedef struct {
    char name[128];
} id_type;

struct box {
    atomic_size_t bytes; // of the piece in it; 0: none
    unsigned char piece[PIECE];
};

struct room {
    atomic_int joined, left;
    struct box box[RANKS][RANKS]; // from, to
};

struct communicator {
    struct room *room;
    char name[128];
    int rank, ranks;
    long groups;
    atomic_bool broken;
};

struct call {
    struct communicator *communicator;
    unsigned char *data;
    size_t bytes, done;
    int peer;
    bool sends;
};

static struct call calls[CALLS];
static int depth, count;

/* cards.c asks for it: this library sends memory of the host. */
extern const int mt_sends_host_memory;
const int mt_sends_host_memory = 1;

int ncclGetVersion(int *version);
const char *ncclGetErrorString(int error);
const char *ncclGetLastError(const void *communicator);
int ncclGetUniqueId(id_type *id);
int ncclCommInitRank(void **communicator, int ranks, id_type id, int rank);
int ncclCommGetAsyncError(void *communicator, int *error);
int ncclCommDestroy(void *communicator);
int ncclCommAbort(void *communicator);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclSend(const void *data, size_t n, int type, int peer, void *communicator, void *stream);
int ncclRecv(void *data, size_t n, int type, int peer, void *communicator, void *stream);

int ncclGetVersion(int *version)
{
    *version = 22700;
    return SUCCESS;
}

const char *ncclGetErrorString(int error)
{
    return error == REMOTE_ERROR ? "remote process exited or there was a network error"
                                 : "an error of the stand-in";
}

const char *ncclGetLastError(const void *communicator)
{
    (void)communicator;
    return "";
}

int ncclGetUniqueId(id_type *id)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    memset(id, 0, sizeof *id);
    (void)snprintf(id->name, sizeof id->name, "/metier-double-%ld-%lld-%ld", (long)getpid(),
                   (long long)now.tv_sec, now.tv_nsec);
    return SUCCESS;
}

static void pass_time(void)
{
    (void)sched_yield();
}

/* All ranks are there before anybody takes the name away. */
int ncclCommInitRank(void **communicator, int ranks, id_type id, int rank)
{
    if (ranks > RANKS || rank < 0 || rank >= ranks) return INVALID_ARGUMENT;
    struct communicator *made = calloc(1, sizeof *made);
    if (made == NULL) return SYSTEM_ERROR;
    int file = shm_open(id.name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *made->room) != 0) {
        free(made);
        return SYSTEM_ERROR;
    }
    made->room = mmap(NULL, sizeof *made->room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (made->room == MAP_FAILED) {
        free(made);
        return SYSTEM_ERROR;
    }
    made->rank = rank;
    made->ranks = ranks;
    (void)atomic_fetch_add(&made->room->joined, 1);
    while (atomic_load(&made->room->joined) < ranks) pass_time();
    (void)atomic_fetch_add(&made->room->left, 1);
    if (rank == 0) {
        while (atomic_load(&made->room->left) < ranks) pass_time();
        (void)shm_unlink(id.name);
    }
    *communicator = made;
    return SUCCESS;
}

int ncclCommGetAsyncError(void *communicator, int *error)
{
    *error = atomic_load(&((struct communicator *)communicator)->broken) ? REMOTE_ERROR : SUCCESS;
    return SUCCESS;
}

int ncclCommDestroy(void *communicator)
{
    struct communicator *c = communicator;
    (void)munmap(c->room, sizeof *c->room);
    free(c);
    return SUCCESS;
}

int ncclCommAbort(void *communicator)
{
    const struct communicator *c = communicator;
    // Of a broken one a thread still hangs in the memory, and the process is about to end.
    return atomic_load(&c->broken) ? SUCCESS : ncclCommDestroy(communicator);
}

/* A piece of a call, if there is room or one has come; true: something was done. */
static bool move(struct call *call)
{
    struct communicator *c = call->communicator;
    struct box *box = call->sends ? &c->room->box[c->rank][call->peer] : &c->room->box[call->peer][c->rank];
    size_t there = atomic_load_explicit(&box->bytes, memory_order_acquire);
    size_t left = call->bytes - call->done;
    if (left == 0 || (call->sends ? there != 0 : there == 0)) return false;
    size_t piece = call->sends ? (left < PIECE ? left : PIECE) : there;
    if (piece > left) abort(); // the two ends disagree
    if (call->sends) memcpy(box->piece, call->data + call->done, piece);
    if (!call->sends) memcpy(call->data + call->done, box->piece, piece);
    call->done += piece;
    atomic_store_explicit(&box->bytes, call->sends ? piece : 0, memory_order_release);
    return true;
}

static void break_down(void)
{
    const char *text = getenv("METIER_DOUBLE_FAILS");
    struct communicator *c = count > 0 ? calls[0].communicator : NULL;
    if (text == NULL || c == NULL || c->groups++ < strtol(text, NULL, 10)) return;
    atomic_store(&c->broken, true);
    for (;;) (void)pause();
}

int ncclGroupStart(void)
{
    depth++;
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    if (depth == 0) return INVALID_USAGE;
    if (--depth > 0) return SUCCESS;
    break_down();
    for (bool open = count > 0; open;) {
        bool moved = false;
        open = false;
        for (int i = 0; i < count; i++) {
            bool now = move(&calls[i]);
            moved = moved || now;
            open = open || calls[i].done < calls[i].bytes;
        }
        if (!moved) pass_time();
    }
    count = 0;
    return SUCCESS;
}

static int add(unsigned char *data, size_t bytes, int peer, void *communicator, bool sends)
{
    struct communicator *c = communicator;
    if (depth == 0 || count == CALLS || data == NULL) return INVALID_USAGE;
    if (peer < 0 || peer >= c->ranks) return INVALID_ARGUMENT;
    calls[count++] =
        (struct call){.communicator = c, .data = data, .bytes = bytes, .peer = peer, .sends = sends};
    return SUCCESS;
}

int ncclSend(const void *data, size_t n, int type, int peer, void *communicator, void *stream)
{
    if (type != 0 || stream != NULL) return INVALID_ARGUMENT;
    return add((unsigned char *)data, n, peer, communicator, true);
}

int ncclRecv(void *data, size_t n, int type, int peer, void *communicator, void *stream)
{
    if (type != 0 || stream != NULL) return INVALID_ARGUMENT;
    return add(data, n, peer, communicator, false);
}
