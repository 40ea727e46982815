/* The meeting: rank 0's table of addresses, then a connection between each two. */
#include "comm/tcp/meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/tcp/door.h"
#include "comm/tcp/socket.h"

#define ENTRY_BYTES   28 // of one rank in the table: address, port, machine
#define HEAD_BYTES    20 // before them: the job's number, rank 0's timeout
#define SPARE_FILES   256
#define REST_LEAST_MS 20 // between two tries to reach a rank
#define REST_MOST_MS  500
#define CONNECTING    5.0  // seconds for one address
#define MARGIN        10.0 // seconds that others wait longer than whoever tells them what went wrong
#define MOST_NAMES    8    // of a machine that are tried

struct meeting {
    struct mt_context *ctx;           // borrowed, as are the next two
    const struct mt_tcp_place *place; // who we are
    struct mt_tcp_met *met;
    struct mt_door door;
    int timeout;
    int lowest;     // ranks from here on come in at the door
    bool gathering; // rank 0, before it has told the table: who leaves may come again
    // These follow the struct.
    struct mt_socket_address *addresses; // [size]
    struct pollfd *events;               // [1 + MT_DOOR_CALLERS + size]
    unsigned char *table;                // [HEAD_BYTES + size·ENTRY_BYTES]
    size_t bytes;
};

static double moment(const struct meeting *m)
{
    return m->timeout > 0 ? mt_clock_seconds() + m->timeout : 1e18;
}

static size_t table_bytes(int size)
{
    return HEAD_BYTES + (size_t)size * ENTRY_BYTES;
}

static enum mt_status open_meeting(struct mt_context *ctx, const struct mt_tcp_place *place, int timeout,
                                   struct mt_tcp_met *met, struct meeting **meeting)
{
    size_t size = (size_t)place->size;
    size_t addresses = size * sizeof(struct mt_socket_address);
    size_t events = (1 + MT_DOOR_CALLERS + size) * sizeof(struct pollfd);
    size_t bytes = sizeof **meeting + addresses + events + table_bytes(place->size);
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, bytes, &memory);
    if (status != MT_OK) return status;
    struct meeting *made = memory;
    *made = (struct meeting){.ctx = ctx, .place = place, .met = met, .timeout = timeout, .bytes = bytes};
    made->addresses = (struct mt_socket_address *)(void *)(made + 1);
    made->events = (struct pollfd *)(void *)(made->addresses + size);
    made->table = (unsigned char *)(made->events + 1 + MT_DOOR_CALLERS + size);
    made->lowest = place->rank + 1;
    mt_door_open(&made->door, place, -1);
    *meeting = made;
    return MT_OK;
}

static enum mt_status open_door(struct meeting *m, int port)
{
    int listener = mt_socket_listen(m->place, port);
    if (listener < 0) {
        return mt_fail(m->ctx, MT_ERR_IO,
                       "rank %d cannot listen at port %d for the other ranks: %s. MASTER_PORT names the port",
                       m->place->rank, port, strerror(errno));
    }
    mt_door_open(&m->door, m->place, listener);
    return MT_OK;
}

// ------------------------------------------------------------------ letting ranks in

/* "1, 3 and 5 more" of the ranks that are not here. */
static void name_missing(const struct meeting *m, char *text, size_t bytes)
{
    enum { NAMED = 8 };
    int missing = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int r = m->lowest; r < m->place->size; r++) {
        if (m->met->sockets[r] >= 0) continue;
        if (missing < NAMED && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", missing > 0 ? ", " : "", r);
        missing++;
    }
    if (missing > NAMED && used < bytes)
        (void)snprintf(text + used, bytes - used, " and %d more", missing - NAMED);
}

