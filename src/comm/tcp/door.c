/* Letting ranks in, and sending others away. */
#include "comm/tcp/door.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/tcp/socket.h"

#define PATIENCE 10.0 // seconds for a caller's hello, which is 156 bytes

void mt_door_open(struct mt_door *door, const struct mt_tcp_place *place, int listener)
{
    *door = (struct mt_door){.place = place, .listener = listener};
    for (int i = 0; i < MT_DOOR_CALLERS; i++) door->callers[i].socket = -1;
}

void mt_door_close(struct mt_door *door)
{
    if (door->listener >= 0) (void)close(door->listener);
    door->listener = -1;
    for (int i = 0; i < MT_DOOR_CALLERS; i++) {
        if (door->callers[i].socket >= 0) (void)close(door->callers[i].socket);
        door->callers[i].socket = -1;
    }
}

int mt_door_poll(const struct mt_door *door, struct pollfd *events)
{
    events[0] = (struct pollfd){.fd = door->listener, .events = POLLIN};
    for (int i = 0; i < MT_DOOR_CALLERS; i++)
        events[1 + i] = (struct pollfd){.fd = door->callers[i].socket, .events = POLLIN};
    return 1 + MT_DOOR_CALLERS;
}

static void send_away(struct mt_door *door, struct mt_caller *caller)
{
    door->strangers++;
    (void)close(caller->socket);
    caller->socket = -1;
}

/* A place for one more: one that is free, or that of whoever has been here longest. */
static struct mt_caller *make_room(struct mt_door *door)
{
    struct mt_caller *oldest = &door->callers[0];
    for (int i = 0; i < MT_DOOR_CALLERS; i++) {
        struct mt_caller *caller = &door->callers[i];
        if (caller->socket < 0) return caller;
        if (caller->until < oldest->until) oldest = caller;
    }
    send_away(door, oldest);
    return oldest;
}

/* False: the system has no more to give. */
static bool take_callers(struct mt_door *door)
{
    for (int i = 0; i < MT_DOOR_CALLERS; i++) { // not for ever: the others want an answer
        unsigned char challenge[MT_TCP_CHALLENGE_BYTES];
        int made = mt_socket_accept(door->listener);
        if (made < 0) return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
        struct mt_caller *caller = make_room(door);
        *caller = (struct mt_caller){
            .socket = made, .until = mt_clock_seconds() + PATIENCE, .secret.token = door->place->token};
        ssize_t drawn = getrandom(caller->secret.challenge, MT_TCP_NONCE, 0);
        mt_tcp_write_challenge(&caller->secret, challenge);
        // A new connection takes so few bytes without waiting, or is no good.
        if (drawn != MT_TCP_NONCE ||
            send(made, challenge, sizeof challenge, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof challenge)
            send_away(door, caller);
    }
    return true;
}

static enum mt_tcp_verdict judge_hello(const struct mt_door *door, const struct mt_tcp_hello *hello,
                                       mt_door_judge judge, void *self)
{
    if (strcmp(hello->build, door->place->build) != 0) return MT_TCP_OTHER_BUILD;
    if (hello->size != (uint32_t)door->place->size) return MT_TCP_OTHER_SIZE;
    if (memcmp(hello->job, door->job, MT_TCP_JOB) != 0) return MT_TCP_NO_RANK;
    return judge(self, hello);
}

static void note_refusal(struct mt_door *door, const struct mt_tcp_hello *hello, enum mt_tcp_verdict verdict)
{
    static const char *const why[MT_TCP_VERDICTS] = {[MT_TCP_OTHER_BUILD] = "is another build",
                                                     [MT_TCP_OTHER_SIZE] = "was told another WORLD_SIZE",
                                                     [MT_TCP_NO_RANK] = "is not waited for",
                                                     [MT_TCP_RANK_TWICE] = "was here already"};
    char build[MT_TCP_BUILD];
    door->refused++;
    for (int i = 0; i < MT_TCP_BUILD; i++)
        build[i] = hello->build[i] >= ' ' || hello->build[i] == '\0' ? hello->build[i] : '?';
    (void)snprintf(door->refusal, sizeof door->refusal, "rank %u of %u (metier %s) %s", hello->rank,
                   hello->size, build, why[verdict]);
}

bool mt_door_hear(struct mt_door *door, struct mt_caller *caller, mt_door_judge judge, void *self,
                  struct mt_tcp_hello *hello, bool *in)
{
    unsigned char bytes[MT_TCP_REPLY_BYTES];
    struct mt_tcp_reply reply = {.size = (uint32_t)door->place->size};
    *in = false;
    *hello = (struct mt_tcp_hello){0};
    ssize_t came =
        recv(caller->socket, caller->bytes + caller->got, sizeof caller->bytes - caller->got, MSG_DONTWAIT);
    if (came < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (came > 0) caller->got += (size_t)came;
    if (came > 0 && caller->got < sizeof caller->bytes) return false;
    bool known = came > 0 && mt_tcp_read_hello(&caller->secret, caller->bytes, hello);
    reply.verdict = known ? judge_hello(door, hello, judge, self) : MT_TCP_OTHER_TOKEN;
    if (known && reply.verdict != MT_TCP_WELCOME) note_refusal(door, hello, reply.verdict);
    memcpy(reply.build, door->place->build, sizeof reply.build);
    mt_tcp_write_reply(&caller->secret, hello->nonce, &reply, bytes);
    bool sent =
        came > 0 && send(caller->socket, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof bytes;
    *in = known && sent && reply.verdict == MT_TCP_WELCOME;
    return true;
}

int mt_door_answer(struct mt_door *door, const struct pollfd *events, mt_door_judge judge, void *self,
                   struct mt_tcp_hello *hello)
{
    double now = mt_clock_seconds();
    for (int i = 0; i < MT_DOOR_CALLERS; i++) {
        struct mt_caller *caller = &door->callers[i];
        bool in = false;
        if (caller->socket < 0) continue;
        bool over = events[1 + i].revents != 0 && mt_door_hear(door, caller, judge, self, hello, &in);
        if (in) {
            int socket = caller->socket;
            caller->socket = -1;
            return socket;
        }
        if (over || now >= caller->until) send_away(door, caller);
    }
    return (events[0].revents & POLLIN) == 0 || take_callers(door) ? -1 : -2;
}
