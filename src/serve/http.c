/* Requests over HTTP: one thread of libmicrohttpd's, one worker, and a lock between them. */
#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#define ADDRESS_BYTES 64
#define HOST_BYTES    280
#define PIECE_BYTES   16384 // of an answer, that the library asks for at a time
#define MEMORY_BYTES  65536 // of a connection: its headers have to fit

enum exchange_state {
    EXCHANGE_READING, // its body comes in
    EXCHANGE_WAITING, // in line for the worker
    EXCHANGE_TAKEN,   // the worker has it
    EXCHANGE_DONE,    // the worker is through with it
};

/*
 * Everything but `method`, `path` and a body that is whole is guarded by the server's lock. It goes when the
 * connection is through with it and the worker is.
 */
struct mt_exchange {
    struct mt_http_server *server;
    struct mt_exchange *next; // in line
    struct MHD_Connection *connection;
    enum exchange_state state;
    char method[8];
    char path[128];
    struct mt_byte_list body;
    size_t received; // bytes of a body, kept or not
    int refused;     // a status of ours; 0: none
    const char *why;
    // the answer
    int code; // 0: none yet
    const char *type;
    struct mt_byte_list out;
    size_t sent;
    bool pieces;    // more may come until `done`
    bool suspended; // the connection waits for the worker
    bool gone;      // the connection is over
};

struct mt_http_server {
    struct mt_context *owner; // whose the server is: for opening and closing alone
    struct mt_context ctx;    // of all exchanges; used under the lock
    struct mt_http_server_options options;
    char address[ADDRESS_BYTES];
    struct MHD_Daemon *daemon;
    int port;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct mt_exchange *first, **last; // the line
    int waiting;                       // exchanges the worker has not answered whole
    int sending;                       // exchanges whose connection is not over
    bool draining;
};

// ------------------------------------------------------------------ who may ask

/* Compares without telling by its time how much is right. */
static bool same_secret(const char *given, const char *expected)
{
    size_t bytes = strlen(expected);
    size_t others = strlen(given);
    unsigned different = bytes != others;
    for (size_t i = 0; i < bytes; i++)
        different |= (unsigned char)expected[i] ^ (unsigned char)given[others > 0 ? i % others : 0];
    return different == 0;
}

static bool has_key(const struct mt_http_server *server, struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    if (server->options.key == NULL) return true;
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (given == NULL || strncasecmp(given, scheme, sizeof scheme - 1) != 0) return false;
    return same_secret(given + sizeof scheme - 1, server->options.key);
}

/* The name in "name", "name:8000" or "[::1]:8000"; false: it is none of these. */
static bool host_name(const char *text, char name[HOST_BYTES])
{
    const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');
    if (text[0] == '[') {
        if (end == NULL) return false;
        text++;
    }
    size_t bytes = end != NULL ? (size_t)(end - text) : strlen(text);
    if (bytes == 0 || bytes >= HOST_BYTES) return false;
    memcpy(name, text, bytes);
    name[bytes] = '\0';
    return true;
}

static bool is_ours(const struct mt_http_server *server, const char *host)
{
    char name[HOST_BYTES];
    if (!host_name(host, name)) return false;
    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0 ||
        strcasecmp(name, server->address) == 0)
        return true;
    for (const char *const *known = server->options.hosts; known != NULL && *known != NULL; known++) {
        if (strcasecmp(name, *known) == 0) return true;
    }
    return false;
}

/* A page sends its origin, "http://host:port": it has to be the server's own, by the name it was called. */
static bool is_own_page(const char *origin, const char *host)
{
    const char *rest = strstr(origin, "://");
    return rest != NULL && strcasecmp(rest + 3, host) == 0;
}

