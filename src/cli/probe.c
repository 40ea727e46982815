/* metier probe: whether a server applies an adapter, and all of it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "cli/cli.h"
#include "cli/shared/device.h"
#include "cli/shared/endpoint.h"
#include "cli/shared/share.h"
#include "cli/shared/table.h"
#include "infer/probe/probe.h"
#include "model/adapters/router_bias.h"

#define ARENA_BYTES 16384
#define MOST_TEXT   ((size_t)16 << 20)
#define LINE_BYTES  2048
#define FEW_EXPERTS 8   // that are listed
#define UNSEEN      1e3 // an error above it is no figure
// What is not explained, over what fp8 leaves. On small models fp8 was 1.0 to 1.1, int8 and bf16 0.2 to 0.4.
#define FP8_MOST  1.5
#define FP8_LEAST 0.7
#define ROUNDED   0.1

struct settings {
    struct cli_endpoint endpoint;
    const char *model, *adapter, *base, *data, *device;
    int64_t texts, threads, parallel;
};

// ------------------------------------------------------------------ texts

struct lines {
    void *file;
    size_t bytes;
    struct mt_text text[MT_PROBE_CANDIDATES];
    size_t count;
};

static enum mt_status read_lines(struct mt_arena *arena, const char *data, struct lines *lines)
{
    struct mt_context *ctx = arena->ctx;
    const char *folder = "";
    const char *name = data != NULL ? data : "texts.txt";
    char *path = NULL;
    enum mt_status status = MT_OK;
    if (data == NULL) status = cli_find_share(arena, "probe", "the texts to ask about", &folder);
    if (status == MT_OK) status = mt_path_join(ctx, folder, name, &path);
    if (status == MT_OK) status = mt_file_read_all(ctx, path, MOST_TEXT, &lines->file, &lines->bytes);
    mt_path_release(ctx, path);
    struct mt_text left = {.text = lines->file, .bytes = status == MT_OK ? lines->bytes : 0};
    while (left.bytes > 0 && lines->count < MT_PROBE_CANDIDATES) {
        size_t end = mt_text_find(left, 0, "\n");
        struct mt_text line = mt_text_trimmed((struct mt_text){.text = left.text, .bytes = end});
        if (line.bytes > 0) lines->text[lines->count++] = line;
        left = mt_text_from(left, end < left.bytes ? end + 1 : end);
    }
    return status;
}

// ------------------------------------------------------------------ what is said

static void add_text(char *line, size_t *used, const char *text)
{
    int length = snprintf(line + *used, LINE_BYTES - *used, "%s", text);
    *used += (size_t)length < LINE_BYTES - *used ? (size_t)length : LINE_BYTES - 1 - *used;
}

/* The part of the same kind and state that begins next, behind a layer; -1: none. */
static int next_part(const struct mt_probe_result *result, const char *kind, int64_t behind)
{
    int found = -1;
    for (int p = 0; p < result->parts; p++) {
        if (strcmp(result->part[p].kind, kind) != 0 || result->part[p].first <= behind) continue;
        if (found < 0 || result->part[p].first < result->part[found].first) found = p;
    }
    return found;
}

/* "routed experts of layers 12 to 26": a kind's parts from `start` on as long as they are in one state. *last
 * becomes the last one's layer. */
static void add_range(const struct mt_probe_result *result, int start, char *line, size_t *used,
                      int64_t *last)
{
    const struct mt_variant_part *part = &result->part[start];
    char layers[64] = "";
    *last = part->last;
    int next = next_part(result, part->kind, *last);
    for (; next >= 0 && result->state[next] == result->state[start];
         next = next_part(result, part->kind, *last))
        *last = result->part[next].last;
    bool whole = next < 0 && next_part(result, part->kind, INT64_MIN) == start;
    if (!whole && part->first == *last)
        (void)snprintf(layers, sizeof layers, " of layer %" PRId64, part->first);
    else if (!whole)
        (void)snprintf(layers, sizeof layers, " of layers %" PRId64 " to %" PRId64, part->first, *last);
    if (*used > 0) add_text(line, used, ", ");
    add_text(line, used, part->kind);
    add_text(line, used, layers);
}

