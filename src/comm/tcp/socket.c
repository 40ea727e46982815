/* Sockets with time limits. */
#define _GNU_SOURCE // accept4
#include "comm/tcp/socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define BACKLOG 1024 // the system has a limit of its own

int mt_socket_milliseconds(double until, int most)
{
    double rest = (until - mt_clock_seconds()) * 1000.0;
    if (rest < 0.0) return 0;
    return rest < (double)most ? (int)rest + 1 : most;
}

// ------------------------------------------------------------------ addresses

/* What the kernel has for one of ours; returns its length. */
static socklen_t to_system(const struct mt_socket_address *address, struct sockaddr_storage *system)
{
    memset(system, 0, sizeof *system);
    if (IN6_IS_ADDR_V4MAPPED(&address->ip)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)system;
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)address->port);
        memcpy(&v4->sin_addr, address->ip.s6_addr + 12, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)system;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)address->port);
    v6->sin6_addr = address->ip;
    return sizeof *v6;
}

static bool from_system(const struct sockaddr *system, struct mt_socket_address *address)
{
    memset(address, 0, sizeof *address);
    if (system->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)system;
        memset(address->ip.s6_addr + 10, 0xff, 2);
        memcpy(address->ip.s6_addr + 12, &v4->sin_addr, 4);
        address->port = ntohs(v4->sin_port);
        return true;
    }
    if (system->sa_family != AF_INET6) return false;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)system;
    address->ip = v6->sin6_addr;
    address->port = ntohs(v6->sin6_port);
    return true;
}

bool mt_socket_is_loopback(const struct mt_socket_address *address)
{
    if (IN6_IS_ADDR_V4MAPPED(&address->ip)) return address->ip.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&address->ip);
}

int mt_socket_resolve(const char *host, int port, struct mt_socket_address *addresses, int most)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int count = 0;
    if (getaddrinfo(host, NULL, &hints, &found) != 0) return 0;
    for (const struct addrinfo *one = found; one != NULL && count < most; one = one->ai_next) {
        if (!from_system(one->ai_addr, &addresses[count])) continue;
        addresses[count].port = port;
        count++;
    }
    freeaddrinfo(found);
    return count;
}

bool mt_socket_peer(int socket, struct mt_socket_address *address)
{
    struct sockaddr_storage system;
    socklen_t length = sizeof system;
    return getpeername(socket, (struct sockaddr *)&system, &length) == 0 &&
           from_system((struct sockaddr *)&system, address);
}

int mt_socket_port(int socket)
{
    struct sockaddr_storage system;
    struct mt_socket_address address = {0};
    socklen_t length = sizeof system;
    if (getsockname(socket, (struct sockaddr *)&system, &length) != 0) return 0;
    return from_system((struct sockaddr *)&system, &address) ? address.port : 0;
}

// ------------------------------------------------------------------ listening and connecting

static void close_quietly(int socket)
{
    int error = errno;
    (void)close(socket);
    errno = error;
}

/* Small messages go at once. */
static void hurry(int socket)
{
    const int yes = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static int listen_at(const struct mt_socket_address *address)
{
    const int yes = 1;
    const int no = 0;
    struct sockaddr_storage system;
    socklen_t length = to_system(address, &system);
    int made = socket(system.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return -1;
    (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); // of a job that has just ended
    if (system.ss_family == AF_INET6) (void)setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(made, (struct sockaddr *)&system, length) == 0 && listen(made, BACKLOG) == 0) return made;
    close_quietly(made);
    return -1;
}

int mt_socket_listen(const struct mt_tcp_place *place, int port)
{
    enum { MOST = 8 };
    struct mt_socket_address at[MOST] = {{.ip = in6addr_any, .port = port}, {.port = port}};
    int count = 2; // the second: IPv4's, for a system without IPv6
    memset(at[1].ip.s6_addr + 10, 0xff, 2);
    if (place->loopback) count = mt_socket_resolve(place->host, port, at, MOST);
    int made = -1;
    errno = EADDRNOTAVAIL;
    for (int i = 0; i < count && made < 0; i++) {
        made = listen_at(&at[i]);
        if (made < 0 && errno == EADDRINUSE) return -1; // ranks would meet somebody else there
    }
    return made;
}

int mt_socket_accept(int listener)
{
    int made = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made >= 0) hurry(made);
    return made;
}

/* Until something can be read or written there. */
static enum mt_socket_end await(int socket, short events, double until)
{
    struct pollfd one = {.fd = socket, .events = events};
    for (;;) {
        int ready = poll(&one, 1, mt_socket_milliseconds(until, 1000));
        if (ready > 0) return MT_SOCKET_DONE;
        if (ready < 0 && errno != EINTR) return MT_SOCKET_BROKEN;
        if (mt_clock_seconds() >= until) return MT_SOCKET_LATE;
    }
}

enum mt_socket_end mt_socket_connect(const struct mt_socket_address *address, double until, int *socket_made)
{
    struct sockaddr_storage system;
    socklen_t length = to_system(address, &system);
    int error = 0;
    socklen_t error_bytes = sizeof error;
    enum mt_socket_end end = MT_SOCKET_DONE;
    *socket_made = -1;
    int made = socket(system.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return errno == EAFNOSUPPORT ? MT_SOCKET_ENDED : MT_SOCKET_BROKEN;
    if (connect(made, (struct sockaddr *)&system, length) != 0) {
        if (errno == EINPROGRESS || errno == EINTR) {
            end = await(made, POLLOUT, until);
            if (end == MT_SOCKET_DONE && getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0)
                error = errno;
        } else {
            error = errno;
        }
    }
    if (error != 0) {
        errno = error;
        end = MT_SOCKET_ENDED;
    }
    if (end != MT_SOCKET_DONE) {
        close_quietly(made);
        return end;
    }
    hurry(made);
    *socket_made = made;
    return MT_SOCKET_DONE;
}

// ------------------------------------------------------------------ bytes

enum mt_socket_end mt_socket_send(int socket, const void *data, size_t bytes, double until)
{
    const unsigned char *next = data;
    while (bytes > 0) {
        ssize_t sent = send(socket, next, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            next += sent;
            bytes -= (size_t)sent;
        } else if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            enum mt_socket_end end = await(socket, POLLOUT, until);
            if (end != MT_SOCKET_DONE) return end;
        } else {
            return MT_SOCKET_ENDED;
        }
    }
    return MT_SOCKET_DONE;
}

enum mt_socket_end mt_socket_receive(int socket, void *data, size_t bytes, double until)
{
    unsigned char *next = data;
    while (bytes > 0) {
        ssize_t came = recv(socket, next, bytes, 0);
        if (came > 0) {
            next += came;
            bytes -= (size_t)came;
        } else if (came < 0 && (errno == EAGAIN || errno == EINTR)) {
            enum mt_socket_end end = await(socket, POLLIN, until);
            if (end != MT_SOCKET_DONE) return end;
        } else {
            if (came == 0) errno = ECONNRESET;
            return MT_SOCKET_ENDED;
        }
    }
    return MT_SOCKET_DONE;
}