/* The status and reason of a refusal; 0: it may ask. */
static int refusal(struct mt_exchange *exchange, const char **why)
{
    struct mt_http_server *server = exchange->server;
    struct MHD_Connection *connection = exchange->connection;
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    *why = "";
    if (host == NULL || !is_ours(server, host)) {
        *why = "this server does not answer to that Host; --host NAME adds one";
        return MHD_HTTP_FORBIDDEN;
    }
    if (origin != NULL && !is_own_page(origin, host)) {
        *why = "pages of other origins get no answer";
        return MHD_HTTP_FORBIDDEN;
    }
    bool open = strcmp(exchange->path, "/") == 0 || strcmp(exchange->path, "/health") == 0;
    if (!open && !has_key(server, connection)) {
        *why = "the key is missing or wrong: send it as Authorization: Bearer KEY";
        return MHD_HTTP_UNAUTHORIZED;
    }
    return 0;
}

// ------------------------------------------------------------------ answers

/* Frees an exchange that nobody has any more. Under the lock. */
static void forget(struct mt_exchange *exchange)
{
    struct mt_http_server *server = exchange->server;
    bool worker = exchange->state == EXCHANGE_WAITING || exchange->state == EXCHANGE_TAKEN;
    if (!exchange->gone || worker) return;
    mt_byte_list_free(&exchange->body);
    mt_byte_list_free(&exchange->out);
    mt_release(&server->ctx, exchange, sizeof *exchange);
}

/* What comes next of an answer in pieces. Where there is nothing yet, the connection sleeps. */
static ssize_t read_piece(void *self, uint64_t position, char *to, size_t room)
{
    (void)position;
    struct mt_exchange *exchange = self;
    struct mt_http_server *server = exchange->server;
    pthread_mutex_lock(&server->lock);
    size_t left = exchange->out.count - exchange->sent;
    ssize_t count = (ssize_t)(left < room ? left : room);
    if (count > 0) memcpy(to, exchange->out.data + exchange->sent, (size_t)count);
    exchange->sent += (size_t)count;
    if (exchange->sent == exchange->out.count) exchange->sent = exchange->out.count = 0;
    if (count == 0 && exchange->state == EXCHANGE_DONE) {
        count = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (count == 0) {
        exchange->suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&server->lock);
    return count;
}

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned code, const char *type,
                             struct MHD_Response *response)
{
    if (response == NULL) return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", type);
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(
        response, "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; frame-ancestors 'none'");
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result say(struct MHD_Connection *connection, int code, const char *text)
{
    char body[512];
    (void)snprintf(body, sizeof body, "{\"error\": {\"message\": \"%s\", \"code\": %d}}\n", text, code);
    return queue(connection, (unsigned)code, "application/json",
                 MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_COPY));
}

/* Hands the worker's answer to the library. Not under the lock: the library calls read_piece, which takes it,
 * under a lock of the response's. The worker changes no more of what is read here. */
static enum MHD_Result send_answer(struct mt_exchange *exchange)
{
    struct MHD_Response *response =
        exchange->pieces
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, read_piece, exchange, NULL)
            : MHD_create_response_from_buffer(exchange->out.count, exchange->out.data, MHD_RESPMEM_MUST_COPY);
    return queue(exchange->connection, (unsigned)exchange->code, exchange->type, response);
}

static enum MHD_Result say_health(struct mt_http_server *server, struct MHD_Connection *connection)
{
    if (server->draining) return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping");
    static char body[] = "{\"status\": \"ok\"}\n";
    return queue(connection, MHD_HTTP_OK, "application/json",
                 MHD_create_response_from_buffer(sizeof body - 1, body, MHD_RESPMEM_PERSISTENT));
}

// ------------------------------------------------------------------ requests

