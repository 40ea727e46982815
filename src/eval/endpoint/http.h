/*
 * Many POST requests to one endpoint, a few at a time, until each has its reply or the endpoint is given up.
 *
 * 408, 429, 5xx, timeouts and broken connections are tried again after 1, 2, 4, ... times `backoff` seconds,
 * or what Retry-After says if that is longer; at most MT_HTTP_LONGEST_PAUSE. When the tries are spent, and on
 * a refused key, an unknown path, a redirection or a certificate that does not hold, everything stops: the
 * next request would fare no better. Other refusals (400, a reply or header that is too long) concern one
 * request alone.
 *
 * TLS is verified, redirections are not followed, plain http goes to this machine only unless allowed, and
 * never through a proxy. A build without libcurl refuses with a sentence.
 */
#ifndef MT_EVAL_HTTP_H
#define MT_EVAL_HTTP_H

#include <stdbool.h>

#include "formats/text/lists.h"

#define MT_HTTP_MOST_PARALLEL 256
#define MT_HTTP_LONGEST_PAUSE 120.0 // seconds
#define MT_HTTP_MOST_BYTES    ((size_t)4 << 20)
#define MT_HTTP_PLACE_BYTES   512

#define MT_HTTP_CHAT          "chat/completions" // the two paths of an OpenAI-compatible endpoint
#define MT_HTTP_COMPLETION    "completions"

struct mt_http_options {
    const char *endpoint; // "https://host", "https://host/v1", or the whole path of either request
    const char *path;     // MT_HTTP_CHAT or MT_HTTP_COMPLETION; NULL: the former
    const char *key;      // goes into the header Authorization, and nowhere else; NULL: none
    bool insecure_http;
    int parallel;   // 1 to MT_HTTP_MOST_PARALLEL
    double timeout; // seconds for one request
    int retries;
    double backoff;    // seconds before the first retry
    size_t most_bytes; // of a reply; 0: MT_HTTP_MOST_BYTES
};

struct mt_http_work {
    size_t count;
    void *self;
    /* Appends the body of a request. It is asked for again when the request is tried again. */
    enum mt_status (*request)(void *self, size_t index, struct mt_byte_list *body);
    /* A reply with status 200. */
    enum mt_status (*reply)(void *self, size_t index, const struct mt_byte_list *body);
    /* This request got nowhere, the others may; `why` is a line for people, the key is not in it. */
    enum mt_status (*refused)(void *self, size_t index, const char *why);
    /* Asked several times a second. False: come back now, MT_OK, whatever is under way. NULL: go on. */
    bool (*go_on)(void *self);
};

/*
 * Refuses an endpoint or a key that cannot be used, before anything is sent. `place` (may be NULL) becomes
 * where requests will go, for people: scheme, host, port and path, without a query, which may hold a secret.
 */
enum mt_status mt_http_check(struct mt_context *ctx, const struct mt_http_options *options,
                             char place[MT_HTTP_PLACE_BYTES]);

/* MT_OK also when go_on ended it early. */
enum mt_status mt_http_post_all(struct mt_context *ctx, const struct mt_http_options *options,
                                const struct mt_http_work *work);

#endif
