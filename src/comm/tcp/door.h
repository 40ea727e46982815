/*
 * Where connections come in: one side of the handshake (hello.h), for many callers at a time. A caller that
 * is slow, silent or knows no token is turned away, and keeps nobody else waiting.
 */
#ifndef MT_COMM_TCP_DOOR_H
#define MT_COMM_TCP_DOOR_H

#include <poll.h>

#include "comm/tcp/hello.h"
#include "comm/tcp/place.h"

#define MT_DOOR_CALLERS 64 // at a time; another one sends the oldest away

/* Somebody who has not said who he is. */
struct mt_caller {
    int socket;   // -1: nobody
    double until; // the moment at which he is sent away
    struct mt_tcp_secret secret;
    unsigned char bytes[MT_TCP_HELLO_BYTES];
    size_t got;
};

struct mt_door {
    const struct mt_tcp_place *place; // borrowed
    unsigned char job[MT_TCP_JOB];    // that callers must name
    int listener;                     // -1: closed
    struct mt_caller callers[MT_DOOR_CALLERS];
    long strangers;    // were sent away
    long refused;      // had the token, and something else was wrong
    char refusal[256]; // of the last of those; "": none
};

/* Whether a rank may come in, who has shown that he knows the token. */
typedef enum mt_tcp_verdict (*mt_door_judge)(void *self, const struct mt_tcp_hello *hello);

/* Takes the listener over. */
void mt_door_open(struct mt_door *door, const struct mt_tcp_place *place, int listener);
void mt_door_close(struct mt_door *door); // the listener and all callers

/* What poll has to look at: up to 1 + MT_DOOR_CALLERS, in the same order for the next call. */
int mt_door_poll(const struct mt_door *door, struct pollfd *events);

/*
 * Goes on with everybody whom poll named, until one has come in: his socket, which is the caller's to close,
 * and his hello. -1: nobody yet; -2: no connection can be taken, errno says why.
 */
int mt_door_answer(struct mt_door *door, const struct pollfd *events, mt_door_judge judge, void *self,
                   struct mt_tcp_hello *hello);

/* Goes on with one caller; true: he is done with, and *in says whether he has come in. For tests, too. */
bool mt_door_hear(struct mt_door *door, struct mt_caller *caller, mt_door_judge judge, void *self,
                  struct mt_tcp_hello *hello, bool *in);

#endif
