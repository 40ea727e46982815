/* Answers that are no text of a model: what there is, tokens, adapters that come and go, figures, the page.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"
#include "serve/serve_struct.h"

/* The body as an object, and the model it names. The caller frees the document. */
static enum mt_status read_body(struct mt_serving *serving, const void *body, size_t bytes,
                                struct mt_json *json, struct mt_json_node *root)
{
    enum mt_status status = mt_json_parse(serving->ctx, "request", body, bytes, &mt_ask_body_limits, json);
    if (status != MT_OK) return status;
    *root = mt_json_root(json);
    return mt_json_expect_object(root);
}

static enum mt_status find_model(struct mt_serving *serving, const struct mt_json_node *root,
                                 struct mt_reply *reply, struct mt_served_model **model)
{
    const char *name = NULL;
    enum mt_status status = mt_json_optional_string(root, "model", &name);
    if (status != MT_OK) return status;
    *model = mt_served_models_find(&serving->models, name);
    if (*model != NULL) return MT_OK;
    reply->code = 404;
    return mt_fail(serving->ctx, MT_ERR_USAGE, "there is no model '%s'; GET /v1/models lists them",
                   mt_printable(name).text);
}

// ------------------------------------------------------------------ models

static enum mt_status list_models(struct mt_serving *serving, const void *body, size_t bytes,
                                  struct mt_reply *reply)
{
    (void)body;
    (void)bytes;
    struct mt_json_text *text = &reply->text;
    mt_json_text_format(text, "{\"object\": \"list\", \"data\": [");
    bool first = true;
    for (const struct mt_served_model *model = serving->models.first; model != NULL; model = model->next) {
        if (model->leaving) continue;
        mt_json_text_format(text, "%s{\"id\": ", first ? "" : ", ");
        mt_json_text_string(text, model->name);
        mt_json_text_format(text,
                            ", \"object\": \"model\", \"created\": 0, \"owned_by\": \"metier\", "
                            "\"max_model_len\": %" PRId64 ", \"parent\": ",
                            model->session.context);
        if (model->base[0] != '\0') mt_json_text_string(text, model->base);
        if (model->base[0] == '\0') mt_json_text_format(text, "null");
        mt_json_text_format(text, "}");
        first = false;
    }
    return mt_json_text_format(text, "]}\n");
}

/* Names of folders, not paths: what lies elsewhere is nobody's business. */
static bool is_folder_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL;
}

static enum mt_status load_adapter(struct mt_serving *serving, const void *body, size_t bytes,
                                   struct mt_reply *reply)
{
    struct mt_context *ctx = serving->ctx;
    const char *folder = serving->options->adapters;
    const struct mt_served_model *base = serving->models.first;
    const struct mt_serve_model *given = &serving->options->models[0];
    struct mt_json json = {0};
    struct mt_json_node root;
    const char *name = NULL;
    const char *path = NULL;
    char whole[4096];
    if (folder == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "this server loads no adapters: start it with --adapters FOLDER");
    enum mt_status status = read_body(serving, body, bytes, &json, &root);
    if (status == MT_OK) status = mt_json_get_string(&root, "lora_name", &name);
    if (status == MT_OK) status = mt_json_get_string(&root, "lora_path", &path);
    if (status == MT_OK && !is_folder_name(path))
        status = mt_fail(ctx, MT_ERR_USAGE,
                         "lora_path is the name of a folder in the folder of adapters, without a path");
    if (status == MT_OK && base == NULL) status = mt_fail(ctx, MT_ERR_USAGE, "there is no model to adapt");
    if (status == MT_OK) {
        (void)snprintf(whole, sizeof whole, "%s/%s", folder, path);
        status = mt_served_models_add(&serving->models, name, given->directory, whole, base->name);
        if (status == MT_ERR_IO || status == MT_ERR_FORMAT) {
            // The message names paths of this machine: those are for who runs the server.
            mt_log_warning(serving->options->log, "adapter %s: %s", mt_printable(path).text, ctx->message);
            status = mt_fail(ctx, MT_ERR_USAGE, "'%s' cannot be loaded; the server's log says why",
                             mt_printable(path).text);
        }
    }
    if (status == MT_OK) mt_json_text_format(&reply->text, "{\"status\": \"loaded\"}\n");
    mt_json_free(&json);
    return status;
}

