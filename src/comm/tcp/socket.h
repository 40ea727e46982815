/* Sockets that never wait longer than until a moment of mt_clock_seconds. All are close-on-exec. */
#ifndef MT_COMM_TCP_SOCKET_H
#define MT_COMM_TCP_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "comm/tcp/place.h"

enum mt_socket_end {
    MT_SOCKET_DONE,
    MT_SOCKET_LATE,   // the moment has come
    MT_SOCKET_ENDED,  // the other side has closed, or the network failed
    MT_SOCKET_BROKEN, // no memory, no descriptor: errno says
};

/* Address of a rank, of either family: IPv4 in IPv6's form. */
struct mt_socket_address {
    struct in6_addr ip;
    int port;
};

bool mt_socket_is_loopback(const struct mt_socket_address *address);

/*
 * Listens at rank 0's port (of every interface; of the loopback's alone where the place is that), or at any
 * that is free (port 0). The caller closes. -1: errno says why.
 */
int mt_socket_listen(const struct mt_tcp_place *place, int port);
int mt_socket_port(int socket);

/* Of the other end, or of our own. False: it is gone. */
bool mt_socket_peer(int socket, struct mt_socket_address *address);

/* The next connection there is, without waiting; -1: none, errno says why. The caller closes. */
int mt_socket_accept(int listener);

/* *socket: connected; the caller closes. */
enum mt_socket_end mt_socket_connect(const struct mt_socket_address *address, double until, int *socket);

/* All addresses of a name, at most `most`; returns how many. */
int mt_socket_resolve(const char *host, int port, struct mt_socket_address *addresses, int most);

enum mt_socket_end mt_socket_send(int socket, const void *data, size_t bytes, double until);
enum mt_socket_end mt_socket_receive(int socket, void *data, size_t bytes, double until);

/* Milliseconds for poll: until a moment, not negative, at most `most`. */
int mt_socket_milliseconds(double until, int most);

#endif