/* All parts in a state: "kv_b_proj, routed experts of layers 12 to 26"; "": none. */
static void list_parts(const struct mt_probe_result *result, enum mt_probe_state state, char *line)
{
    size_t used = 0;
    line[0] = '\0';
    for (int kind = 0; kind < result->parts; kind++) {
        // Each kind once, at the part that has its first layers.
        if (next_part(result, result->part[kind].kind, INT64_MIN) != kind) continue;
        for (int p = kind; p >= 0;) {
            int64_t last = result->part[p].last;
            if (result->state[p] == state) add_range(result, p, line, &used, &last);
            p = next_part(result, result->part[kind].kind, last);
        }
    }
}

/* "expert 0 has those of 1, 1 of 2": the first few that do not have their own. */
static void list_sources(const struct mt_probe_result *result, char *line)
{
    size_t used = 0;
    int shown = 0;
    line[0] = '\0';
    for (int64_t e = 0; e < result->experts; e++) {
        char text[64];
        int32_t source = result->source[e];
        if (source == e) continue;
        if (shown++ == FEW_EXPERTS) {
            add_text(line, &used, ", ...");
            return;
        }
        (void)snprintf(text, sizeof text,
                       shown == 1 ? "expert %" PRId64 " has those of %" PRId32 : ", %" PRId64 " of %" PRId32,
                       e, source);
        add_text(line, &used, text);
    }
}

static void print_verdict(const struct mt_probe_result *result)
{
    char line[LINE_BYTES];
    switch (result->verdict) {
    case MT_PROBE_IS_APPLIED: printf("applied\n"); break;
    case MT_PROBE_NOT_APPLIED: printf("not applied\n"); break;
    case MT_PROBE_PARTLY:
        list_parts(result, MT_PROBE_DEAD, line);
        printf("applied, but these parts are dead%s: %s\n", result->or_wrong ? " or wrong" : "", line);
        break;
    case MT_PROBE_EXCHANGED:
        list_sources(result, line);
        printf("applied, but experts have each other's pairs: %s\n", line);
        list_parts(result, MT_PROBE_DEAD, line);
        if (line[0] != '\0') printf("these parts are dead: %s\n", line);
        break;
    case MT_PROBE_STRENGTH:
        printf("applied with %.2f times its strength: scale, alpha or rank are not as in the adapter\n",
               result->strength);
        break;
    case MT_PROBE_CANNOT_SAY: printf("cannot say: %s\n", result->why); break;
    }
    double rounding = result->rounded > 0.0 ? result->noise / result->rounded : 0.0;
    if (rounding > FP8_MOST)
        printf("the server rounds more than weights in fp8 do, or differs in something else\n");
    else if (rounding > FP8_LEAST)
        printf("the server's weights seem to be rounded to fp8\n");
    else if (rounding > ROUNDED)
        printf("the server rounds, as weights in int8 or arithmetic in bf16 do\n");
    list_parts(result, MT_PROBE_UNCLEAR, line);
    bool judged = result->verdict == MT_PROBE_IS_APPLIED || result->verdict == MT_PROBE_PARTLY ||
                  result->verdict == MT_PROBE_NOT_APPLIED;
    if (judged && line[0] != '\0') printf("not to be told: %s\n", line);
}

