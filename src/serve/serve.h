/*
 * A server of models over HTTP: OpenAI's API, adapters that come and go, metrics, and the experts each token
 * used (docs/serving.md). One thread computes; a step of the engine serves all requests of a model at once,
 * and of several models each has its step in turn.
 */
#ifndef MT_SERVE_SERVE_H
#define MT_SERVE_SERVE_H

#include "base/interrupt.h"
#include "base/log.h"
#include "serve/http.h"
#include "serve/served_model.h"

/* A model to begin with. */
struct mt_serve_model {
    const char *name, *directory;
    const char *adapter; // NULL: the model as it is
    const char *base;    // of an adapter: the name of its model
};

/* Everything is borrowed. */
struct mt_serve_options {
    struct mt_http_server_options http;
    struct mt_model_opener opener;
    const struct mt_serve_model *models; // [count]; the first answers requests that name none
    size_t count;
    const char *adapters;   // folder that adapters may be loaded from by request; NULL: none may
    double request_seconds; // a request that takes longer is given up; 0: never
    size_t most_bytes;      // that the texts and answers of all requests may take; 0: no limit
    double grace_seconds;   // that requests have to end in when the server is told to stop
    const char *page;       // [page_bytes]: what GET / shows; NULL: nothing
    size_t page_bytes;
    const struct mt_log *log;
    void *self; // handed to:
    void (*ready)(void *self, int port);
};

/* Serves until a signal comes. */
enum mt_status mt_serve(struct mt_context *ctx, const struct mt_serve_options *options,
                        const struct mt_interrupt *interrupt);

#endif
