/* The thread of a rank's connections, and how a job ends. */
#define _DEFAULT_SOURCE
#include "comm/tcp/flow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/tcp/socket.h"

#define ROUND_SECONDS   1.0
#define ROUNDS_AT_LEAST 8.0 // that silence of a whole timeout lasts
#define LAST_WORDS      2.0 // seconds for telling others why the job ends

static size_t event_bytes(const struct mt_flow *flow)
{
    return (1 + (size_t)flow->links.size) * sizeof(struct pollfd);
}

enum mt_status mt_flow_open(struct mt_context *ctx, struct mt_flow *flow, int rank, int size, int *sockets)
{
    void *memory = NULL;
    *flow = (struct mt_flow){.wake = -1};
    enum mt_status status = mt_links_open(ctx, &flow->links, rank, size, sockets);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, event_bytes(flow), &memory);
    if (status != MT_OK) {
        mt_links_close(&flow->links);
        return status;
    }
    flow->events = memory;
    flow->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (flow->wake >= 0) return MT_OK;
    status = mt_fail(ctx, MT_ERR_IO, "the system has no eventfd for ranks: %d", errno);
    mt_flow_close(flow);
    return status;
}

static void wake(const struct mt_flow *flow)
{
    const uint64_t one = 1;
    ssize_t written = write(flow->wake, &one, sizeof one); // fails where it is awake already
    (void)written;
}

// ------------------------------------------------------------------ the end of a job

static void explain(const struct mt_flow *flow)
{
    const struct mt_links *links = &flow->links;
    char why[160] = "";
    switch (links->reason) {
    case MT_LINK_SILENT:
        (void)snprintf(
            why, sizeof why,
            "has not been heard of for %d seconds: it or its machine is stopped; this ends the job "
            "(METIER_RANK_TIMEOUT=0 waits for ever)",
            flow->timeout);
        break;
    case MT_LINK_GONE:
        (void)snprintf(why, sizeof why, "has ended, or its connection has: this ends the job");
        break;
    case MT_LINK_ABORTED:
        (void)snprintf(why, sizeof why, "has failed, and said why: this ends the job");
        break;
    case MT_LINK_DISAGREES:
        (void)snprintf(why, sizeof why,
                       "expects other amounts of data: ranks do not do the same; this ends the job");
        break;
    default: (void)snprintf(why, sizeof why, "says what no rank says: this ends the job"); break;
    }
    (void)fprintf(stderr, "metier: rank %d of %d: rank %d %s\n", links->rank, links->size, links->culprit,
                  why);
    (void)fflush(stderr);
}

/* Reads what nobody needs any more, until the other side has closed, too: a connection that is closed with
 * something unread takes back what was sent last. True: over. */
static bool drain(struct mt_link *link)
{
    char unread[4096];
    for (int i = 0; i < 64; i++) {
        ssize_t came = recv(link->socket, unread, sizeof unread, MSG_DONTWAIT);
        if (came == 0 || (came < 0 && errno != EAGAIN && errno != EINTR)) return true;
        if (came < 0) return false;
    }
    return false;
}

/* Tells everybody who can be told, for a moment, and ends the process. */
static _Noreturn void end_job(struct mt_flow *flow)
{
    struct mt_links *links = &flow->links;
    double until = mt_clock_seconds() + LAST_WORDS;
    int open = 1;
    if (links->reason != MT_LINK_ABORTED || links->culprit != links->rank) explain(flow);
    for (int r = 0; r < links->size; r++) links->of[r].end_due = true;
    while (open > 0 && mt_clock_seconds() < until) {
        open = 0;
        for (int r = 0; r < links->size; r++) {
            struct mt_link *link = &links->of[r];
            flow->events[r] = (struct pollfd){.fd = -1};
            if (link->socket < 0 || (r == links->culprit && links->reason != MT_LINK_ABORTED)) continue;
            bool speaking = mt_link_has_to_say(links, link);
            if (speaking) mt_links_write(links, r);
            bool said = speaking && !mt_link_has_to_say(links, link);
            if (said) (void)shutdown(link->socket, SHUT_WR);
            if (drain(link)) {
                (void)close(link->socket);
                link->socket = -1;
                continue;
            }
            open++;
            flow->events[r] =
                (struct pollfd){.fd = link->socket, .events = speaking && !said ? POLLIN | POLLOUT : POLLIN};
        }
        if (open > 0) (void)poll(flow->events, (nfds_t)links->size, mt_socket_milliseconds(until, 100));
    }
    _exit(links->exit_status);
}

void mt_flow_abort(struct mt_flow *flow, int exit_status)
{
    struct mt_links *links = &flow->links;
    (void)pthread_mutex_lock(&links->lock);
    mt_links_blame(links, links->rank, MT_LINK_ABORTED);
    links->exit_status = exit_status;
    if (!flow->begun) end_job(flow);
    (void)pthread_mutex_unlock(&links->lock);
    wake(flow);
    for (;;) (void)pause(); // the thread ends the process
}

// ------------------------------------------------------------------ the thread