static enum mt_status too_late(const struct meeting *m)
{
    char missing[128];
    char turned[384] = "";
    long strangers = m->door.strangers - m->door.refused;
    name_missing(m, missing, sizeof missing);
    if (m->door.refused > 0)
        (void)snprintf(turned, sizeof turned, "; refused: %s", m->door.refusal);
    else if (strangers > 0)
        (void)snprintf(turned, sizeof turned, "; %ld connections did not know the METIER_TOKEN of this rank",
                       strangers);
    return mt_fail(m->ctx, MT_ERR_IO,
                   "rank %d of %d waited %d seconds in vain for: rank %s (METIER_RANK_TIMEOUT)%s",
                   m->place->rank, m->place->size, m->timeout, missing, turned);
}

static enum mt_tcp_verdict judge(void *self, const struct mt_tcp_hello *hello)
{
    const struct meeting *m = self;
    if (hello->rank < (uint32_t)m->lowest || hello->rank >= (uint32_t)m->place->size) return MT_TCP_NO_RANK;
    if (m->met->sockets[hello->rank] >= 0) return MT_TCP_RANK_TWICE;
    return MT_TCP_WELCOME;
}

/* Nobody who is in has anything to say yet: who can be read has closed. */
static enum mt_status notice_leavers(struct meeting *m, const struct pollfd *events)
{
    for (int r = 0; r < m->place->size; r++) {
        if (m->met->sockets[r] < 0 || events[r].revents == 0) continue;
        if (!m->gathering)
            return mt_fail(m->ctx, MT_ERR_IO, "rank %d has ended while ranks connected to each other", r);
        (void)close(m->met->sockets[r]);
        m->met->sockets[r] = -1;
    }
    return MT_OK;
}

static int count_missing(const struct meeting *m)
{
    int missing = 0;
    for (int r = m->lowest; r < m->place->size; r++) missing += m->met->sockets[r] < 0 ? 1 : 0;
    return missing;
}

static enum mt_status let_in(struct meeting *m)
{
    double until = moment(m);
    while (count_missing(m) > 0) {
        struct mt_tcp_hello hello;
        int at = mt_door_poll(&m->door, m->events);
        for (int r = 0; r < m->place->size; r++)
            m->events[at + r] = (struct pollfd){.fd = m->met->sockets[r], .events = POLLIN};
        int ready = poll(m->events, (nfds_t)at + (nfds_t)m->place->size, mt_socket_milliseconds(until, 1000));
        if (ready < 0 && errno != EINTR)
            return mt_fail(m->ctx, MT_ERR_IO, "cannot wait for ranks: %s", strerror(errno));
        if (ready < 0) continue;
        enum mt_status status = notice_leavers(m, m->events + at);
        if (status != MT_OK) return status;
        int in = mt_door_answer(&m->door, m->events, judge, m, &hello);
        if (in == -2)
            return mt_fail(m->ctx, MT_ERR_IO, "cannot take another rank's connection: %s", strerror(errno));
        if (in >= 0) {
            m->met->sockets[hello.rank] = in;
            m->met->machines[hello.rank] = hello.machine;
            if (!mt_socket_peer(in, &m->addresses[hello.rank])) continue; // has left again, which is noticed
            m->addresses[hello.rank].port = (int)hello.port;
        }
        if (mt_clock_seconds() >= until && count_missing(m) > 0) return too_late(m);
    }
    mt_door_close(&m->door);
    return MT_OK;
}

// ------------------------------------------------------------------ going to others

static enum mt_status refused(const struct meeting *m, int there, const struct mt_tcp_reply *reply)
{
    const struct mt_tcp_place *place = m->place;
    switch (reply->verdict) {
    case MT_TCP_WELCOME: return MT_OK;
    case MT_TCP_OTHER_BUILD:
        return mt_fail(m->ctx, MT_ERR_USAGE,
                       "rank %d is metier %s, and rank %d metier %s: all have to be the same", place->rank,
                       place->build, there, reply->build);
    case MT_TCP_OTHER_SIZE:
        return mt_fail(m->ctx, MT_ERR_USAGE, "WORLD_SIZE is %d for rank %d, and %u for rank %d", place->size,
                       place->rank, reply->size, there);
    case MT_TCP_RANK_TWICE:
        return mt_fail(m->ctx, MT_ERR_USAGE, "there is a rank %d already: RANK has to be different for each",
                       place->rank);
    case MT_TCP_NO_RANK:
        return mt_fail(m->ctx, MT_ERR_USAGE,
                       "rank %d waits for no rank %d: there is another job at port %d, or RANK is wrong",
                       there, place->rank, place->port);
    default:
        return mt_fail(m->ctx, MT_ERR_USAGE,
                       "rank %d did not accept the METIER_TOKEN of rank %d, or does not know it", there,
                       place->rank);
    }
}

