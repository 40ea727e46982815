/* One rank: nothing to send, nobody to wait for. */
#include <string.h>

#include "comm/transport.h"

static size_t request_bytes(int ranks)
{
    (void)ranks;
    return 0;
}

static int open_group(void *group)
{
    (void)group;
    return 0;
}

static void split(void *group, int colour, void *part)
{
    (void)group;
    (void)colour;
    (void)part;
}

static void close_group(void *group, bool all)
{
    (void)group;
    (void)all;
}

static int rank(const void *group)
{
    (void)group;
    return 0;
}

static int size(const void *group)
{
    (void)group;
    return 1;
}

static bool reads_devices(void)
{
    return true; // nothing is ever sent
}

static void start(void *group, const struct mt_exchange *exchange, void *request)
{
    (void)group;
    (void)exchange;
    (void)request;
}

static bool test(void *request)
{
    (void)request;
    return true;
}

static void wait(void *request)
{
    (void)request;
}

static void barrier(void *group)
{
    (void)group;
}

static void broadcast(void *group, void *data, size_t bytes, int root)
{
    (void)group;
    (void)data;
    (void)bytes;
    (void)root;
}

static void gather(void *group, const void *mine, size_t bytes, void *all)
{
    (void)group;
    if (bytes > 0) memmove(all, mine, bytes);
}

const struct mt_transport mt_transport_alone = {
    .name = "alone",
    .request_bytes = request_bytes,
    .open = open_group,
    .split = split,
    .close = close_group,
    .rank = rank,
    .size = size,
    .host_ranks = size,
    .reads_devices = reads_devices,
    .start = start,
    .test = test,
    .wait = wait,
    .barrier = barrier,
    .broadcast = broadcast,
    .gather = gather,
};