/* Waits without the lock until there is something to do, or a round is over. */
static void await(struct mt_flow *flow, double until)
{
    struct mt_links *links = &flow->links;
    uint64_t count = 0;
    flow->events[0] = (struct pollfd){.fd = flow->wake, .events = POLLIN};
    for (int r = 0; r < links->size; r++) {
        const struct mt_link *link = &links->of[r];
        short events = mt_link_has_to_say(links, link) ? POLLOUT : 0;
        if (mt_link_listens(link)) events |= POLLIN;
        flow->events[1 + r] = (struct pollfd){.fd = link->socket, .events = events};
    }
    (void)pthread_mutex_unlock(&links->lock);
    (void)poll(flow->events, 1 + (nfds_t)links->size, mt_socket_milliseconds(until, 1000));
    ssize_t came = read(flow->wake, &count, sizeof count);
    (void)came;
    (void)pthread_mutex_lock(&links->lock);
}

static void serve(struct mt_flow *flow)
{
    struct mt_links *links = &flow->links;
    for (int r = 0; r < links->size; r++) {
        struct mt_link *link = &links->of[r];
        short events = flow->events[1 + r].revents;
        if (link->socket >= 0 && (events & (POLLIN | POLLHUP | POLLERR)) != 0) {
            if (!mt_link_listens(link)) mt_links_blame(links, r, MT_LINK_GONE); // it can only have broken
            mt_links_read(links, r);
        }
        if (link->socket >= 0 && mt_link_has_to_say(links, link)) mt_links_write(links, r);
    }
}

static void end_round(struct mt_flow *flow, double round)
{
    struct mt_links *links = &flow->links;
    for (int r = 0; r < links->size; r++) {
        struct mt_link *link = &links->of[r];
        if (link->socket < 0) continue;
        // Whom we do not listen to cannot be silent.
        bool alive = link->heard || link->goodbye_heard || !mt_link_listens(link);
        link->silent = alive ? 0.0 : link->silent + round;
        link->heard = false;
        link->beat_due = !link->goodbye_said;
        if (flow->timeout > 0 && link->silent >= flow->timeout) mt_links_blame(links, r, MT_LINK_SILENT);
    }
}

/* Everybody has said goodbye to us, and we to them. */
static bool is_over(const struct mt_links *links)
{
    if (!links->leaving) return false;
    for (int r = 0; r < links->size; r++) {
        const struct mt_link *link = &links->of[r];
        if (link->socket >= 0 && (!link->goodbye_heard || mt_link_has_to_say(links, link))) return false;
    }
    return true;
}

static void *run(void *self)
{
    struct mt_flow *flow = self;
    struct mt_links *links = &flow->links;
    double round = (double)flow->timeout / ROUNDS_AT_LEAST;
    if (flow->timeout == 0 || round > ROUND_SECONDS) round = ROUND_SECONDS;
    double until = mt_clock_seconds() + round;
    (void)pthread_mutex_lock(&links->lock);
    while (!is_over(links)) {
        await(flow, until);
        serve(flow);
        double now = mt_clock_seconds();
        if (now >= until) {
            end_round(flow, round);
            until = now + round;
        }
        if (links->reason != MT_LINK_GOES_ON) end_job(flow);
    }
    (void)pthread_mutex_unlock(&links->lock);
    return NULL;
}

/* With every signal blocked: they are for the threads that wait for them. */
int mt_flow_begin(struct mt_flow *flow, int timeout)
{
    sigset_t all;
    sigset_t before;
    flow->timeout = timeout;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    flow->begun = pthread_create(&flow->thread, NULL, run, flow) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return flow->begun ? 0 : 1;
}

void mt_flow_close(struct mt_flow *flow)
{
    struct mt_links *links = &flow->links;
    if (flow->begun) {
        (void)pthread_mutex_lock(&links->lock);
        links->leaving = true;
        (void)pthread_mutex_unlock(&links->lock);
        wake(flow);
        (void)pthread_join(flow->thread, NULL);
    }
    if (flow->wake >= 0) (void)close(flow->wake);
    mt_release(links->ctx, flow->events, event_bytes(flow));
    mt_links_close(links);
    flow->begun = false;
}

// ------------------------------------------------------------------ requests

void mt_flow_lock(struct mt_flow *flow, struct mt_link_request *request)
{
    (void)pthread_mutex_lock(&flow->links.lock);
    request->links = &flow->links;
    request->left = 0;
    request->count = 0;
}

void mt_flow_start(struct mt_flow *flow)
{
    (void)pthread_mutex_unlock(&flow->links.lock);
    wake(flow);
}

bool mt_flow_test(struct mt_link_request *request)
{
    struct mt_links *links = request->links;
    (void)pthread_mutex_lock(&links->lock);
    bool complete = request->left == 0;
    (void)pthread_mutex_unlock(&links->lock);
    return complete;
}

void mt_flow_wait(struct mt_link_request *request)
{
    struct mt_links *links = request->links;
    (void)pthread_mutex_lock(&links->lock);
    while (request->left > 0) (void)pthread_cond_wait(&links->done, &links->lock);
    (void)pthread_mutex_unlock(&links->lock);
}