/* The other side of the handshake. *again: the connection broke, and another may not. */
static enum mt_status greet(struct meeting *m, int there, int socket, double until, bool *again)
{
    unsigned char challenge[MT_TCP_CHALLENGE_BYTES];
    unsigned char bytes[MT_TCP_HELLO_BYTES];
    unsigned char answer[MT_TCP_REPLY_BYTES];
    struct mt_tcp_secret secret = {.token = m->place->token};
    struct mt_tcp_reply reply;
    struct mt_tcp_hello hello = {.rank = (uint32_t)m->place->rank,
                                 .size = (uint32_t)m->place->size,
                                 .port = (uint32_t)mt_socket_port(m->door.listener),
                                 .machine = m->place->machine};
    memcpy(hello.build, m->place->build, sizeof hello.build);
    memcpy(hello.job, m->door.job, sizeof hello.job);
    if (getrandom(hello.nonce, sizeof hello.nonce, 0) != sizeof hello.nonce)
        return mt_fail(m->ctx, MT_ERR_IO, "the system gives no random numbers");
    *again = true;
    enum mt_socket_end end = mt_socket_receive(socket, challenge, sizeof challenge, until);
    if (end == MT_SOCKET_DONE && !mt_tcp_read_challenge(challenge, &secret)) {
        *again = false;
        return mt_fail(m->ctx, MT_ERR_USAGE,
                       "what answers in the place of rank %d is no metier of this version", there);
    }
    mt_tcp_write_hello(&secret, &hello, bytes);
    if (end == MT_SOCKET_DONE) end = mt_socket_send(socket, bytes, sizeof bytes, until);
    if (end == MT_SOCKET_DONE) end = mt_socket_receive(socket, answer, sizeof answer, until);
    if (end != MT_SOCKET_DONE)
        return mt_fail(m->ctx, MT_ERR_IO, "rank %d %s", there,
                       end == MT_SOCKET_LATE ? "was silent" : "closed the connection");
    *again = false;
    mt_tcp_read_reply(&secret, hello.nonce, answer, &reply);
    return refused(m, there, &reply);
}

/* One try, at each of the addresses. */
static enum mt_status try_rank(struct meeting *m, int there, const struct mt_socket_address *at, int count,
                               double until, bool *again)
{
    enum mt_status status = MT_OK;
    *again = true;
    if (count == 0) status = mt_fail(m->ctx, MT_ERR_IO, "%s is not the name of a machine", m->place->host);
    for (int i = 0; i < count; i++) {
        int socket = -1;
        double limit = mt_clock_seconds() + CONNECTING; // of an address that swallows everything
        enum mt_socket_end end = mt_socket_connect(&at[i], limit < until ? limit : until, &socket);
        if (end != MT_SOCKET_DONE) {
            status = mt_fail(m->ctx, MT_ERR_IO, "%s",
                             end == MT_SOCKET_LATE ? "no answer from its machine" : strerror(errno));
            continue;
        }
        status = greet(m, there, socket, until, again);
        if (status == MT_OK) {
            m->met->sockets[there] = socket;
            m->addresses[there] = at[i];
            return MT_OK;
        }
        (void)close(socket);
        if (!*again) return status;
    }
    return status;
}