/* A request whose headers are there. NULL: no memory. */
static struct mt_exchange *begin(struct mt_http_server *server, struct MHD_Connection *connection,
                                 const char *path, const char *method)
{
    void *memory = NULL;
    if (mt_allocate_array(&server->ctx, 1, sizeof(struct mt_exchange), &memory) != MT_OK) return NULL;
    struct mt_exchange *exchange = memory;
    exchange->server = server;
    exchange->connection = connection;
    exchange->body.ctx = &server->ctx;
    exchange->out.ctx = &server->ctx;
    server->sending++;
    bool known = strcmp(method, "GET") == 0 || strcmp(method, "POST") == 0 || strcmp(method, "DELETE") == 0;
    (void)snprintf(exchange->method, sizeof exchange->method, "%s", known ? method : "");
    (void)snprintf(exchange->path, sizeof exchange->path, "%s",
                   strlen(path) < sizeof exchange->path ? path : "");
    exchange->refused = refusal(exchange, &exchange->why);
    if (exchange->refused == 0 && !known) {
        exchange->refused = MHD_HTTP_METHOD_NOT_ALLOWED;
        exchange->why = "this method is not known";
    }
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    if (exchange->refused == 0 && length != NULL && strtoull(length, NULL, 10) > server->options.most_body) {
        exchange->refused = MHD_HTTP_CONTENT_TOO_LARGE;
        exchange->why = "the body is too long";
    }
    return exchange;
}

/* One more piece. False: the client sends on and on what nobody will read. */
static bool take_body(struct mt_exchange *exchange, const char *data, size_t bytes)
{
    const struct mt_http_server *server = exchange->server;
    exchange->received += bytes;
    if (exchange->refused != 0) return exchange->received <= 2 * server->options.most_body;
    if (exchange->body.count + bytes > server->options.most_body) {
        exchange->refused = MHD_HTTP_CONTENT_TOO_LARGE;
        exchange->why = "the body is too long";
    } else if (mt_byte_list_append(&exchange->body, data, bytes) != MT_OK) {
        exchange->refused = MHD_HTTP_SERVICE_UNAVAILABLE;
        exchange->why = "no memory is left for the body";
    }
    if (exchange->refused != 0) mt_byte_list_free(&exchange->body);
    return true;
}

/* The request is whole: it goes to the worker, and the connection sleeps. */
static enum MHD_Result submit(struct mt_exchange *exchange)
{
    struct mt_http_server *server = exchange->server;
    struct MHD_Connection *connection = exchange->connection;
    if (exchange->refused != 0) return say(connection, exchange->refused, exchange->why);
    if (strcmp(exchange->path, "/health") == 0) return say_health(server, connection);
    if (server->draining) return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping");
    if (server->waiting >= server->options.most_waiting)
        return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests wait; try again later");
    exchange->state = EXCHANGE_WAITING;
    exchange->suspended = true;
    MHD_suspend_connection(connection);
    exchange->next = NULL;
    *server->last = exchange;
    server->last = &exchange->next;
    server->waiting++;
    pthread_cond_signal(&server->arrived);
    return MHD_YES;
}

/* Called by the library for the headers, for each piece of the body, at its end, and after a sleep. */
static enum MHD_Result handle(void *self, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data, size_t *bytes,
                              void **kept)
{
    (void)version;
    struct mt_http_server *server = self;
    struct mt_exchange *exchange = *kept;
    enum MHD_Result result = MHD_YES;
    bool answered = false;
    pthread_mutex_lock(&server->lock);
    if (exchange == NULL) {
        exchange = begin(server, connection, url, method);
        *kept = exchange;
        if (exchange == NULL) {
            result = MHD_NO;
        } else if (exchange->refused != 0) {
            result = say(connection, exchange->refused, exchange->why); // before any body
        }
    } else if (*bytes > 0) {
        if (!take_body(exchange, data, *bytes)) result = MHD_NO;
        *bytes = 0;
    } else if (exchange->state == EXCHANGE_READING) {
        result = submit(exchange);
    } else {
        answered = exchange->code != 0;
    }
    pthread_mutex_unlock(&server->lock);
    return answered ? send_answer(exchange) : result;
}

