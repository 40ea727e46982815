/* The server's face in a build without libmicrohttpd: it does not open. */
#include "serve/http.h"

enum mt_status mt_http_server_open(struct mt_context *ctx, const struct mt_http_server_options *options,
                                   struct mt_http_server **server)
{
    (void)options;
    *server = NULL;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                   "this build cannot serve: libmicrohttpd was not there when it was compiled");
}

void mt_http_server_close(struct mt_http_server *server)
{
    (void)server;
}

// Without a server none of the following is ever called.

int mt_http_server_port(const struct mt_http_server *server)
{
    (void)server;
    return 0;
}

void mt_http_server_drain(struct mt_http_server *server)
{
    (void)server;
}

bool mt_http_server_is_sending(struct mt_http_server *server)
{
    (void)server;
    return false;
}

struct mt_exchange *mt_http_server_next(struct mt_http_server *server, int milliseconds)
{
    (void)server;
    (void)milliseconds;
    return NULL;
}

const char *mt_exchange_method(const struct mt_exchange *exchange)
{
    (void)exchange;
    return "";
}

const char *mt_exchange_path(const struct mt_exchange *exchange)
{
    (void)exchange;
    return "";
}

const void *mt_exchange_body(const struct mt_exchange *exchange, size_t *bytes)
{
    (void)exchange;
    *bytes = 0;
    return NULL;
}

bool mt_exchange_is_gone(struct mt_exchange *exchange)
{
    (void)exchange;
    return true;
}

enum mt_status mt_exchange_answer(struct mt_exchange *exchange, int code, const char *type, const void *body,
                                  size_t bytes)
{
    (void)exchange;
    (void)code;
    (void)type;
    (void)body;
    (void)bytes;
    return MT_OK;
}

enum mt_status mt_exchange_begin(struct mt_exchange *exchange, const char *type)
{
    (void)exchange;
    (void)type;
    return MT_OK;
}

enum mt_status mt_exchange_write(struct mt_exchange *exchange, const void *bytes, size_t count)
{
    (void)exchange;
    (void)bytes;
    (void)count;
    return MT_OK;
}

void mt_exchange_end(struct mt_exchange *exchange)
{
    (void)exchange;
}
