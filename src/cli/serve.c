/* metier serve: models and adapters over HTTP. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "base/interrupt.h"
#include "cli/cli.h"
#include "cli/infer.h"
#include "cli/shared/device.h"
#include "cli/shared/share.h"
#include "formats/text/printable.h"
#include "serve/serve.h"

#define ARENA_BYTES      4096
#define MOST_MODELS      (2 * CLI_LIST_MOST)
#define KEY_BYTES        512
#define MOST_BODY        ((size_t)16 << 20)
#define MOST_BYTES       ((size_t)512 << 20) // of all bodies, and again of what is made of them
#define MOST_WAITING     768
#define MOST_CONNECTIONS 960 // others wait in the system; fewer than the usual 1,024 files of a process
#define IDLE_SECONDS     60
#define GRACE_SECONDS    30.0
#define MOST_PAGE        ((size_t)4 << 20)

struct settings {
    struct infer_settings infer;
    struct cli_list adapters; // NAME=DIR
    const char *folder;       // of adapters that requests may load
    const char *address;
    struct cli_list hosts;
    const char *key_file;
    int64_t port;
    double request_seconds;
};

struct server {
    struct mt_context *ctx;
    const struct settings *settings;
    struct mt_arena arena;
    struct mt_serve_model models[MOST_MODELS];
    size_t count;
    char key[KEY_BYTES];
    void *page; // [page_bytes]
    size_t page_bytes;
    struct mt_log log;
};

// ------------------------------------------------------------------ what is served

/* "NAME=DIR", or a folder, whose own name it gets. */
static enum mt_status read_model(struct server *server, const char *given, bool adapter,
                                 struct mt_serve_model *model)
{
    const char *equals = strchr(given, '=');
    size_t end = strlen(given);
    if (equals != NULL) {
        model->directory = equals + 1;
        return mt_arena_copy_text(&server->arena, given, (size_t)(equals - given), &model->name);
    }
    if (adapter)
        return mt_fail(server->ctx, MT_ERR_USAGE, "--adapter is '%s', expected NAME=DIR",
                       mt_printable(given).text);
    model->directory = given;
    while (end > 1 && given[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && given[start - 1] != '/') start--;
    return mt_arena_copy_text(&server->arena, given + start, end - start, &model->name);
}

static enum mt_status read_models(struct server *server, const struct cli_call *call)
{
    const struct cli_list *adapters = &server->settings->adapters;
    enum mt_status status = MT_OK;
    if (call->positional_count + adapters->count > MOST_MODELS)
        return mt_fail(call->ctx, MT_ERR_USAGE, "more than %d models and adapters are given", MOST_MODELS);
    for (int i = 0; i < call->positional_count && status == MT_OK; i++)
        status = read_model(server, call->positional[i], false, &server->models[server->count++]);
    for (int i = 0; i < adapters->count && status == MT_OK; i++) {
        struct mt_serve_model *model = &server->models[server->count++];
        status = read_model(server, adapters->item[i], true, model);
        model->adapter = model->directory;
        model->directory = server->models[0].directory;
        model->base = server->models[0].name;
    }
    return status;
}

static enum mt_status open_session(void *self, const char *directory, const char *adapter,
                                   const struct mt_session *beside, struct mt_session *session)
{
    struct server *server = self;
    struct infer_settings infer = server->settings->infer;
    infer.directory = directory;
    infer.adapter = adapter;
    infer.beside = beside;
    enum mt_status status = cli_infer_open_found(server->ctx, &infer, session);
    if (status == MT_OK) cli_infer_warn_of_texts(session, &server->log);
    return status;
}

// ------------------------------------------------------------------ key and page

static enum mt_status take_key(struct server *server, const char *text, size_t bytes, const char *from)
{
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r')) bytes--;
    if (bytes == 0 || bytes >= KEY_BYTES || memchr(text, '\n', bytes) != NULL)
        return mt_fail(server->ctx, MT_ERR_USAGE, "%s: expected a key: one line of 1 to %d bytes", from,
                       KEY_BYTES - 1);
    memcpy(server->key, text, bytes);
    return MT_OK;
}

/* From the file, else from the environment. */
static enum mt_status read_key(struct server *server)
{
    const char *path = server->settings->key_file;
    const char *told = getenv("METIER_API_KEY");
    if (path == NULL) return told != NULL ? take_key(server, told, strlen(told), "METIER_API_KEY") : MT_OK;
    void *text = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(server->ctx, path, KEY_BYTES, &text, &bytes);
    if (status == MT_OK) status = take_key(server, text, bytes, path);
    mt_release(server->ctx, text, bytes);
    return status;
}

/* Without its page the server is as good. */
static void find_page(struct server *server)
{
    char path[4096];
    const char *folder = NULL;
    if (cli_find_share(&server->arena, "serve", "the page", &folder) != MT_OK) return;
    (void)snprintf(path, sizeof path, "%s/page.html", folder);
    if (mt_file_read_all(server->ctx, path, MOST_PAGE, &server->page, &server->page_bytes) != MT_OK)
        server->page = NULL;
}

// ------------------------------------------------------------------ the verb

static bool is_local(const char *address)
{
    return address == NULL || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static void say_ready(void *self, int port)
{
    const struct server *server = self;
    const char *address =
        server->settings->address != NULL ? server->settings->address : MT_HTTP_SERVER_ADDRESS;
    bool v6 = strchr(address, ':') != NULL;
    for (size_t i = 0; i < server->count; i++)
        printf("%s%s\n", server->models[i].name, server->models[i].adapter != NULL ? " (adapter)" : "");
    printf("listening on http://%s%s%s:%d\n", v6 ? "[" : "", address, v6 ? "]" : "", port);
    (void)fflush(stdout);
    if (!is_local(server->settings->address) && server->key[0] == '\0')
        mt_log_warning(&server->log,
                       "others can reach %s, and no key is asked for: --key-file FILE asks for one", address);
}

static enum mt_status run(struct server *server, const struct cli_call *call,
                          const struct mt_interrupt *interrupt)
{
    const struct settings *settings = server->settings;
    enum mt_status status = read_models(server, call);
    if (status == MT_OK) status = read_key(server);
    if (status != MT_OK) return status;
    find_page(server);
    const struct mt_serve_options options = {
        .http = {.address = settings->address,
                 .port = (int)settings->port,
                 .key = server->key[0] != '\0' ? server->key : NULL,
                 .hosts = settings->hosts.item,
                 .most_body = MOST_BODY,
                 .most_bytes = MOST_BYTES,
                 .most_waiting = MOST_WAITING,
                 .most_connections = MOST_CONNECTIONS,
                 .idle_seconds = IDLE_SECONDS},
        .opener = {.self = server, .open = open_session},
        .models = server->models,
        .count = server->count,
        .adapters = settings->folder,
        .request_seconds = settings->request_seconds,
        .most_bytes = MOST_BYTES,
        .grace_seconds = GRACE_SECONDS,
        .page = server->page,
        .page_bytes = server->page_bytes,
        .log = &server->log,
        .self = server,
        .ready = say_ready,
    };
    return mt_serve(server->ctx, &options, interrupt);
}

static enum mt_status check(struct settings *settings, const struct cli_call *call)
{
    if (call->positional_count == 0)
        return mt_fail(call->ctx, MT_ERR_USAGE, "the folder of a model is missing");
    if (settings->infer.batch == 0)
        return mt_fail(call->ctx, MT_ERR_USAGE, "--slots is 0, expected 1 or more");
    const struct cli_limit port = {"--port", settings->port, 0, 65535};
    enum mt_status status = cli_check_limits(call->ctx, &port, 1);
    return status == MT_OK ? cli_infer_check(&settings->infer, call) : status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.port = 8000};
    struct infer_settings *infer = &settings.infer;
    cli_infer_settings_init(infer);
    infer->batch = 8;
    infer->own_template = true;
    const struct cli_option options[] = {
        {"--adapter", CLI_LIST, &settings.adapters, "NAME=DIR",
         "an adapter of the first model; may be given several times"},
        {"--adapters", CLI_TEXT, &settings.folder, "FOLDER", "requests may load adapters from here"},
        {"--port", CLI_INTEGER, &settings.port, "P", "0: any that is free (8000)"},
        {"--address", CLI_TEXT, &settings.address, "A", "to listen on (127.0.0.1: this machine alone)"},
        {"--host", CLI_LIST, &settings.hosts, "NAME", "another name the server is called by"},
        {"--key-file", CLI_TEXT, &settings.key_file, "FILE",
         "a key that requests have to bring; METIER_API_KEY does the same"},
        {"--slots", CLI_INTEGER, &infer->batch, "N", "answers computed together, of each model (8)"},
        {"--request-timeout", CLI_REAL, &settings.request_seconds, "S",
         "seconds after which a request is given up (0: never)"},
        {"--quantize", CLI_TEXT, &infer->quantise, "HOW", CLI_QUANTISE_HELP},
        {"--template", CLI_TEXT, &infer->template_name, "NAME",
         "chat template: model, a name, a file, none; default that of training, else the model's own"},
        {"--template-option", CLI_LIST, &infer->template_options, "X=Y",
         "a variable of the template, as enable_thinking=false; may be given several times"},
        {"--context", CLI_INTEGER, &infer->context, "N",
         "maximum tokens of prompt and answer together (4096, or the model's own limit)"},
        {"--memory", CLI_TEXT, &infer->memory, "LIMIT", CLI_MEMORY_HELP},
        {"--device", CLI_TEXT, &infer->device, "NAME", CLI_DEVICE_HELP},
        {"--threads", CLI_THREADS, &infer->threads, "N", "0: as many as the machine has"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(&settings, call);
    if (status != MT_OK) return status;
    struct server server = {.ctx = call->ctx, .settings = &settings};
    struct mt_interrupt interrupt = {0};
    mt_arena_init(&server.arena, call->ctx, ARENA_BYTES);
    mt_log_init(&server.log, stderr, MT_LOG_WARNING);
    mt_interrupt_begin(&interrupt, stderr, "requests at hand are answered"); // before there are threads
    status = run(&server, call, &interrupt);
    mt_interrupt_end(&interrupt);
    mt_release(call->ctx, server.page, server.page_bytes);
    mt_arena_free(&server.arena);
    return status;
}

const struct cli_verb cli_verb_serve = {
    .name = "serve",
    .summary = "an OpenAI-compatible server of models and adapters, and of the experts they use",
    .arguments = "[NAME=]DIR...",
    .counts_arguments = true,
    .details =
        "Each DIR is a Hugging Face model folder, known by its folder's name unless NAME says another. The\n"
        "first one answers requests that name no model, and adapters are adapters of it. Open the address\n"
        "that is printed in a browser to talk with the model and to see which experts each token uses.\n"
        "Paths: /v1/chat/completions, /v1/completions, /v1/models, /tokenize, /detokenize,\n"
        "/v1/load_lora_adapter, /v1/unload_lora_adapter, /health, /metrics. A request with\n"
        "\"metier\": {\"routing\": true} gets the experts and weights of every token and layer.\n"
        "SIGTERM or Ctrl-C: no new requests, those at hand are answered, and the server ends.",
    .examples = "  metier serve models/moe\n"
                "  metier serve models/moe --adapter first=runs/first/adapter --slots 32\n"
                "  metier serve whole=models/moe half=models/moe-half --request-timeout 60",
    .run = run_verb,
};