/* The connection is through with the exchange, or broken. */
static void complete(void *self, struct MHD_Connection *connection, void **kept,
                     enum MHD_RequestTerminationCode why)
{
    (void)connection;
    (void)why;
    struct mt_http_server *server = self;
    struct mt_exchange *exchange = *kept;
    if (exchange == NULL) return;
    pthread_mutex_lock(&server->lock);
    exchange->gone = true;
    server->sending--;
    forget(exchange);
    pthread_mutex_unlock(&server->lock);
    *kept = NULL;
}

// ------------------------------------------------------------------ open and close

/* The address in numbers; false: it is none. */
static bool read_address(const struct mt_http_server *server, struct sockaddr_storage *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->options.port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)server->options.port)};
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, server->address, &v4.sin_addr) == 1) {
        memcpy(address, &v4, sizeof v4);
        return true;
    }
    if (inet_pton(AF_INET6, server->address, &v6.sin6_addr) != 1) return false;
    memcpy(address, &v6, sizeof v6);
    return true;
}

static enum mt_status listen_on(struct mt_http_server *server)
{
    struct sockaddr_storage address;
    if (!read_address(server, &address))
        return mt_fail(server->owner, MT_ERR_USAGE, "'%s' is not a numeric address, such as 127.0.0.1 or ::1",
                       server->address);
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_ALLOW_SUSPEND_RESUME;
    if (address.ss_family == AF_INET6) flags |= MHD_USE_IPv6;
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags, (uint16_t)server->options.port, NULL, NULL, handle, server, MHD_OPTION_NOTIFY_COMPLETED,
        complete, server, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)server->options.most_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)server->options.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
    if (server->daemon == NULL)
        return mt_fail(server->owner, MT_ERR_IO, "cannot listen on %s, port %d: %s", server->address,
                       server->options.port, errno != 0 ? strerror(errno) : "no reason was given");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    server->port = info != NULL ? info->port : server->options.port;
    return MT_OK;
}

enum mt_status mt_http_server_open(struct mt_context *ctx, const struct mt_http_server_options *options,
                                   struct mt_http_server **server)
{
    void *memory = NULL;
    *server = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **server, &memory);
    if (status != MT_OK) return status;
    struct mt_http_server *made = memory;
    made->owner = ctx;
    made->options = *options;
    mt_context_init(&made->ctx, &ctx->allocator);
    made->ctx.limit_bytes = options->most_bytes;
    (void)snprintf(made->address, sizeof made->address, "%s",
                   options->address != NULL ? options->address : MT_HTTP_SERVER_ADDRESS);
    made->last = &made->first;
    (void)pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t clock;
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&made->arrived, &clock);
    (void)pthread_condattr_destroy(&clock);
    status = listen_on(made);
    if (status != MT_OK) {
        mt_http_server_close(made);
        return status;
    }
    *server = made;
    return MT_OK;
}

void mt_http_server_close(struct mt_http_server *server)
{
    if (server == NULL) return;
    pthread_mutex_lock(&server->lock);
    server->draining = true;
    // What nobody took is answered by nobody: its connections are woken, and end.
    while (server->first != NULL) {
        struct mt_exchange *exchange = server->first;
        server->first = exchange->next;
        exchange->state = EXCHANGE_DONE;
        exchange->code = MHD_HTTP_SERVICE_UNAVAILABLE;
        exchange->type = "application/json";
        if (exchange->suspended && !exchange->gone) MHD_resume_connection(exchange->connection);
        exchange->suspended = false;
        forget(exchange);
    }
    pthread_mutex_unlock(&server->lock);
    if (server->daemon != NULL) MHD_stop_daemon(server->daemon);
    (void)pthread_cond_destroy(&server->arrived);
    (void)pthread_mutex_destroy(&server->lock);
    mt_release(server->owner, server, sizeof *server);
}

int mt_http_server_port(const struct mt_http_server *server)
{
    return server->port;
}

void mt_http_server_drain(struct mt_http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->draining = true;
    pthread_mutex_unlock(&server->lock);
}

bool mt_http_server_is_sending(struct mt_http_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool sending = server->sending > 0;
    pthread_mutex_unlock(&server->lock);
    return sending;
}