/* Until a rank is reached: it may start later than we, and strangers may push us out. */
static enum mt_status go_to(struct meeting *m, int there, const struct mt_socket_address *address)
{
    double until = moment(m);
    int rest = REST_LEAST_MS;
    for (;;) {
        struct mt_socket_address at[MOST_NAMES];
        int count = 1;
        bool again = false;
        if (address != NULL)
            at[0] = *address;
        else
            count = mt_socket_resolve(m->place->host, m->place->port, at, MOST_NAMES);
        enum mt_status status = try_rank(m, there, at, count, until, &again);
        if (status == MT_OK || !again) return status;
        if (mt_clock_seconds() >= until) {
            return mt_fail_within(
                m->ctx, status,
                "rank %d did not reach rank %d at %.200s port %d in %d seconds (METIER_RANK_TIMEOUT)",
                m->place->rank, there, address == NULL ? m->place->host : "its machine,",
                count > 0 ? at[0].port : m->place->port, m->timeout);
        }
        (void)poll(NULL, 0, mt_socket_milliseconds(until, rest));
        if (rest < REST_MOST_MS) rest *= 2;
    }
}

// ------------------------------------------------------------------ the table

static enum mt_status lost(const struct meeting *m, int rank, enum mt_socket_end end)
{
    return mt_fail(m->ctx, MT_ERR_IO, "rank %d %s while ranks connected to each other", rank,
                   end == MT_SOCKET_LATE ? "has not been heard of" : "has ended");
}

static enum mt_status tell_table(struct meeting *m)
{
    int size = m->place->size;
    enum mt_socket_end end = MT_SOCKET_DONE;
    if (getrandom(m->door.job, MT_TCP_JOB, 0) != MT_TCP_JOB)
        return mt_fail(m->ctx, MT_ERR_IO, "the system gives no random numbers");
    memcpy(m->table, m->door.job, MT_TCP_JOB);
    mt_tcp_put(m->table + MT_TCP_JOB, (uint64_t)m->timeout, 4);
    for (int r = 0; r < size; r++) {
        unsigned char *entry = m->table + HEAD_BYTES + (size_t)r * ENTRY_BYTES;
        memcpy(entry, &m->addresses[r].ip, 16);
        mt_tcp_put(entry + 16, (uint64_t)m->addresses[r].port, 4);
        mt_tcp_put(entry + 20, m->met->machines[r], 8);
    }
    double until = moment(m);
    for (int r = 1; r < size; r++) {
        end = mt_socket_send(m->met->sockets[r], m->table, table_bytes(size), until);
        if (end != MT_SOCKET_DONE) return lost(m, r, end);
    }
    return MT_OK;
}

static enum mt_status hear_table(struct meeting *m)
{
    int size = m->place->size;
    struct mt_socket_address first = m->addresses[0];
    double until = moment(m) + MARGIN;
    enum mt_socket_end end = mt_socket_receive(m->met->sockets[0], m->table, table_bytes(size), until);
    if (end != MT_SOCKET_DONE)
        return mt_fail(m->ctx, MT_ERR_IO, "rank 0 %s before all ranks had come",
                       end == MT_SOCKET_LATE ? "was silent" : "has ended");
    memcpy(m->door.job, m->table, MT_TCP_JOB);
    m->timeout = (int)mt_tcp_get(m->table + MT_TCP_JOB, 4);
    for (int r = 1; r < size; r++) {
        const unsigned char *entry = m->table + HEAD_BYTES + (size_t)r * ENTRY_BYTES;
        memcpy(&m->addresses[r].ip, entry, 16);
        m->addresses[r].port = (int)mt_tcp_get(entry + 16, 4);
        m->met->machines[r] = mt_tcp_get(entry + 20, 8);
        // Rank 0's neighbours may have come to it by its machine's loopback, which is not ours.
        if (mt_socket_is_loopback(&m->addresses[r]) && !mt_socket_is_loopback(&first))
            m->addresses[r].ip = first.ip;
    }
    m->met->machines[0] = mt_tcp_get(m->table + HEAD_BYTES + 20, 8);
    return MT_OK;
}

