/* Requests over libcurl's multi interface. */
#include "eval/endpoint/http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/clock.h"
#include "eval/endpoint/chat_api.h"
#include "formats/text/printable.h"

#define MOST_KEY_BYTES    4096
#define POLL_MS           250
#define CONNECT_MS        30000L
#define WHY_BYTES         512
#define MOST_HEADER_BYTES ((size_t)64 << 10) // of a reply, all lines together
#define CURL_TOO_LARGE    100                // CURLE_TOO_LARGE, which libcurl has since 8.6

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_WAITING };

/* One of the requests under way. */
struct http_slot {
    CURL *easy;
    struct mt_byte_list body;
    struct mt_byte_list reply;
    enum slot_state state;
    size_t index;
    int tries;   // failed ones
    double due;  // of WAITING: when to try again
    size_t most; // bytes of a reply
    size_t header_bytes;
    bool too_long;
    enum mt_status status; // of taking the reply in
};

struct client {
    struct mt_context *ctx;
    const struct mt_http_options *options;
    const struct mt_http_work *work;
    CURLM *multi;
    struct curl_slist *headers;
    char *url;  // libcurl's
    char *host; // libcurl's; for messages: the URL may hold more than people should see
    bool plain; // http
    struct http_slot slots[MT_HTTP_MOST_PARALLEL];
    size_t next;
};

// ------------------------------------------------------------------ endpoints

static enum mt_status fail_memory(struct mt_context *ctx)
{
    return mt_fail(ctx, MT_ERR_MEMORY, "out of memory while preparing a request");
}

/* This machine and no other: by address, or the one name that means nothing else. */
static bool is_loopback(const char *host)
{
    struct in_addr address;
    if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
    return inet_pton(AF_INET, host, &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

/* Completes the path: the root and ".../v1" are short for the whole, and one request's path leads to the
 * other's. */
static enum mt_status complete_path(struct mt_context *ctx, CURLU *parts, const char *path,
                                    const char *wanted)
{
    static const char *const known[] = {"/" MT_HTTP_CHAT, "/" MT_HTTP_COMPLETION};
    char whole[2048];
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/') length--;
    const char *version = length == 0 ? "/v1" : "";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t end = strlen(known[i]);
        if (length < end || memcmp(path + length - end, known[i], end) != 0) continue;
        length -= end;
        break;
    }
    int written = snprintf(whole, sizeof whole, "%.*s%s/%s", (int)length, path, version,
                           wanted != NULL ? wanted : MT_HTTP_CHAT);
    if (written < 0 || (size_t)written >= sizeof whole)
        return mt_fail(ctx, MT_ERR_USAGE, "the endpoint's path is too long");
    return curl_url_set(parts, CURLUPART_PATH, whole, 0) == CURLUE_OK ? MT_OK : fail_memory(ctx);
}

static enum mt_status check_parts(struct client *client, CURLU *parts, const char *scheme)
{
    struct mt_context *ctx = client->ctx;
    char *user = NULL;
    char *path = NULL;
    client->plain = strcmp(scheme, "http") == 0;
    if (!client->plain && strcmp(scheme, "https") != 0)
        return mt_fail(ctx, MT_ERR_USAGE, "the endpoint's protocol is '%s', expected https or http",
                       mt_printable(scheme).text);
    if (curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK) {
        curl_free(user);
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "the endpoint's URL has a user name; put the key into an environment variable (--key-env)");
    }
    if (client->plain && !is_loopback(client->host) && !client->options->insecure_http)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "plain http to %s would send answers and key unprotected; use https, or "
                       "--insecure-http to allow it",
                       mt_printable(client->host).text);
    if (curl_url_get(parts, CURLUPART_PATH, &path, 0) != CURLUE_OK) return fail_memory(ctx);
    enum mt_status status = complete_path(ctx, parts, path, client->options->path);
    curl_free(path);
    if (status == MT_OK && curl_url_get(parts, CURLUPART_URL, &client->url, 0) != CURLUE_OK)
        status = fail_memory(ctx);
    return status;
}

static enum mt_status read_endpoint(struct client *client)
{
    struct mt_context *ctx = client->ctx;
    char *scheme = NULL;
    CURLU *parts = curl_url();
    if (parts == NULL) return fail_memory(ctx);
    enum mt_status status = MT_OK;
    if (curl_url_set(parts, CURLUPART_URL, client->options->endpoint, CURLU_NON_SUPPORT_SCHEME) !=
            CURLUE_OK ||
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &client->host, 0) != CURLUE_OK)
        status =
            mt_fail(ctx, MT_ERR_USAGE, "the endpoint is not a URL; expected something like https://HOST/v1");
    if (status == MT_OK) status = check_parts(client, parts, scheme);
    curl_free(scheme);
    curl_url_cleanup(parts);
    return status;
}

