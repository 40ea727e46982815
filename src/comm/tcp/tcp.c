/*
 * The table of functions of ranks over TCP. Exchanges are messages between two ranks; gatherings, broadcasts
 * and barriers are exchanges of tags that no other exchange has. Large ones are not spread over trees: what
 * is large between many machines belongs on another network.
 */
#include "comm/tcp/tcp.h"

#include <stdint.h>
#include <string.h>

#include "comm/tcp/flow.h"
#include "comm/tcp/meet.h"

enum { TAG_GATHER = 1 << 16, TAG_BROADCAST, TAG_BARRIER }; // above those of exchanges

/* What all groups of a job share. Owned by the job's own group. */
struct job {
    struct mt_context *ctx; // borrowed
    struct mt_flow flow;
    uint64_t *machines;  // [size]: the same for ranks of one machine
    uint32_t next_group; // no group that this rank is in has a number from here on
    int timeout;
    // Of one gathering, broadcast or barrier at a time; these follow the struct.
    struct mt_link_request *request;
    size_t *zeros, *same, *places, *none; // [size]: amounts and places of exchanges
    int32_t *splits;                      // [2,size]
    size_t bytes;                         // of the block this struct begins
};

struct group {
    struct job *job;
    uint32_t number;
    int rank, size, host_ranks;
    int members[]; // [size]: their ranks in the job
};

static size_t group_bytes(int ranks)
{
    return sizeof(struct group) + (size_t)ranks * sizeof(int);
}

static size_t request_bytes(int ranks)
{
    return sizeof(struct mt_link_request) + 2 * (size_t)ranks * sizeof(struct mt_link_part);
}

static enum mt_status make_job(struct mt_context *ctx, int size, struct job **job)
{
    size_t request = (request_bytes(size) + 63) / 64 * 64;
    size_t count = (size_t)size;
    size_t bytes =
        sizeof **job + 64 + request + count * (sizeof(uint64_t) + 4 * sizeof(size_t) + 2 * sizeof(int32_t));
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, bytes, &memory);
    if (status != MT_OK) return mt_fail_within(ctx, status, "a job of %d ranks", size);
    struct job *made = memory;
    unsigned char *next = (unsigned char *)memory + (sizeof *made + 63) / 64 * 64;
    *made = (struct job){.ctx = ctx, .next_group = 1, .bytes = bytes};
    made->request = (struct mt_link_request *)(void *)next;
    made->machines = (uint64_t *)(void *)(next + request);
    made->zeros = (size_t *)(void *)(made->machines + count);
    made->same = made->zeros + count;
    made->places = made->same + count;
    made->none = made->places + count;
    made->splits = (int32_t *)(void *)(made->none + count);
    *job = made;
    return MT_OK;
}

static void count_neighbours(struct group *g, bool whole)
{
    const uint64_t *machines = g->job->machines;
    uint64_t own = machines[whole ? g->rank : g->members[g->rank]];
    g->host_ranks = 0;
    for (int r = 0; r < g->size; r++) g->host_ranks += machines[whole ? r : g->members[r]] == own ? 1 : 0;
}

static int open_group(struct mt_context *ctx, int timeout, void *group)
{
    struct group *g = group;
    struct mt_tcp_place place;
    struct mt_tcp_met met = {0};
    struct job *job = NULL;
    enum mt_status status = mt_tcp_place_read(ctx, &place);
    if (status == MT_OK) status = make_job(ctx, place.size, &job);
    if (status == MT_OK) status = mt_tcp_meet(ctx, &place, timeout, &met);
    if (status == MT_OK) status = mt_flow_open(ctx, &job->flow, place.rank, place.size, met.sockets);
    if (status == MT_OK) {
        memcpy(job->machines, met.machines, (size_t)place.size * sizeof *met.machines);
        job->timeout = met.timeout;
        *g = (struct group){.job = job, .rank = place.rank, .size = place.size};
        count_neighbours(g, true);
    } else if (job != NULL) {
        mt_release(ctx, job, job->bytes);
    }
    mt_tcp_met_free(ctx, &met);
    return (int)status;
}

/* Rank 0's seconds count, which all heard of when they met. */
static int watch(void *group, int timeout)
{
    struct group *g = group;
    (void)timeout;
    for (int r = 0; r < g->size; r++) g->members[r] = r;
    return mt_flow_begin(&g->job->flow, g->job->timeout);
}

// ------------------------------------------------------------------ exchanges

static void start(void *group, const struct mt_exchange *exchange, void *request)
{
    const struct group *g = group;
    mt_flow_lock(&g->job->flow, request);
    for (int r = 0; r < g->size; r++) {
        struct mt_link_part part = {
            .bytes = exchange->receive_bytes[r], .group = g->number, .tag = (uint32_t)exchange->tag};
        if (r == g->rank || part.bytes == 0) continue;
        part.to = exchange->receive + exchange->receive_at[r];
        mt_links_receive(request, g->members[r], &part);
    }
    // Not everybody to the lowest rank first.
    for (int i = 1; i < g->size; i++) {
        int r = (g->rank + i) % g->size;
        struct mt_link_part part = {
            .bytes = exchange->send_bytes[r], .group = g->number, .tag = (uint32_t)exchange->tag};
        if (part.bytes == 0) continue;
        part.from = exchange->send + exchange->send_at[r];
        mt_links_send(request, g->members[r], &part);
    }
    mt_flow_start(&g->job->flow);
}

