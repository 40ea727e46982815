/* The settings of a client out of a verb's options. */
#include "cli/shared/endpoint.h"

#include <stdlib.h>

#include "cli/cli.h"

enum mt_status cli_endpoint_http(struct mt_context *ctx, const struct cli_endpoint *endpoint,
                                 int64_t parallel, struct mt_http_options *http)
{
    const struct cli_limit limit = {"--retries", endpoint->retries, 0, 100};
    enum mt_status status = cli_check_limits(ctx, &limit, 1);
    if (status != MT_OK) return status;
    if (endpoint->key_env != NULL && getenv(endpoint->key_env) == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "$%s is not set", endpoint->key_env);
    *http =
        (struct mt_http_options){.endpoint = endpoint->url,
                                 .key = getenv(endpoint->key_env != NULL ? endpoint->key_env : CLI_KEY_NAME),
                                 .insecure_http = endpoint->insecure_http,
                                 .parallel = (int)parallel,
                                 .timeout = endpoint->timeout,
                                 .retries = (int)endpoint->retries,
                                 .backoff = endpoint->backoff};
    return MT_OK;
}
