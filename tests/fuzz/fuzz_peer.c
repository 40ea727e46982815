/*
 * Fuzz target: bytes from somebody who is connected to a rank. The first byte says as whom: a caller who has
 * not proved anything, one who knows the token, whoever answers in the place of rank 0, or a rank that has
 * met us. Nobody without the token comes in; a rank may end the job, and never writes outside of what it was
 * given.
 */
// With: src/comm/tcp/links.c src/comm/tcp/door.c src/comm/tcp/hello.c
// With: src/comm/tcp/mac.c src/comm/tcp/socket.c -lpthread
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/tcp/door.h"
#include "comm/tcp/links.h"

enum { RANKS = 3, ROOM = 2000, PARTS = 4, EDGE = 64, UNTOUCHED = 0xA5, PIECE = 1500 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

// ------------------------------------------------------------------ callers

static enum mt_tcp_verdict judge(void *self, const struct mt_tcp_hello *hello)
{
    int *asked = self;
    (*asked)++;
    if (hello->rank < 1 || hello->rank >= RANKS) return MT_TCP_NO_RANK;
    return hello->rank == 2 ? MT_TCP_RANK_TWICE : MT_TCP_WELCOME;
}

static void call(const unsigned char *bytes, size_t size, const struct mt_tcp_secret *secret, bool knows)
{
    static struct mt_door door;
    const struct mt_tcp_place place = {.size = RANKS, .build = "1", .token = secret->token};
    struct mt_tcp_hello hello;
    int ends[2];
    int asked = 0;
    bool in = false;
    bool over = false;
    demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    mt_door_open(&door, &place, -1);
    struct mt_caller *caller = &door.callers[0];
    caller->socket = ends[0];
    caller->secret = *secret;
    while (size > 0 && !over) { // in three pieces or so
        size_t piece = size > 60 ? 60 : size;
        demand(send(ends[1], bytes, piece, MSG_NOSIGNAL) == (ssize_t)piece);
        bytes += piece;
        size -= piece;
        over = mt_door_hear(&door, caller, judge, &asked, &hello, &in);
    }
    demand(knows || (!in && asked == 0));
    demand(!in || hello.rank == 1);
    demand(memchr(door.refusal, '\0', sizeof door.refusal) != NULL);
    mt_door_close(&door);
    (void)close(ends[1]);
}

/* A hello with a right code, whatever it says: the build may be ours, so that its rank is looked at. */
static void call_as_rank(const uint8_t *data, size_t size, const struct mt_tcp_secret *secret)
{
    unsigned char bytes[MT_TCP_HELLO_BYTES];
    struct mt_tcp_hello hello = {.size = RANKS, .build = "1"};
    if (size > 0) hello.rank = data[0] < 128 ? data[0] % 4u : (uint32_t)data[0] << 24;
    if (size > 1 && data[1] > 200) hello.size = data[1];
    if (size > 2 && data[2] > 200) hello.job[3] = data[2];
    if (size > 3 + sizeof hello.build) memcpy(hello.build, data + 3, sizeof hello.build);
    mt_tcp_write_hello(secret, &hello, bytes);
    call(bytes, sizeof bytes, secret, true);
}

static void answer(const uint8_t *data, size_t size, struct mt_tcp_secret *secret)
{
    unsigned char bytes[MT_TCP_REPLY_BYTES] = {0};
    const unsigned char nonce[MT_TCP_NONCE] = {0};
    struct mt_tcp_reply reply;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    (void)mt_tcp_read_challenge(bytes, secret);
    mt_tcp_read_reply(secret, nonce, bytes, &reply);
    demand(reply.verdict == MT_TCP_OTHER_TOKEN && memchr(reply.build, '\0', sizeof reply.build) != NULL);
}

// ------------------------------------------------------------------ a rank

struct bench {
    struct mt_links links;
    struct mt_link_request *request;
    unsigned char memory[PARTS][EDGE + ROOM + EDGE];
    unsigned char source[ROOM];
};

/* Two messages that are waited for and two that are sent, of tags 1 and 2 in groups 0 and 1. */
static void begin(struct bench *bench)
{
    memset(bench->memory, UNTOUCHED, sizeof bench->memory);
    bench->request->links = &bench->links;
    bench->request->left = 0;
    bench->request->count = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        struct mt_link_part part = {.bytes = i < 2 ? 10 : ROOM, .group = i % 2, .tag = 1 + i / 2};
        part.to = bench->memory[i] + EDGE;
        mt_links_receive(bench->request, 1, &part);
        part.from = bench->source;
        mt_links_send(bench->request, 1, &part);
    }
}

static void check(const struct bench *bench)
{
    const struct mt_link *link = &bench->links.of[1];
    int left = 0;
    for (int i = 0; i < bench->request->count; i++) {
        const struct mt_link_part *part = &bench->request->parts[i];
        demand(part->done <= part->bytes);
        left += part->done < part->bytes ? 1 : 0;
    }
    demand(left == bench->request->left);
    demand(link->want_count >= 0 && link->want_count <= MT_LINK_MOST_WANTS);
    for (int i = 0; i < PARTS; i++) {
        size_t end = EDGE + (i < 2 ? 10u : ROOM);
        for (size_t k = 0; k < sizeof bench->memory[i]; k++)
            demand((k >= EDGE && k < end) || bench->memory[i][k] == UNTOUCHED);
    }
}

static void drain(int socket)
{
    char unread[4096];
    while (recv(socket, unread, sizeof unread, MSG_DONTWAIT) > 0) {
    }
}

static void speak(struct mt_context *ctx, const uint8_t *data, size_t size)
{
    static struct bench bench;
    int ends[2];
    void *memory = NULL;
    size_t bytes = sizeof *bench.request + 2 * (size_t)PARTS * sizeof *bench.request->parts;
    demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    int sockets[RANKS] = {-1, ends[0], -1};
    demand(mt_allocate_array(ctx, 1, bytes, &memory) == MT_OK);
    demand(mt_links_open(ctx, &bench.links, 0, RANKS, sockets) == MT_OK);
    bench.request = memory;
    begin(&bench);
    struct mt_link *link = &bench.links.of[1];
    while (size > 0 && link->socket >= 0 && bench.links.reason == MT_LINK_GOES_ON && mt_link_listens(link)) {
        size_t piece = size < PIECE ? size : PIECE;
        for (int i = 0; i < 8 && mt_link_has_to_say(&bench.links, link); i++) {
            mt_links_write(&bench.links, 1);
            drain(ends[1]);
        }
        demand(send(ends[1], data, piece, MSG_NOSIGNAL) == (ssize_t)piece);
        mt_links_read(&bench.links, 1);
        check(&bench);
        data += piece;
        size -= piece;
    }
    (void)close(ends[1]);
    for (int i = 0;
         i < 3 && link->socket >= 0 && mt_link_listens(link) && bench.links.reason == MT_LINK_GOES_ON; i++)
        mt_links_read(&bench.links, 1);
    check(&bench);
    demand(bench.links.reason != MT_LINK_GOES_ON || link->goodbye_heard || !mt_link_listens(link));
    mt_links_close(&bench.links);
    mt_release(ctx, memory, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_tcp_secret secret = {.token = "0123456789abcdef"};
    struct mt_context ctx;
    if (size == 0) return 0;
    mt_context_init(&ctx, NULL);
    switch (data[0] % 4) {
    case 0: speak(&ctx, data + 1, size - 1); break;
    case 1: call(data + 1, size - 1, &secret, false); break;
    case 2: call_as_rank(data + 1, size - 1, &secret); break;
    default: answer(data + 1, size - 1, &secret); break;
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