static bool test(void *request)
{
    return mt_flow_test(request);
}

static void wait(void *request)
{
    mt_flow_wait(request);
}

/* Bytes from every rank of one set to every rank of another, of which there are up to all. */
struct spread {
    const void *send;
    size_t *send_bytes; // [ranks], as are the others
    void *receive;
    size_t *receive_at, *receive_bytes;
    int tag;
};

static void exchange_now(struct group *g, const struct spread *spread)
{
    const struct job *job = g->job;
    const struct mt_exchange exchange = {.send = spread->send,
                                         .send_at = job->zeros,
                                         .send_bytes = spread->send_bytes,
                                         .receive = spread->receive,
                                         .receive_at = spread->receive_at,
                                         .receive_bytes = spread->receive_bytes,
                                         .tag = spread->tag};
    start(g, &exchange, job->request);
    wait(job->request);
}

static void gather(void *group, const void *mine, size_t bytes, void *all)
{
    struct group *g = group;
    const struct job *job = g->job;
    unsigned char *own = (unsigned char *)all + (size_t)g->rank * bytes;
    for (int r = 0; r < g->size; r++) {
        job->same[r] = bytes;
        job->places[r] = (size_t)r * bytes;
    }
    if (bytes > 0) memcpy(own, mine, bytes);
    exchange_now(g, &(struct spread){.send = mine,
                                     .send_bytes = job->same,
                                     .receive = all,
                                     .receive_at = job->places,
                                     .receive_bytes = job->same,
                                     .tag = TAG_GATHER});
}

/* From one rank to all others. */
static void send_to_all(struct group *g, void *data, size_t bytes, int root, int tag)
{
    const struct job *job = g->job;
    for (int r = 0; r < g->size; r++) job->same[r] = g->rank == root ? bytes : 0;
    for (int r = 0; r < g->size; r++) job->none[r] = g->rank != root && r == root ? bytes : 0;
    exchange_now(g, &(struct spread){.send = data,
                                     .send_bytes = job->same,
                                     .receive = data,
                                     .receive_at = job->zeros,
                                     .receive_bytes = job->none,
                                     .tag = tag});
}

static void broadcast(void *group, void *data, size_t bytes, int root)
{
    for (size_t at = 0; at < bytes; at += MT_TRANSPORT_MOST_BYTES) {
        size_t left = bytes - at;
        send_to_all(group, (unsigned char *)data + at,
                    left < MT_TRANSPORT_MOST_BYTES ? left : MT_TRANSPORT_MOST_BYTES, root, TAG_BROADCAST);
    }
}

/* Everybody tells the first, who then tells everybody. */
static void barrier(void *group)
{
    struct group *g = group;
    const struct job *job = g->job;
    char said = 0;
    char heard[1];
    for (int r = 0; r < g->size; r++) job->same[r] = g->rank != 0 && r == 0 ? 1 : 0;
    for (int r = 0; r < g->size; r++) job->none[r] = g->rank == 0 && r != 0 ? 1 : 0;
    exchange_now(g, &(struct spread){.send = &said,
                                     .send_bytes = job->same,
                                     .receive = heard,
                                     .receive_at = job->zeros, // all to one place: nobody looks
                                     .receive_bytes = job->none,
                                     .tag = TAG_BARRIER});
    send_to_all(g, &said, 1, 0, TAG_BARRIER);
}

// ------------------------------------------------------------------ groups

/* A number for the new groups that none of the old one's ranks has used: those of one split share it, and
 * have no rank in common. */
static void split(void *group, int colour, void *part)
{
    struct group *g = group;
    struct group *p = part;
    struct job *job = g->job;
    const int32_t mine[2] = {colour, (int32_t)job->next_group};
    int32_t number = 0;
    gather(group, mine, sizeof mine, job->splits);
    *p = (struct group){.job = job};
    for (int r = 0; r < g->size; r++) {
        if (job->splits[2 * r + 1] > number) number = job->splits[2 * r + 1];
        if (job->splits[2 * r] != colour) continue;
        if (r == g->rank) p->rank = p->size;
        p->members[p->size++] = g->members[r];
    }
    p->number = (uint32_t)number;
    job->next_group = (uint32_t)number + 1;
    count_neighbours(p, false);
}

static void close_group(void *group, bool all)
{
    struct group *g = group;
    struct job *job = g->job;
    if (!all) return;
    if (job->flow.begun) barrier(g);
    mt_flow_close(&job->flow);
    mt_release(job->ctx, job, job->bytes);
}

static int rank_of(const void *group)
{
    return ((const struct group *)group)->rank;
}

static int size_of(const void *group)
{
    return ((const struct group *)group)->size;
}

static int host_ranks(const void *group)
{
    return ((const struct group *)group)->host_ranks;
}

static bool reads_devices(void)
{
    return false;
}

static void abort_job(void *group, int exit_status)
{
    mt_flow_abort(&((struct group *)group)->job->flow, exit_status);
}

const struct mt_transport mt_transport_tcp = {
    .name = "TCP",
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