// ------------------------------------------------------------------ the worker

struct mt_exchange *mt_http_server_next(struct mt_http_server *server, int milliseconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&server->lock);
    int late = 0;
    while (server->first == NULL && milliseconds > 0 && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&server->arrived, &server->lock, &until);
    struct mt_exchange *exchange = server->first;
    if (exchange != NULL) {
        server->first = exchange->next;
        if (server->first == NULL) server->last = &server->first;
        exchange->state = EXCHANGE_TAKEN;
    }
    pthread_mutex_unlock(&server->lock);
    return exchange;
}

const char *mt_exchange_method(const struct mt_exchange *exchange)
{
    return exchange->method;
}

const char *mt_exchange_path(const struct mt_exchange *exchange)
{
    return exchange->path;
}

const void *mt_exchange_body(const struct mt_exchange *exchange, size_t *bytes)
{
    *bytes = exchange->body.count;
    return exchange->body.data;
}

size_t mt_exchange_unread(struct mt_exchange *exchange)
{
    pthread_mutex_lock(&exchange->server->lock);
    size_t bytes = exchange->out.count - exchange->sent;
    pthread_mutex_unlock(&exchange->server->lock);
    return bytes;
}

/* The library does not look at a connection that sleeps: whether the client closed it is asked here. */
static bool has_hung_up(struct mt_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char byte = 0;
    if (info == NULL) return false;
    ssize_t count = recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool mt_exchange_is_gone(struct mt_exchange *exchange)
{
    pthread_mutex_lock(&exchange->server->lock);
    bool gone = exchange->gone || (exchange->suspended && has_hung_up(exchange));
    pthread_mutex_unlock(&exchange->server->lock);
    return gone;
}

/* Under the lock. */
static void wake(struct mt_exchange *exchange)
{
    if (!exchange->suspended || exchange->gone) return;
    exchange->suspended = false;
    MHD_resume_connection(exchange->connection);
}

/* The worker is through with it. Under the lock. */
static void give_back(struct mt_exchange *exchange)
{
    exchange->state = EXCHANGE_DONE;
    exchange->server->waiting--;
    wake(exchange);
    forget(exchange);
}

enum mt_status mt_exchange_answer(struct mt_exchange *exchange, int code, const char *type, const void *body,
                                  size_t bytes)
{
    struct mt_http_server *server = exchange->server;
    pthread_mutex_lock(&server->lock);
    exchange->code = code;
    exchange->type = type;
    enum mt_status status = exchange->gone ? MT_OK : mt_byte_list_append(&exchange->out, body, bytes);
    if (status != MT_OK) exchange->code = MHD_HTTP_SERVICE_UNAVAILABLE;
    give_back(exchange);
    pthread_mutex_unlock(&server->lock);
    return status == MT_OK ? MT_OK : mt_fail(server->owner, status, "no memory is left for an answer");
}

enum mt_status mt_exchange_begin(struct mt_exchange *exchange, const char *type)
{
    pthread_mutex_lock(&exchange->server->lock);
    exchange->code = MHD_HTTP_OK;
    exchange->type = type;
    exchange->pieces = true;
    wake(exchange);
    pthread_mutex_unlock(&exchange->server->lock);
    return MT_OK;
}

enum mt_status mt_exchange_write(struct mt_exchange *exchange, const void *bytes, size_t count)
{
    struct mt_http_server *server = exchange->server;
    pthread_mutex_lock(&server->lock);
    enum mt_status status = exchange->gone ? MT_OK : mt_byte_list_append(&exchange->out, bytes, count);
    wake(exchange);
    pthread_mutex_unlock(&server->lock);
    return status == MT_OK ? MT_OK : mt_fail(server->owner, status, "no memory is left for an answer");
}

void mt_exchange_end(struct mt_exchange *exchange)
{
    struct mt_http_server *server = exchange->server;
    pthread_mutex_lock(&server->lock);
    give_back(exchange);
    pthread_mutex_unlock(&server->lock);
}
