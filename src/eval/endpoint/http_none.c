/* In place of http.c where libcurl is not installed. */
#include "eval/endpoint/http.h"

static enum mt_status refuse(struct mt_context *ctx)
{
    return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                   "this metier was built without libcurl and cannot ask an endpoint; install "
                   "libcurl4-openssl-dev and build again");
}

enum mt_status mt_http_check(struct mt_context *ctx, const struct mt_http_options *options,
                             char place[MT_HTTP_PLACE_BYTES])
{
    (void)options;
    (void)place;
    return refuse(ctx);
}

enum mt_status mt_http_post_all(struct mt_context *ctx, const struct mt_http_options *options,
                                const struct mt_http_work *work)
{
    (void)options;
    (void)work;
    return refuse(ctx);
}