static enum mt_status print_parts(struct mt_context *ctx, const struct mt_probe_result *result)
{
    const char *dead = result->verdict == MT_PROBE_PARTLY && result->or_wrong ? "dead or wrong" : "dead";
    const char *const states[] = {
        [MT_PROBE_APPLIED] = "applied", [MT_PROBE_DEAD] = dead, [MT_PROBE_UNCLEAR] = "unclear"};
    static const struct cli_column columns[] = {{"part", false},    {"layers", true}, {"changes", true},
                                                {"presence", true}, {"+-", true},     {"", false}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 6);
    for (int p = 0; p < result->parts; p++) {
        const struct mt_variant_part *part = &result->part[p];
        char layers[48] = "";
        char presence[24] = "";
        char error[24] = "";
        bool one = part->first == part->last;
        bool shown = result->fitted[p].error < UNSEEN;
        if (part->first >= 0 && one) (void)snprintf(layers, sizeof layers, "%" PRId64, part->first);
        if (part->first >= 0 && !one)
            (void)snprintf(layers, sizeof layers, "%" PRId64 " to %" PRId64, part->first, part->last);
        // Without a minus in front of 0.00.
        double found = fabs(result->fitted[p].presence) < 0.005 ? 0.0 : result->fitted[p].presence;
        if (shown) (void)snprintf(presence, sizeof presence, "%.2f", found);
        if (shown) (void)snprintf(error, sizeof error, "%.2f", 2.0 * result->fitted[p].error);
        cli_table_add(&table, "%s\t%s\t%.2e\t%s\t%s\t%s", part->kind, layers, result->effect[p], presence,
                      error, states[result->state[p]]);
    }
    return cli_table_print(&table, stdout);
}

static enum mt_status print(struct mt_context *ctx, const struct mt_probe_result *result)
{
    print_verdict(result);
    printf("\nthe adapter changes log-probabilities by %.2e nats (root mean square), and %.2e nats are not\n"
           "explained; %zu values after %s; all of the adapter together: presence %.2f +- %.2f\n\n",
           result->change, result->noise, result->values,
           mt_counted((uint64_t)result->texts, "text", "texts").text,
           fabs(result->whole.presence) < 0.005 ? 0.0 : result->whole.presence, 2.0 * result->whole.error);
    enum mt_status status = MT_OK;
    if (result->verdict != MT_PROBE_STRENGTH) status = print_parts(ctx, result);
    if (status == MT_OK && result->biases)
        printf("\n" MT_ROUTER_BIAS_OF_ADAPTER
               " is not looked for: ours has it with and without the adapter\n");
    return status;
}

// ------------------------------------------------------------------ the verb

