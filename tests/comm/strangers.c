/*
 * What may come to a port where ranks meet, or be there in their place: everything but a rank.
 *     strangers garbage PORT N     N connections, each of which says something else, and closes
 *     strangers silent PORT N      N connections that say nothing, until the ranks have met
 *     strangers slow PORT N        N connections that say a hello that might be one, a byte at a time
 *     strangers build PORT         a rank 1 of 2 with the token, of another build; prints what it is told
 *     strangers impostor PORT HOW  listens, and answers the first that comes: how far, 0 to 4
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/tcp/hello.h"
#include "comm/tcp/socket.h"

#define MOST 1000

static double soon(void)
{
    return mt_clock_seconds() + 60.0;
}

static struct mt_socket_address loopback(int port)
{
    struct mt_socket_address at = {.port = port};
    memset(at.ip.s6_addr + 10, 0xff, 2);
    at.ip.s6_addr[12] = 127;
    at.ip.s6_addr[15] = 1;
    return at;
}

static int come_in(int port)
{
    struct mt_socket_address at = loopback(port);
    const struct timespec rest = {.tv_nsec = 20000000};
    int made = -1;
    for (int i = 0; i < 3000 && mt_socket_connect(&at, soon(), &made) != MT_SOCKET_DONE; i++)
        (void)nanosleep(&rest, NULL);
    if (made < 0) exit(1);
    return made;
}

static void say_garbage(int port, int count)
{
    for (int i = 0; i < count; i++) {
        unsigned char bytes[400];
        int made = come_in(port);
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (unsigned char)((size_t)i * 31 + k * k + (k << 3));
        if (i % 3 == 0) memcpy(bytes, "metier\n\1", sizeof "metier\n\1");
        if (i % 3 == 1) memcpy(bytes, "GET / HTTP/1.1\r\n\r\n", sizeof "GET / HTTP/1.1\r\n\r\n");
        (void)mt_socket_send(made, bytes, (size_t)i % sizeof bytes, soon());
        (void)close(made);
    }
}

/* Until all were sent away: the port is closed then, or others pushed us out. */
static void stay(int port, int count, bool speaking)
{
    static int made[MOST];
    const struct timespec rest = {.tv_nsec = 50000000};
    char byte = 'm';
    int left = count;
    for (int i = 0; i < count; i++) made[i] = come_in(port);
    puts("here");
    (void)fflush(stdout);
    while (left > 0) {
        for (int i = 0; i < count; i++) {
            unsigned char heard[256];
            if (made[i] < 0) continue;
            bool gone = speaking && send(made[i], &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0;
            if (!gone && recv(made[i], heard, sizeof heard, MSG_DONTWAIT) != 0) continue;
            (void)close(made[i]);
            made[i] = -1;
            left--;
        }
        (void)nanosleep(&rest, NULL);
    }
}

static void come_as_other_build(int port)
{
    unsigned char challenge[MT_TCP_CHALLENGE_BYTES];
    unsigned char bytes[MT_TCP_HELLO_BYTES];
    unsigned char answer[MT_TCP_REPLY_BYTES];
    struct mt_tcp_secret secret = {.token = getenv("METIER_TOKEN")};
    struct mt_tcp_hello hello = {.rank = 1, .size = 2, .build = "0.0.1\033[31m old"};
    struct mt_tcp_reply reply;
    int made = come_in(port);
    if (mt_socket_receive(made, challenge, sizeof challenge, soon()) != MT_SOCKET_DONE ||
        !mt_tcp_read_challenge(challenge, &secret))
        exit(1);
    mt_tcp_write_hello(&secret, &hello, bytes);
    if (mt_socket_send(made, bytes, sizeof bytes, soon()) != MT_SOCKET_DONE ||
        mt_socket_receive(made, answer, sizeof answer, soon()) != MT_SOCKET_DONE)
        exit(1);
    mt_tcp_read_reply(&secret, hello.nonce, answer, &reply);
    puts(reply.verdict == MT_TCP_OTHER_BUILD ? "refused" : "let in");
}

/* 0: garbage; 1: nothing; 2: a challenge, then nothing; 3: and a reply without a code; 4: closes at once. */
static void pretend(int port, int how)
{
    struct mt_socket_address at = loopback(port);
    const struct timespec rest = {.tv_nsec = 20000000};
    const struct mt_tcp_place place = {.loopback = true, .host = "127.0.0.1"};
    const struct mt_tcp_secret secret = {.token = "of another job's"};
    unsigned char challenge[MT_TCP_CHALLENGE_BYTES];
    unsigned char reply[MT_TCP_REPLY_BYTES] = {0}; // which would be a welcome
    int listener = mt_socket_listen(&place, at.port);
    if (listener < 0) exit(1);
    puts("here");
    (void)fflush(stdout);
    for (;;) {
        int made = mt_socket_accept(listener);
        if (made < 0) (void)nanosleep(&rest, NULL);
        if (made < 0) continue;
        mt_tcp_write_challenge(&secret, challenge);
        if (how == 0)
            (void)mt_socket_send(made, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47, soon());
        if (how == 2 || how == 3) (void)mt_socket_send(made, challenge, sizeof challenge, soon());
        if (how == 3) (void)mt_socket_send(made, reply, sizeof reply, soon());
        if (how == 4) (void)close(made);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    int port = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    int count = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (count > MOST) return 1;
    if (strcmp(what, "garbage") == 0) say_garbage(port, count);
    if (strcmp(what, "silent") == 0) stay(port, count, false);
    if (strcmp(what, "slow") == 0) stay(port, count, true);
    if (strcmp(what, "build") == 0) come_as_other_build(port);
    if (strcmp(what, "impostor") == 0) pretend(port, count);
    return 0;
}