/* A key that could end the header and begin another one is none. */
static enum mt_status make_headers(struct client *client)
{
    char line[MOST_KEY_BYTES + 32];
    const char *key = client->options->key;
    client->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (client->headers == NULL) return fail_memory(client->ctx);
    if (key == NULL) return MT_OK;
    size_t length = strlen(key);
    bool plain = length > 0 && length <= MOST_KEY_BYTES;
    for (size_t i = 0; i < length && plain; i++) plain = key[i] > ' ' && key[i] <= '~';
    if (!plain)
        return mt_fail(
            client->ctx, MT_ERR_USAGE,
            "the key in the environment is empty, too long, or holds spaces or control characters");
    (void)snprintf(line, sizeof line, "Authorization: Bearer %s", key);
    struct curl_slist *longer = curl_slist_append(client->headers, line);
    memset(line, 0, sizeof line);
    if (longer == NULL) return fail_memory(client->ctx);
    client->headers = longer;
    return MT_OK;
}

// ------------------------------------------------------------------ one request

static size_t take_in(char *data, size_t size, size_t count, void *self)
{
    struct http_slot *slot = self;
    size_t bytes = size * count;
    if (bytes > slot->most - slot->reply.count) {
        slot->too_long = true;
        return 0;
    }
    slot->status = mt_byte_list_append(&slot->reply, data, bytes);
    return slot->status == MT_OK ? bytes : 0;
}

/* Headers are not read; an endless one is not waited for. */
static size_t take_header(char *data, size_t size, size_t count, void *self)
{
    struct http_slot *slot = self;
    size_t bytes = size * count;
    (void)data;
    slot->header_bytes += bytes;
    return slot->header_bytes <= MOST_HEADER_BYTES ? bytes : 0;
}

/* libcurl calls a line beyond its own limit a lack of memory: then the request was sent, and no text came. */
static bool has_long_header(const struct http_slot *slot, CURLcode result)
{
    long sent = 0;
    if (slot->header_bytes > MOST_HEADER_BYTES) return true;
    bool told = result == CURLE_OUT_OF_MEMORY || (int)result == CURL_TOO_LARGE;
    (void)curl_easy_getinfo(slot->easy, CURLINFO_REQUEST_SIZE, &sent);
    return told && sent > 0 && slot->reply.count == 0;
}

static enum mt_status set_up_slot(struct client *client, struct http_slot *slot)
{
    const struct mt_http_options *options = client->options;
    slot->body.ctx = slot->reply.ctx = client->ctx;
    slot->most = options->most_bytes > 0 ? options->most_bytes : MT_HTTP_MOST_BYTES;
    slot->easy = curl_easy_init();
    CURL *easy = slot->easy;
    if (easy == NULL) return fail_memory(client->ctx);
    bool set = curl_easy_setopt(easy, CURLOPT_URL, client->url) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)ceil(options->timeout * 1000)) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_in) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_WRITEDATA, slot) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_HEADERDATA, slot) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_PRIVATE, slot) == CURLE_OK;
    if (set && client->plain) set = curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK;
    return set ? MT_OK : fail_memory(client->ctx);
}

static enum mt_status start(struct client *client, struct http_slot *slot)
{
    slot->body.count = slot->reply.count = 0;
    slot->header_bytes = 0;
    slot->too_long = false;
    slot->status = client->work->request(client->work->self, slot->index, &slot->body);
    if (slot->status != MT_OK) return slot->status;
    curl_off_t bytes = (curl_off_t)slot->body.count;
    if (curl_easy_setopt(slot->easy, CURLOPT_POSTFIELDSIZE_LARGE, bytes) != CURLE_OK ||
        curl_easy_setopt(slot->easy, CURLOPT_POSTFIELDS, slot->body.data) != CURLE_OK ||
        curl_multi_add_handle(client->multi, slot->easy) != CURLM_OK)
        return fail_memory(client->ctx);
    slot->state = SLOT_RUNNING;
    return MT_OK;
}

// ------------------------------------------------------------------ outcomes