static enum mt_status check(struct mt_context *ctx, const struct settings *settings,
                            struct mt_http_options *http)
{
    const struct cli_limit limits[] = {{"--parallel", settings->parallel, 1, MT_HTTP_MOST_PARALLEL},
                                       {"--texts", settings->texts, 2, MT_PROBE_CANDIDATES}};
    if (settings->model == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--model NAME is missing");
    if (settings->adapter == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--adapter DIR is missing");
    if (settings->base == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--base DIR is missing");
    enum mt_status status = cli_check_limits(ctx, limits, 2);
    if (status == MT_OK) status = cli_endpoint_http(ctx, &settings->endpoint, settings->parallel, http);
    if (status != MT_OK) return status;
    http->path = MT_HTTP_COMPLETION;
    return mt_http_check(ctx, http, NULL);
}

static enum mt_status probe(struct mt_context *ctx, const struct settings *settings,
                            const struct mt_http_options *http, struct mt_probe_result *result)
{
    struct mt_arena arena;
    struct mt_log log;
    struct lines lines = {0};
    struct mt_probe_options options = {
        .model = {.base = settings->base,
                  .adapter = settings->adapter,
                  .threads = (int)settings->threads,
                  .log = &log},
        .server = {.model = settings->model, .http = *http},
        .texts = (size_t)settings->texts,
    };
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status = read_lines(&arena, settings->data, &lines);
    options.candidates = lines.text;
    options.candidate_count = lines.count;
    if (status == MT_OK)
        status = mt_device_choose(ctx, NULL, settings->device, MT_USE_FAST, &options.model.device);
    if (status == MT_OK) status = mt_probe(ctx, &options, result);
    mt_release(ctx, lines.file, lines.bytes);
    mt_arena_free(&arena);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.endpoint = {.retries = 2, .timeout = 60, .backoff = 1},
                                .device = MT_DEVICE_AUTO,
                                .texts = 24,
                                .parallel = 4};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &settings.model, "NAME", "the adapter, as the server calls it"},
        {"--adapter", CLI_TEXT, &settings.adapter, "DIR", "the same adapter here"},
        {"--base", CLI_TEXT, &settings.base, "DIR", "the model it is for"},
        {"--data", CLI_TEXT, &settings.data, "FILE", "texts to choose from, one a line (built-in ones)"},
        {"--texts", CLI_INTEGER, &settings.texts, "N", "how many the server is asked about at first (24)"},
        {"--key-env", CLI_TEXT, &settings.endpoint.key_env, "VARIABLE",
         "environment variable with the key; default " CLI_KEY_NAME ", if set"},
        {"--parallel", CLI_INTEGER, &settings.parallel, "N", "requests at the same time (4)"},
        {"--timeout", CLI_REAL, &settings.endpoint.timeout, "SECONDS", "timeout of one request (60)"},
        {"--retries", CLI_INTEGER, &settings.endpoint.retries, "N",
         "of a request, when the server is busy (2)"},
        {"--backoff", CLI_REAL, &settings.endpoint.backoff, "SECONDS",
         "wait before the first retry, doubled each time (1)"},
        {"--insecure-http", CLI_FLAG, &settings.endpoint.insecure_http, NULL,
         "allow plain http to other machines"},
        {"--device", CLI_TEXT, &settings.device, "NAME", CLI_DEVICE_HELP},
        {"--threads", CLI_THREADS, &settings.threads, "N", "0: as many as the machine has"},
        {0},
    };
    struct mt_http_options http;
    struct mt_probe_result result = {0};
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    settings.endpoint.url = call->positional[0];
    status = check(call->ctx, &settings, &http);
    if (status == MT_OK) status = probe(call->ctx, &settings, &http, &result);
    if (status == MT_OK) status = print(call->ctx, &result);
    if (status == MT_OK) call->exit_status = result.verdict == MT_PROBE_IS_APPLIED ? 0 : 1;
    mt_probe_result_release(call->ctx, &result);
    return status;
}

const struct cli_verb cli_verb_probe = {
    .name = "probe",
    .summary = "whether a server applies an adapter, and which parts of it are dead there",
    .arguments = "URL --model NAME --adapter DIR --base DIR",
    .wanted = "the address of a server",
    .details =
        "URL is a server with OpenAI's API: vLLM, SGLang, llama.cpp, metier serve. It is asked for the\n"
        "log-probabilities of the next token after a few short texts (/v1/completions, max_tokens 1,\n"
        "logprobs 20, prompts as token ids). They are compared with ours: with the adapter, without it, and\n"
        "with single parts left out. The texts are beginnings of those in a built-in list or FILE, the ones\n"
        "that show the parts best first; while the verdict is not sure it asks about more, up to 16 times "
        "N.\n"
        "The first line is the verdict: applied; not applied; applied, but these parts are dead: ...; dead\n"
        "or wrong, if something else may be there instead; applied, but experts have each other's pairs;\n"
        "applied with X times its strength; or cannot say. The next may say how the server rounds. changes: "
        "of\n"
        "log-probabilities by the part, in nats, root mean square. presence: how much of that is in the\n"
        "server's values, +- two standard errors. A part is applied, or dead, if its presence is above, or\n"
        "below, 0.5 by four of them and most texts agree.\n"
        "The exit status is 0 if the adapter is applied, and 1 otherwise.",
    .examples =
        "  metier probe http://localhost:8000 --model first --adapter runs/first/adapter --base models/moe\n"
        "  metier probe http://localhost:8000 --model first --adapter runs/first/adapter --base models/moe "
        "\\\n"
        "      --data letter.txt --texts 8",
    .run = run_verb,
};
