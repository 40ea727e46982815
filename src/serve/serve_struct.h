/* Inside the server. For src/serve/serve.c and the answers that are no text (routes.c). */
#ifndef MT_SERVE_SERVE_STRUCT_H
#define MT_SERVE_SERVE_STRUCT_H

#include "serve/ask.h"
#include "serve/serve.h"

struct mt_serving {
    struct mt_context *ctx;     // borrowed
    struct mt_context requests; // of what asks hold, with a limit
    const struct mt_serve_options *options;
    struct mt_http_server *server;
    struct mt_served_models models;
    struct mt_ask *first; // asks at work; those whose turn it is first
    uint64_t asks;        // that came so far
    uint64_t refused;
    double looked; // for clients that have hung up, at mt_clock_seconds
};

/* What a route writes. */
struct mt_reply {
    int code;         // 200 beforehand
    const char *type; // "application/json"
    struct mt_json_text text;
    const char *raw; // [raw_bytes], borrowed: written instead of the text; NULL: the text is
    size_t raw_bytes;
};

/* A route but those of text: reads the body, fills the reply. A failure is what was wrong with the request.
 */
struct mt_route {
    const char *method, *path;
    enum mt_status (*answer)(struct mt_serving *serving, const void *body, size_t bytes,
                             struct mt_reply *reply);
};

/* The route of a request; NULL: there is none. *path_known: there is one with another method. */
const struct mt_route *mt_route_find(const char *method, const char *path, bool *path_known);

#endif
