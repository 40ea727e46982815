/*
 * A stand-in for NCCL's library, for src/comm/cards.c: the functions that are used there, between processes
 * of one machine, on memory of the host. Streams are NULL, and what is issued is done on return. Every pair
 * of ranks has a box in shared memory for each direction, which holds a piece at a time.
 *
 * METIER_DOUBLE_LINK=SPEED: this process stands for all ranks, and one card for theirs, as nccl_double_link.h
 * says.
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

#include "nccl_double_link.h"

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
    void *stream;
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
    *communicator = made;
    made->rank = rank;
    made->ranks = ranks;
    if (link_speed() > 0.0) return SUCCESS;
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
    (void)atomic_fetch_add(&made->room->joined, 1);
    while (atomic_load(&made->room->joined) < ranks) pass_time();
    (void)atomic_fetch_add(&made->room->left, 1);
    if (rank == 0) {
        while (atomic_load(&made->room->left) < ranks) pass_time();
        (void)shm_unlink(id.name);
    }
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
    if (c->room != NULL) (void)munmap(c->room, sizeof *c->room);
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

/* Each of the others sends what it is sent, in one go; the longer way, there or back, takes the time. */
static int stand_in(void)
{
    struct link_copy copies[CALLS];
    size_t made = 0;
    size_t there = 0;
    size_t back = 0;
    for (int i = 0; i < count; i++) {
        const struct call *to = &calls[i];
        there += to->sends ? to->bytes : 0;
        back += to->sends ? 0 : to->bytes;
        for (int k = 0; k < count; k++) {
            const struct call *from = &calls[k];
            if (to->sends || !from->sends || to->peer != from->peer) continue;
            size_t bytes = to->bytes < from->bytes ? to->bytes : from->bytes;
            copies[made++] = (struct link_copy){.to = to->data, .from = from->data, .bytes = bytes};
            break;
        }
    }
    void *stream = count > 0 ? calls[0].stream : NULL;
    count = 0;
    return link_pass(copies, made, there > back ? there : back, stream) ? SUCCESS : SYSTEM_ERROR;
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
    if (link_speed() > 0.0) return stand_in();
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

static int add(const struct call *call)
{
    if (depth == 0 || count == CALLS || call->data == NULL) return INVALID_USAGE;
    if (call->peer < 0 || call->peer >= call->communicator->ranks) return INVALID_ARGUMENT;
    if (call->stream != NULL && link_speed() <= 0.0) return INVALID_ARGUMENT;
    calls[count++] = *call;
    return SUCCESS;
}

int ncclSend(const void *data, size_t n, int type, int peer, void *communicator, void *stream)
{
    if (type != 0) return INVALID_ARGUMENT;
    return add(&(struct call){.communicator = communicator,
                              .data = (unsigned char *)data,
                              .bytes = n,
                              .peer = peer,
                              .sends = true,
                              .stream = stream});
}

int ncclRecv(void *data, size_t n, int type, int peer, void *communicator, void *stream)
{
    if (type != 0) return INVALID_ARGUMENT;
    return add(&(struct call){
        .communicator = communicator, .data = data, .bytes = n, .peer = peer, .stream = stream});
}
