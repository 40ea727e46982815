/* What verbs that ask an endpoint share: their options' values, and the client's settings made of them. */
#ifndef MT_CLI_ENDPOINT_H
#define MT_CLI_ENDPOINT_H

#include "eval/endpoint/http.h"

#define CLI_KEY_NAME "OPENAI_API_KEY"

struct cli_endpoint {
    const char *url;     // --endpoint; NULL: not given
    const char *key_env; // --key-env; NULL: CLI_KEY_NAME, if set
    int64_t retries;
    double timeout, backoff; // seconds
    bool insecure_http;
};

/* Refuses what makes no sense. The key is borrowed from the environment. */
enum mt_status cli_endpoint_http(struct mt_context *ctx, const struct cli_endpoint *endpoint,
                                 int64_t parallel, struct mt_http_options *http);

#endif