static enum mt_status unload_adapter(struct mt_serving *serving, const void *body, size_t bytes,
                                     struct mt_reply *reply)
{
    struct mt_json json = {0};
    struct mt_json_node root;
    const char *name = NULL;
    struct mt_served_model *model = NULL;
    enum mt_status status = read_body(serving, body, bytes, &json, &root);
    if (status == MT_OK) status = mt_json_get_string(&root, "lora_name", &name);
    if (status == MT_OK) model = mt_served_models_find(&serving->models, name);
    if (status == MT_OK && (model == NULL || model->base[0] == '\0')) {
        reply->code = 404;
        status = mt_fail(serving->ctx, MT_ERR_USAGE, "there is no adapter '%s'", mt_printable(name).text);
    }
    if (status == MT_OK) {
        model->leaving = true; // what is under way is answered
        mt_json_text_format(&reply->text, "{\"status\": \"unloaded\"}\n");
    }
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ tokens

static enum mt_status put_ids(const struct mt_served_model *model, const struct mt_id_list *ids,
                              struct mt_json_text *text)
{
    mt_json_text_format(text, "{\"count\": %zu, \"max_model_len\": %" PRId64 ", \"tokens\": [", ids->count,
                        model->session.context);
    for (size_t i = 0; i < ids->count; i++)
        mt_json_text_format(text, "%s%" PRId32, i > 0 ? ", " : "", ids->data[i]);
    return mt_json_text_format(text, "]}\n");
}

static enum mt_status tokenize(struct mt_serving *serving, const void *body, size_t bytes,
                               struct mt_reply *reply)
{
    struct mt_json json = {0};
    struct mt_json_node root;
    struct mt_served_model *model = NULL;
    struct mt_id_list ids = {.ctx = serving->ctx};
    const char *prompt = NULL;
    bool special = true;
    enum mt_status status = read_body(serving, body, bytes, &json, &root);
    if (status == MT_OK) status = find_model(serving, &root, reply, &model);
    if (status == MT_OK) status = mt_json_get_string(&root, "prompt", &prompt);
    if (status == MT_OK && strlen(prompt) / MT_ASK_TOKEN_BYTES >= (size_t)model->session.context)
        status = mt_fail(serving->ctx, MT_ERR_USAGE, "the prompt has %zu bytes: more than there is room for",
                         strlen(prompt));
    if (status == MT_OK) status = mt_json_optional_bool(&root, "add_special_tokens", &special);
    if (status == MT_OK && special)
        status = mt_session_encode_text(&model->session, prompt, strlen(prompt), &ids);
    if (status == MT_OK && !special)
        status = mt_tokenizer_encode(model->session.tokenizer, model->session.scratch, prompt, strlen(prompt),
                                     MT_ENCODE_PLAIN, &ids);
    if (status == MT_OK) status = put_ids(model, &ids, &reply->text);
    mt_id_list_free(&ids);
    mt_json_free(&json);
    return status;
}

static enum mt_status read_ids(const struct mt_json_node *list, struct mt_id_list *ids)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < mt_json_count(list) && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(list, i);
        int64_t id = 0;
        status = mt_json_as_integer(&item, 0, INT32_MAX, &id);
        if (status == MT_OK) status = mt_id_list_append(ids, (int32_t)id);
    }
    return status;
}

