/*
 * How much of the engine's speed is left when clients ask through metier serve.
 *
 *     serve_speed DEVICE FOLDER CONFIG|- PROMPT NEW TURNS ROUNDS CLIENTS ...
 *
 * FOLDER is a model's; with CONFIG.json it is made one with weights that exist on a GPU alone
 * (hollow_model.h), and needs a tokenizer. For each number of clients the engine has as many slots, and
 * answers TURNS greedy requests of each client, of PROMPT tokens and up to NEW new ones: first handed to the
 * engine all at once; then over HTTP, each client asking again when it has its answer, whole answers and
 * streams. Printed are tokens of answers a second, their ratio to the engine's, and the ratio of tokens per
 * second of processor time, clients included, which says more on a busy machine; medians over ROUNDS.
 * bench/serve-speed runs it.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "hollow_model.h"
#include "median.h"
#include "serve/serve.h"

enum { MOST_CLIENTS = 512, MOST_ROUNDS = 32, ANSWER_BYTES = 1 << 21, CLIENT_BYTES = 1 << 16 };

/* Tokens a second, and per second of all processors. */
struct rate {
    double seconds, processor;
};

struct bench {
    struct mt_context ctx;
    const char *device, *folder;
    bool hollow;
    int64_t prompt, answer, turns, clients;
    int32_t *ids; // [clients * turns, prompt]
    struct mt_interrupt interrupt;
    pthread_t director;
    int port;
    bool streams, failed;
    struct rate alone, whole, streamed;
};

struct client {
    struct bench *bench;
    pthread_t thread;
    int64_t number;
    int64_t tokens; // of its answers
    bool failed;
};

/* What both clocks say. */
static struct rate now(void)
{
    struct timespec used = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (struct rate){mt_clock_seconds(), (double)used.tv_sec + 1e-9 * (double)used.tv_nsec};
}

static struct rate rate_since(struct rate start, int64_t tokens)
{
    struct rate end = now();
    return (struct rate){(double)tokens / (end.seconds - start.seconds),
                         (double)tokens / (end.processor - start.processor)};
}

// ------------------------------------------------------------------ the engine alone

static enum mt_status count_token(void *self, int32_t id, bool *stop)
{
    (void)id;
    (void)stop;
    ++*(int64_t *)self;
    return MT_OK;
}

/* The token that ends an answer counts as one of it, as over HTTP. */
static enum mt_status count_stop(void *self, int32_t id)
{
    (void)id;
    ++*(int64_t *)self;
    return MT_OK;
}

static enum mt_status measure_engine(struct bench *bench, const struct mt_session *session)
{
    int64_t count = bench->clients * bench->turns;
    int64_t tokens = 0;
    enum mt_status status = MT_OK;
    struct mt_generation *requests = calloc((size_t)count, sizeof *requests);
    if (requests == NULL) return mt_fail(&bench->ctx, MT_ERR_MEMORY, "no memory");
    struct rate start = now();
    for (int64_t i = 0; i < count && status == MT_OK; i++) {
        requests[i] = (struct mt_generation){.ids = bench->ids + i * bench->prompt,
                                             .count = bench->prompt,
                                             .common = INT64_MAX,
                                             .sampling = {.top_p = 1.0, .repetition_penalty = 1.0},
                                             .max_new = bench->answer,
                                             .stop_ids = session->stop_ids.data,
                                             .stop_count = session->stop_ids.count,
                                             .self = &tokens,
                                             .token = count_token,
                                             .stopped = count_stop};
        status = mt_engine_add_generation(session->engine, &requests[i]);
    }
    for (bool working = true; status == MT_OK && working;) status = mt_engine_step(session->engine, &working);
    bench->alone = rate_since(start, tokens);
    free(requests);
    return status;
}

/* The server's session, measured before it serves. A first run brings the weights into memory. */
static enum mt_status open_session(void *self, const char *directory, const char *adapter,
                                   const struct mt_session *beside, struct mt_session *session)
{
    struct bench *bench = self;
    const struct mt_session_options options = {.directory = directory,
                                               .adapter = adapter,
                                               .beside = beside,
                                               .device = bench->device,
                                               .slots = bench->clients,
                                               .context = bench->prompt + bench->answer};
    enum mt_status status = mt_session_open(&bench->ctx, &options, session);
    if (status == MT_OK && bench->hollow) status = hollow_model_fill(session->model);
    if (status == MT_OK) status = measure_engine(bench, session);
    return status == MT_OK ? measure_engine(bench, session) : status;
}

// ------------------------------------------------------------------ clients