/* May a transfer that failed in this way fare better later? */
static bool passes(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

static enum mt_status try_again(struct client *client, struct http_slot *slot, const char *why)
{
    const struct mt_http_options *options = client->options;
    curl_off_t asked = 0;
    if (slot->tries >= options->retries)
        return mt_fail(client->ctx, MT_ERR_IO, "%s: %s, after %s", client->host, why,
                       mt_counted((uint64_t)slot->tries + 1, "try", "tries").text);
    double pause = options->backoff * ldexp(1.0, slot->tries < 30 ? slot->tries : 30);
    if (curl_easy_getinfo(slot->easy, CURLINFO_RETRY_AFTER, &asked) == CURLE_OK && (double)asked > pause)
        pause = (double)asked;
    if (pause > MT_HTTP_LONGEST_PAUSE) pause = MT_HTTP_LONGEST_PAUSE;
    slot->tries++;
    slot->due = mt_clock_seconds() + pause;
    slot->state = SLOT_WAITING;
    return MT_OK;
}

/* A whole reply with some status. */
static enum mt_status answer(struct client *client, struct http_slot *slot, long code)
{
    char said[WHY_BYTES / 2];
    char why[WHY_BYTES];
    if (code == 200) {
        slot->state = SLOT_FREE;
        mt_reply_without_nul(&slot->reply);
        return client->work->reply(client->work->self, slot->index, &slot->reply);
    }
    enum mt_status status = mt_chat_refusal(client->ctx, slot->reply.data, slot->reply.count,
                                            client->options->key, said, sizeof said);
    if (status != MT_OK) return status;
    (void)snprintf(why, sizeof why, "HTTP status %ld%s%s", code, said[0] != '\0' ? ": " : "", said);
    if (code == 408 || code == 429 || code >= 500) return try_again(client, slot, why);
    if (code == 401 || code == 403)
        return mt_fail(client->ctx, MT_ERR_USAGE, "%s does not accept the key (%s)", client->host, why);
    if (code >= 300 && code < 400)
        return mt_fail(client->ctx, MT_ERR_USAGE,
                       "%s redirects to another address (%s); metier follows no redirects", client->host,
                       why);
    if (code == 404 || code == 405)
        return mt_fail(client->ctx, MT_ERR_USAGE, "%s has no such endpoint or model (%s)", client->host, why);
    slot->state = SLOT_FREE;
    return client->work->refused(client->work->self, slot->index, why);
}

static enum mt_status finish(struct client *client, struct http_slot *slot, CURLcode result)
{
    long code = 0;
    (void)curl_multi_remove_handle(client->multi, slot->easy);
    if (slot->status != MT_OK) return slot->status;
    bool long_header = has_long_header(slot, result);
    if (slot->too_long || long_header) {
        char why[WHY_BYTES];
        (void)snprintf(why, sizeof why, "a reply of more than %zu MiB", slot->most >> 20);
        if (long_header)
            (void)snprintf(why, sizeof why, "a reply whose header is longer than %zu KiB",
                           MOST_HEADER_BYTES >> 10);
        slot->state = SLOT_FREE;
        return client->work->refused(client->work->self, slot->index, why);
    }
    if (result == CURLE_OUT_OF_MEMORY) return fail_memory(client->ctx);
    if (result != CURLE_OK && passes(result)) return try_again(client, slot, curl_easy_strerror(result));
    if (result != CURLE_OK)
        return mt_fail(client->ctx, MT_ERR_IO, "%s: %s", client->host, curl_easy_strerror(result));
    if (curl_easy_getinfo(slot->easy, CURLINFO_RESPONSE_CODE, &code) != CURLE_OK)
        return fail_memory(client->ctx);
    return answer(client, slot, code);
}

// ------------------------------------------------------------------ all requests

/* Starts what can be started; *busy: slots in use, *pause: milliseconds until the next one is due. */
static enum mt_status start_due(struct client *client, int *busy, int *pause)
{
    double now = mt_clock_seconds();
    enum mt_status status = MT_OK;
    *busy = 0;
    *pause = POLL_MS;
    for (int i = 0; i < client->options->parallel && status == MT_OK; i++) {
        struct http_slot *slot = &client->slots[i];
        if (slot->state == SLOT_FREE && client->next < client->work->count) {
            slot->index = client->next++;
            slot->tries = 0;
            status = start(client, slot);
        } else if (slot->state == SLOT_WAITING && slot->due <= now) {
            status = start(client, slot);
        } else if (slot->state == SLOT_WAITING) {
            double left = ceil((slot->due - now) * 1000);
            if (left < *pause) *pause = (int)left;
        }
        *busy += slot->state != SLOT_FREE ? 1 : 0;
    }
    return status;
}

/* *some: at least one transfer ended. */
static enum mt_status finish_done(struct client *client, bool *some)
{
    enum mt_status status = MT_OK;
    int left = 0;
    *some = false;
    for (CURLMsg *message = curl_multi_info_read(client->multi, &left); message != NULL && status == MT_OK;
         message = curl_multi_info_read(client->multi, &left)) {
        struct http_slot *slot = NULL;
        CURLcode result = message->data.result; // the message is gone with the handle
        if (message->msg != CURLMSG_DONE) continue;
        if (curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&slot) != CURLE_OK)
            return fail_memory(client->ctx);
        *some = true;
        status = finish(client, slot, result);
    }
    return status;
}