static enum mt_status detokenize(struct mt_serving *serving, const void *body, size_t bytes,
                                 struct mt_reply *reply)
{
    struct mt_json json = {0};
    struct mt_json_node root;
    struct mt_json_node list;
    struct mt_served_model *model = NULL;
    struct mt_id_list ids = {.ctx = serving->ctx};
    struct mt_byte_list decoded = {.ctx = serving->ctx};
    enum mt_status status = read_body(serving, body, bytes, &json, &root);
    if (status == MT_OK) status = find_model(serving, &root, reply, &model);
    if (status == MT_OK) status = mt_json_get_array(&root, "tokens", &list);
    if (status == MT_OK) status = read_ids(&list, &ids);
    if (status == MT_OK)
        status = mt_tokenizer_decode(model->session.tokenizer, serving->ctx, ids.data, ids.count,
                                     MT_DECODE_PLAIN, &decoded);
    if (status == MT_OK) {
        mt_json_text_format(&reply->text, "{\"prompt\": ");
        mt_json_text_bytes(&reply->text, decoded.data, decoded.count);
        mt_json_text_format(&reply->text, "}\n");
    }
    mt_byte_list_free(&decoded);
    mt_id_list_free(&ids);
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ figures

/* The busiest expert's load over the mean, less 1. */
static double max_violation(const struct mt_routing_loads *loads, int experts)
{
    int64_t most = 0;
    int64_t all = 0;
    for (int i = 0; i < experts; i++) {
        most = loads->load[i] > most ? loads->load[i] : most;
        all += loads->load[i];
    }
    return all > 0 ? (double)most * (double)experts / (double)all - 1.0 : 0.0;
}

static double effective_experts(const struct mt_routing_loads *loads)
{
    return loads->squares > 0.0 ? (double)loads->tokens / loads->squares : 0.0;
}

static void put_metric_head(struct mt_json_text *text, const char *name, const char *kind, const char *help)
{
    mt_json_text_format(text, "# HELP %s %s\n", name, help);
    mt_json_text_format(text, "# TYPE %s %s\n", name, kind);
}

static const struct layer_metric {
    const char *name, *kind, *help;
} layer_metrics[] = {
    {"metier_expert_slots_total", "counter", "Tokens an expert was chosen for."},
    {"metier_max_violation", "gauge", "Load of the busiest expert over the mean, less 1."},
    {"metier_effective_experts", "gauge", "Experts that do a token's work: 1 / mean sum w^2."},
};

static void put_layer_metrics(const struct mt_served_model *model, int which, struct mt_json_text *text)
{
    const char *name = layer_metrics[which].name;
    int experts = mt_routing_log_experts(model->log);
    for (int i = 0; i < mt_routing_log_layers(model->log); i++) {
        const struct mt_routing_loads loads = mt_routing_log_loads(model->log, i);
        if (which > 0) {
            mt_json_text_format(text, "%s{model=\"%s\",layer=\"%" PRId64 "\"} ", name, model->name,
                                loads.layer);
            mt_json_text_rounded(text,
                                 which == 1 ? max_violation(&loads, experts) : effective_experts(&loads), 6);
            mt_json_text_format(text, "\n");
        }
        for (int k = 0; which == 0 && k < experts; k++)
            mt_json_text_format(text, "%s{model=\"%s\",layer=\"%" PRId64 "\",expert=\"%d\"} %" PRId64 "\n",
                                name, model->name, loads.layer, k, loads.load[k]);
    }
}

/* One figure a model. */
static const struct model_metric {
    const char *name, *kind, *help;
} model_metrics[] = {
    {"metier_requests_total", "counter", "Requests for text that were taken."},
    {"metier_prompt_tokens_total", "counter", "Tokens of prompts that were computed."},
    {"metier_generated_tokens_total", "counter", "Tokens that were written."},
    {"metier_requests_running", "gauge", "Requests that are being answered."},
    {"metier_sequences_running", "gauge", "Answers in the engine."},
};

static int64_t model_figure(const struct mt_served_model *model, size_t which)
{
    const struct mt_engine_counts counts = mt_engine_counts(model->session.engine);
    const int64_t figures[] = {model->requests, counts.prompt_tokens, counts.generated_tokens, model->asks,
                               (int64_t)mt_engine_requests(model->session.engine)};
    return figures[which];
}

static enum mt_status put_metrics(struct mt_serving *serving, const void *body, size_t bytes,
                                  struct mt_reply *reply)
{
    (void)body;
    (void)bytes;
    struct mt_json_text *text = &reply->text;
    const struct mt_served_model *first = serving->models.first;
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    put_metric_head(text, "metier_requests_refused_total", "counter", "Requests that were refused.");
    mt_json_text_format(text, "metier_requests_refused_total %" PRIu64 "\n", serving->refused);
    put_metric_head(text, "metier_request_bytes", "gauge",
                    "Memory of requests for text that are not answered.");
    mt_json_text_format(text, "metier_request_bytes %zu\n", serving->requests.live_bytes);
    for (size_t i = 0; i < sizeof model_metrics / sizeof model_metrics[0]; i++) {
        const struct model_metric *metric = &model_metrics[i];
        put_metric_head(text, metric->name, metric->kind, metric->help);
        for (const struct mt_served_model *model = first; model != NULL; model = model->next) {
            if (model->leaving) continue; // another may have its name
            mt_json_text_format(text, "%s{model=\"%s\"} %" PRId64 "\n", metric->name, model->name,
                                model_figure(model, i));
        }
    }
    for (int i = 0; i < (int)(sizeof layer_metrics / sizeof layer_metrics[0]); i++) {
        put_metric_head(text, layer_metrics[i].name, layer_metrics[i].kind, layer_metrics[i].help);
        for (const struct mt_served_model *model = first; model != NULL; model = model->next) {
            if (!model->leaving && model->log != NULL) put_layer_metrics(model, i, text);
        }
    }
    return text->status;
}

/* Loads of every layer, for the page. */
static enum mt_status put_experts(struct mt_serving *serving, const void *body, size_t bytes,
                                  struct mt_reply *reply)
{
    (void)body;
    (void)bytes;
    struct mt_json_text *text = &reply->text;
    mt_json_text_format(text, "{");
    for (const struct mt_served_model *model = serving->models.first; model != NULL; model = model->next) {
        if (model->leaving) continue;
        mt_json_text_format(text, model == serving->models.first ? "" : ", "); // which never leaves
        mt_json_text_string(text, model->name);
        mt_json_text_format(text, ": [");
        for (int i = 0; model->log != NULL && i < mt_routing_log_layers(model->log); i++) {
            const struct mt_routing_loads loads = mt_routing_log_loads(model->log, i);
            mt_json_text_format(text, "%s{\"layer\": %" PRId64 ", \"loads\": [", i > 0 ? ", " : "",
                                loads.layer);
            for (int k = 0; k < mt_routing_log_experts(model->log); k++)
                mt_json_text_format(text, "%s%" PRId64, k > 0 ? ", " : "", loads.load[k]);
            mt_json_text_format(text, "]}");
        }
        mt_json_text_format(text, "]");
    }
    return mt_json_text_format(text, "}\n");
}

static enum mt_status put_page(struct mt_serving *serving, const void *body, size_t bytes,
                               struct mt_reply *reply)
{
    (void)body;
    (void)bytes;
    reply->type = "text/html; charset=utf-8";
    if (serving->options->page == NULL) {
        reply->code = 404;
        return mt_fail(serving->ctx, MT_ERR_USAGE, "the page was not installed with the program");
    }
    reply->raw = serving->options->page;
    reply->raw_bytes = serving->options->page_bytes;
    return MT_OK;
}

// ------------------------------------------------------------------ the table

static const struct mt_route routes[] = {
    {"GET", "/", put_page},
    {"GET", "/v1/models", list_models},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/v1/load_lora_adapter", load_adapter},
    {"POST", "/v1/unload_lora_adapter", unload_adapter},
    {"GET", "/metrics", put_metrics},
    {"GET", "/metier/experts", put_experts},
};

const struct mt_route *mt_route_find(const char *method, const char *path, bool *path_known)
{
    *path_known = strcmp(path, "/v1/completions") == 0 || strcmp(path, "/v1/chat/completions") == 0;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(routes[i].path, path) != 0) continue;
        *path_known = true;
        if (strcmp(routes[i].method, method) == 0) return &routes[i];
    }
    return NULL;
}