/* Everybody is connected to everybody: rank 0 hears it from all, and then tells all. */
static enum mt_status end_meeting(struct meeting *m)
{
    char word = 'c';
    double until = moment(m);
    enum mt_socket_end end = MT_SOCKET_DONE;
    if (m->place->rank > 0) {
        end = mt_socket_send(m->met->sockets[0], &word, 1, until);
        if (end == MT_SOCKET_DONE) end = mt_socket_receive(m->met->sockets[0], &word, 1, until + MARGIN);
        return end == MT_SOCKET_DONE ? MT_OK : lost(m, 0, end);
    }
    for (int r = 1; r < m->place->size; r++) {
        end = mt_socket_receive(m->met->sockets[r], &word, 1, until);
        if (end != MT_SOCKET_DONE) return lost(m, r, end);
    }
    for (int r = 1; r < m->place->size; r++) {
        end = mt_socket_send(m->met->sockets[r], &word, 1, until);
        if (end != MT_SOCKET_DONE) return lost(m, r, end);
    }
    return MT_OK;
}

// ------------------------------------------------------------------ the whole

static enum mt_status meet_as_first(struct meeting *m)
{
    m->gathering = true;
    m->met->machines[0] = m->place->machine;
    enum mt_status status = open_door(m, m->place->port);
    if (status == MT_OK) status = let_in(m);
    m->gathering = false;
    return status == MT_OK ? tell_table(m) : status;
}

static enum mt_status meet_as_other(struct meeting *m)
{
    enum mt_status status = open_door(m, 0);
    if (status == MT_OK) status = go_to(m, 0, NULL);
    if (status == MT_OK) status = hear_table(m);
    for (int r = 1; r < m->place->rank && status == MT_OK; r++) status = go_to(m, r, &m->addresses[r]);
    return status == MT_OK ? let_in(m) : status;
}

/* A connection to everybody, and what else is open. */
static enum mt_status allow_sockets(struct mt_context *ctx, int size)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)size + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return MT_OK;
    if (limit.rlim_max < wanted)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "%d ranks need %llu open files each, and ulimit -Hn allows %llu", size,
                       (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return MT_OK;
}

enum mt_status mt_tcp_meet(struct mt_context *ctx, const struct mt_tcp_place *place, int timeout,
                           struct mt_tcp_met *met)
{
    struct meeting *meeting = NULL;
    void *memory = NULL;
    size_t size = (size_t)place->size;
    *met = (struct mt_tcp_met){.size = place->size, .bytes = size * (sizeof(uint64_t) + sizeof(int))};
    enum mt_status status = allow_sockets(ctx, place->size);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, met->bytes, &memory);
    if (status != MT_OK) return status;
    met->machines = memory;
    met->sockets = (int *)(void *)(met->machines + size);
    for (int r = 0; r < place->size; r++) met->sockets[r] = -1;
    status = open_meeting(ctx, place, timeout, met, &meeting);
    if (status == MT_OK) {
        status = place->rank == 0 ? meet_as_first(meeting) : meet_as_other(meeting);
        if (status == MT_OK) status = end_meeting(meeting);
        met->machines[place->rank] = place->machine;
        met->timeout = meeting->timeout;
        mt_door_close(&meeting->door);
        mt_release(ctx, meeting, meeting->bytes);
    }
    if (status != MT_OK) mt_tcp_met_free(ctx, met);
    return status;
}

void mt_tcp_met_free(struct mt_context *ctx, struct mt_tcp_met *met)
{
    if (met->machines == NULL) return;
    for (int r = 0; r < met->size; r++) {
        if (met->sockets[r] >= 0) (void)close(met->sockets[r]);
    }
    mt_release(ctx, met->machines, met->bytes);
    *met = (struct mt_tcp_met){0};
}