static enum mt_status go(struct client *client)
{
    enum mt_status status = MT_OK;
    const struct mt_http_work *work = client->work;
    while (status == MT_OK && (work->go_on == NULL || work->go_on(work->self))) {
        bool some = false;
        int busy = 0;
        int running = 0;
        int pause = 0;
        status = start_due(client, &busy, &pause);
        if (status != MT_OK || busy == 0) break;
        if (curl_multi_perform(client->multi, &running) != CURLM_OK) return fail_memory(client->ctx);
        status = finish_done(client, &some);
        // Wait for the network or a pause to end, unless a slot may have become free.
        if (status != MT_OK || some) continue;
        if (curl_multi_poll(client->multi, NULL, 0, pause, NULL) != CURLM_OK) return fail_memory(client->ctx);
    }
    return status;
}

static void close_client(struct client *client)
{
    for (int i = 0; i < MT_HTTP_MOST_PARALLEL; i++) {
        struct http_slot *slot = &client->slots[i];
        if (slot->state == SLOT_RUNNING) (void)curl_multi_remove_handle(client->multi, slot->easy);
        curl_easy_cleanup(slot->easy);
        mt_byte_list_free(&slot->body);
        mt_byte_list_free(&slot->reply);
    }
    if (client->multi != NULL) (void)curl_multi_cleanup(client->multi);
    curl_slist_free_all(client->headers);
    curl_free(client->host);
    curl_free(client->url);
}

/* `work` NULL: only looks; `place` as mt_http_check's. */
static enum mt_status with_client(struct mt_context *ctx, const struct mt_http_options *options,
                                  const struct mt_http_work *work, char *place)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct client), &memory);
    if (status != MT_OK) return status;
    struct client *client = memory;
    client->ctx = ctx;
    client->options = options;
    client->work = work;
    status = read_endpoint(client);
    if (status == MT_OK) status = make_headers(client);
    if (status == MT_OK && place != NULL)
        (void)snprintf(place, MT_HTTP_PLACE_BYTES, "%.*s", (int)strcspn(client->url, "?#"), client->url);
    if (status == MT_OK && work != NULL) {
        client->multi = curl_multi_init();
        if (client->multi == NULL) status = fail_memory(ctx);
        for (int i = 0; i < options->parallel && status == MT_OK; i++)
            status = set_up_slot(client, &client->slots[i]);
        if (status == MT_OK) status = go(client);
    }
    close_client(client);
    mt_release(ctx, client, sizeof *client);
    return status;
}

static enum mt_status run(struct mt_context *ctx, const struct mt_http_options *options,
                          const struct mt_http_work *work, char *place)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return mt_fail(ctx, MT_ERR_INTERNAL, "libcurl does not start");
    enum mt_status status = with_client(ctx, options, work, place);
    curl_global_cleanup();
    return status;
}

enum mt_status mt_http_check(struct mt_context *ctx, const struct mt_http_options *options,
                             char place[MT_HTTP_PLACE_BYTES])
{
    if (options->parallel < 1 || options->parallel > MT_HTTP_MOST_PARALLEL)
        return mt_fail(ctx, MT_ERR_USAGE, "--parallel is %d, expected 1 to %d", options->parallel,
                       MT_HTTP_MOST_PARALLEL);
    if (!(options->timeout > 0 && options->timeout <= 86400))
        return mt_fail(ctx, MT_ERR_USAGE, "--timeout is %g, expected seconds, at most 86400",
                       options->timeout);
    if (options->retries < 0 || options->retries > 100)
        return mt_fail(ctx, MT_ERR_USAGE, "--retries is %d, expected 0 to 100", options->retries);
    if (!(options->backoff >= 0 && options->backoff <= MT_HTTP_LONGEST_PAUSE))
        return mt_fail(ctx, MT_ERR_USAGE, "--backoff is %g, expected 0 to %g seconds", options->backoff,
                       MT_HTTP_LONGEST_PAUSE);
    return run(ctx, options, NULL, place);
}

enum mt_status mt_http_post_all(struct mt_context *ctx, const struct mt_http_options *options,
                                const struct mt_http_work *work)
{
    return work->count > 0 ? run(ctx, options, work, NULL) : MT_OK;
}