static bool send_all(int to, const char *text, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t count = send(to, text + sent, bytes - sent, MSG_NOSIGNAL);
        if (count <= 0) return false;
        sent += (size_t)count;
    }
    return true;
}

/* True when the answer is whole: as long as its head says, or with the last of its chunks. */
static bool is_whole(const char *answer, size_t bytes)
{
    static const char last[] = "\r\n0\r\n\r\n";
    const char *body = strstr(answer, "\r\n\r\n");
    const char *length = strstr(answer, "Content-Length: ");
    if (body == NULL) return false;
    if (length != NULL && length < body)
        return (size_t)(answer + bytes - (body + 4)) >=
               strtoull(length + strlen("Content-Length: "), NULL, 10);
    return bytes > sizeof last && strcmp(answer + bytes - (sizeof last - 1), last) == 0;
}

/* One request; the tokens of its answer, -1 on a failure. */
static int64_t ask(struct client *client, int connection, int64_t turn, char *answer)
{
    const struct bench *bench = client->bench;
    const int32_t *ids = bench->ids + (client->number * bench->turns + turn) * bench->prompt;
    char head[256];
    char *body = answer; // its memory, until the answer comes
    size_t bytes = (size_t)snprintf(
        body, ANSWER_BYTES, "{\"max_tokens\": %lld, \"temperature\": 0, %s\"prompt\": [",
        (long long)bench->answer,
        bench->streams ? "\"stream\": true, \"stream_options\": {\"include_usage\": true}, " : "");
    for (int64_t i = 0; i < bench->prompt; i++)
        bytes += (size_t)snprintf(body + bytes, ANSWER_BYTES - bytes, "%s%d", i > 0 ? "," : "", ids[i]);
    bytes += (size_t)snprintf(body + bytes, ANSWER_BYTES - bytes, "]}");
    int written =
        snprintf(head, sizeof head,
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", bytes);
    if (!send_all(connection, head, (size_t)written) || !send_all(connection, body, bytes)) return -1;
    for (bytes = 0, answer[0] = '\0'; !is_whole(answer, bytes);) {
        ssize_t count = recv(connection, answer + bytes, ANSWER_BYTES - 1 - bytes, 0);
        if (count <= 0) return -1;
        bytes += (size_t)count;
        answer[bytes] = '\0';
    }
    const char *tokens = strstr(answer, "\"completion_tokens\": ");
    return tokens != NULL ? strtoll(tokens + strlen("\"completion_tokens\": "), NULL, 10) : -1;
}

static void *be_client(void *self)
{
    struct client *client = self;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)client->bench->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char *answer = malloc(ANSWER_BYTES);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    // As HTTP libraries do: else a request's body waits until its head is acknowledged.
    int at_once = 1;
    (void)setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    bool ready = answer != NULL && connect(connection, (struct sockaddr *)&address, sizeof address) == 0;
    client->failed = !ready;
    for (int64_t turn = 0; turn < client->bench->turns && !client->failed; turn++) {
        int64_t tokens = ask(client, connection, turn, answer);
        client->failed = tokens < 0;
        client->tokens += tokens;
    }
    (void)close(connection);
    free(answer);
    return NULL;
}

static struct rate measure_clients(struct bench *bench, bool streams)
{
    static struct client clients[MOST_CLIENTS];
    int64_t tokens = 0;
    pthread_attr_t small;
    bench->streams = streams;
    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, CLIENT_BYTES);
    struct rate start = now();
    for (int64_t i = 0; i < bench->clients; i++) {
        clients[i] = (struct client){.bench = bench, .number = i};
        if (pthread_create(&clients[i].thread, &small, be_client, &clients[i]) != 0) abort();
    }
    for (int64_t i = 0; i < bench->clients; i++) {
        (void)pthread_join(clients[i].thread, NULL);
        tokens += clients[i].tokens;
        bench->failed = bench->failed || clients[i].failed;
    }
    (void)pthread_attr_destroy(&small);
    return rate_since(start, tokens);
}

/* Lets clients ask, then ends the server. */
static void *direct(void *self)
{
    struct bench *bench = self;
    bench->whole = measure_clients(bench, false);
    bench->streamed = measure_clients(bench, true);
    atomic_store(&bench->interrupt.seen, SIGTERM);
    return NULL;
}

static void begin(void *self, int port)
{
    struct bench *bench = self;
    bench->port = port;
    if (pthread_create(&bench->director, NULL, direct, bench) != 0) abort();
}

// ------------------------------------------------------------------ rounds

