/*
 * Requests over HTTP, handed to one worker: a thread of the library's (libmicrohttpd) takes requests whole
 * and sends answers; the worker asks for the next request, answers it at once or piece by piece, and never
 * waits for a client. What is written for a slow client is kept until it reads on, which is bounded by what
 * the worker writes.
 *
 * Before the worker sees a request it has a known method, a Host this server answers to and, where it comes
 * from a page, that page's Origin (a page of another site, or a name that was pointed here, gets nothing),
 * the key if one is asked for, and a body that is not too long. GET /health is answered here, so it does not
 * wait for the worker.
 *
 * A build without libmicrohttpd refuses to open with a sentence.
 */
#ifndef MT_SERVE_HTTP_H
#define MT_SERVE_HTTP_H

#include <stdbool.h>

#include "formats/text/lists.h"

#define MT_HTTP_SERVER_ADDRESS "127.0.0.1"

struct mt_http_server_options {
    const char *address;      // numeric; borrowed. NULL: MT_HTTP_SERVER_ADDRESS
    int port;                 // 0: any that is free
    const char *key;          // that "Authorization: Bearer" has to bring; borrowed. NULL: none
    const char *const *hosts; // names, besides the address and localhost, that clients may call it by;
                              // borrowed; NULL-terminated; NULL: none
    size_t most_body;         // bytes of a request's body
    size_t most_bytes;        // of all bodies and answers that are kept together; 0: no limit
    int most_waiting;         // requests that the worker has not yet answered; others get 503
    int most_connections;
    int idle_seconds; // a connection that says nothing for so long is closed
};

struct mt_http_server; // opaque
struct mt_exchange;    // opaque: a request and its answer

/* Listens. Signals should be blocked, or they may be taken by the server's thread. The caller closes. */
enum mt_status mt_http_server_open(struct mt_context *ctx, const struct mt_http_server_options *options,
                                   struct mt_http_server **server);

/* Nobody may hold an exchange any more. NULL is allowed. */
void mt_http_server_close(struct mt_http_server *server);

int mt_http_server_port(const struct mt_http_server *server);

/* From now on new requests get 503, and /health says so. */
void mt_http_server_drain(struct mt_http_server *server);

/* True while clients still have something to read. */
bool mt_http_server_is_sending(struct mt_http_server *server);

/* The next request; NULL: none came within so many milliseconds. The worker answers every one it takes. */
struct mt_exchange *mt_http_server_next(struct mt_http_server *server, int milliseconds);

// ------------------------------------------------------------------ the worker's side of a request

const char *mt_exchange_method(const struct mt_exchange *exchange); // "GET", "POST", "DELETE"
const char *mt_exchange_path(const struct mt_exchange *exchange);   // without a query
const void *mt_exchange_body(const struct mt_exchange *exchange, size_t *bytes);

/* Bytes of an answer in pieces that its client has not taken. */
size_t mt_exchange_unread(struct mt_exchange *exchange);

/* True when nobody reads the answer any more. */
bool mt_exchange_is_gone(struct mt_exchange *exchange);

/* A whole answer. The exchange is the server's again, also after a failure. */
enum mt_status mt_exchange_answer(struct mt_exchange *exchange, int code, const char *type, const void *body,
                                  size_t bytes);

/* An answer that comes in pieces: begin, any number of writes, end. After the end the exchange is the
 * server's again. */
enum mt_status mt_exchange_begin(struct mt_exchange *exchange, const char *type);
enum mt_status mt_exchange_write(struct mt_exchange *exchange, const void *bytes, size_t count);
void mt_exchange_end(struct mt_exchange *exchange);

#endif