static enum mt_status measure_round(struct bench *bench)
{
    const struct mt_serve_model model = {.name = "m", .directory = bench->folder};
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    const struct mt_serve_options options = {
        .http = {.most_body = 1 << 24, .most_waiting = 1024, .most_connections = 1024, .idle_seconds = 600},
        .opener = {.self = bench, .open = open_session},
        .models = &model,
        .count = 1,
        .grace_seconds = 30.0,
        .log = &log,
        .self = bench,
        .ready = begin};
    bench->interrupt = (struct mt_interrupt){.begun = true};
    enum mt_status status = mt_serve(&bench->ctx, &options, &bench->interrupt);
    if (status == MT_OK) (void)pthread_join(bench->director, NULL);
    if (status == MT_OK && bench->failed) return mt_fail(&bench->ctx, MT_ERR_IO, "a client got no answer");
    return status;
}

static enum mt_status measure(struct bench *bench, int rounds, int64_t vocabulary)
{
    double alone[MOST_ROUNDS];
    double rates[2][3]
                [MOST_ROUNDS]; // whole, streams: a second; of the engine's; of the engine's by processor time
    enum mt_status status = MT_OK;
    int64_t count = bench->clients * bench->turns * bench->prompt;
    bench->ids = calloc((size_t)count, sizeof *bench->ids);
    if (bench->ids == NULL) return mt_fail(&bench->ctx, MT_ERR_MEMORY, "no memory");
    for (int64_t i = 0; i < count; i++)
        bench->ids[i] = (int32_t)mt_rng_below(1, 2, (uint64_t)i, (uint64_t)vocabulary);
    for (int i = 0; i < rounds && status == MT_OK; i++) {
        status = measure_round(bench);
        alone[i] = bench->alone.seconds;
        for (int streams = 0; streams < 2; streams++) {
            struct rate rate = streams ? bench->streamed : bench->whole;
            rates[streams][0][i] = rate.seconds;
            rates[streams][1][i] = rate.seconds / bench->alone.seconds;
            rates[streams][2][i] = rate.processor / bench->alone.processor;
        }
    }
    free(bench->ids);
    if (status != MT_OK) return status;
    printf("%3lld clients: engine %.1f tok/s", (long long)bench->clients, bench_median(alone, rounds));
    for (int streams = 0; streams < 2; streams++)
        printf("; %s %.1f, %.3f of it, %.3f by processor time", streams ? "streams" : "whole answers",
               bench_median(rates[streams][0], rounds), bench_median(rates[streams][1], rounds),
               bench_median(rates[streams][2], rounds));
    printf("\n");
    (void)fflush(stdout);
    return MT_OK;
}

static enum mt_status prepare(struct bench *bench, const char *config, int64_t *vocabulary)
{
    struct mt_hf_config read = {0};
    bool shared = false;
    enum mt_status status = MT_OK;
    if (bench->hollow) status = hollow_model_write(&bench->ctx, config, bench->folder, &shared);
    if (status == MT_OK) status = mt_hf_config_read_folder(&bench->ctx, bench->folder, &read);
    if (status != MT_OK) return status;
    *vocabulary = read.vocab_size;
    mt_hf_config_free(&read);
    return MT_OK;
}

int main(int argc, char **argv)
{
    if (argc < 9) {
        (void)fprintf(stderr,
                      "usage: serve_speed DEVICE FOLDER CONFIG|- PROMPT NEW TURNS ROUNDS CLIENTS ...\n");
        return 2;
    }
    static struct bench bench;
    int64_t vocabulary = 0;
    int rounds = (int)strtol(argv[7], NULL, 10);
    bench.device = argv[1];
    bench.folder = argv[2];
    bench.hollow = strcmp(argv[3], "-") != 0;
    bench.prompt = strtol(argv[4], NULL, 10);
    bench.answer = strtol(argv[5], NULL, 10);
    bench.turns = strtol(argv[6], NULL, 10);
    if (rounds < 1 || rounds > MOST_ROUNDS || bench.prompt < 1 || bench.answer < 1 || bench.turns < 1)
        return 2;
    mt_context_init(&bench.ctx, NULL);
    enum mt_status status = prepare(&bench, argv[3], &vocabulary);
    for (int i = 8; i < argc && status == MT_OK; i++) {
        bench.clients = strtol(argv[i], NULL, 10);
        if (bench.clients < 1 || bench.clients > MOST_CLIENTS) return 2;
        status = measure(&bench, rounds, vocabulary);
    }
    if (status != MT_OK) (void)fprintf(stderr, "serve_speed: %s\n", bench.ctx.message);
    return status == MT_OK ? 0 : 1;
}
