/* tokenizer_config.json. */
#include "formats/hf/hf_tokenizer_config.h"

#include <string.h>

#include "formats/text/json.h"

#define ARENA_BLOCK_BYTES 8192

/* model_max_length is written as 1000000000000000019884624838656, beyond any integer. */
static const struct mt_json_limits limits = {
    .max_bytes = (size_t)64 << 20,
    .max_values = 4000000,
    .max_depth = 64,
    .integers_as_real = true,
};

static enum mt_status keep(struct mt_hf_tokenizer_config *config, const char *text, const char **kept)
{
    return mt_arena_copy_text(&config->arena, text, strlen(text), kept);
}

/* A token is a string, or an object with the string under "content". */
static enum mt_status read_token(struct mt_hf_tokenizer_config *config, const struct mt_json_node *root,
                                 const char *key, const char **token)
{
    struct mt_json_node node;
    const char *text = NULL;
    if (!mt_json_has(root, key)) return MT_OK;
    (void)mt_json_member(root, key, &node);
    enum mt_status status = mt_json_kind(&node) == MT_JSON_OBJECT
                                ? mt_json_get_string(&node, "content", &text)
                                : mt_json_as_string(&node, &text);
    return status == MT_OK ? keep(config, text, token) : status;
}

static enum mt_status read_template(struct mt_hf_tokenizer_config *config, const char *name, const char *text)
{
    struct mt_hf_template *row = &config->templates[config->template_count++];
    enum mt_status status = keep(config, name, &row->name);
    return status == MT_OK ? keep(config, text, &row->text) : status;
}

/* A string, or a list of {"name": ..., "template": ...}. */
static enum mt_status read_templates(struct mt_hf_tokenizer_config *config, const struct mt_json_node *root)
{
    struct mt_json_node node;
    if (!mt_json_has(root, "chat_template")) return MT_OK;
    (void)mt_json_member(root, "chat_template", &node);
    bool list = mt_json_kind(&node) == MT_JSON_ARRAY;
    size_t count = list ? mt_json_count(&node) : 1;
    enum mt_status status = MT_OK;
    config->templates = mt_arena_array(&config->arena, count, sizeof *config->templates, &status);
    if (status != MT_OK) return status;
    const char *name = "default";
    const char *text = NULL;
    if (!list) {
        status = mt_json_as_string(&node, &text);
        return status == MT_OK ? read_template(config, name, text) : status;
    }
    for (size_t i = 0; i < count; i++) {
        struct mt_json_node item = mt_json_element(&node, i);
        status = mt_json_expect_object(&item);
        if (status == MT_OK) status = mt_json_get_string(&item, "name", &name);
        if (status == MT_OK) status = mt_json_get_string(&item, "template", &text);
        if (status == MT_OK) status = read_template(config, name, text);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status read_all(struct mt_hf_tokenizer_config *config, const struct mt_json_node *root)
{
    const char *class_name = NULL;
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_optional_string(root, "tokenizer_class", &class_name);
    if (status == MT_OK && class_name != NULL) status = keep(config, class_name, &config->tokenizer_class);
    if (status == MT_OK) status = read_token(config, root, "bos_token", &config->bos_token);
    if (status == MT_OK) status = read_token(config, root, "eos_token", &config->eos_token);
    if (status == MT_OK) status = read_token(config, root, "pad_token", &config->pad_token);
    if (status == MT_OK) status = read_token(config, root, "unk_token", &config->unk_token);
    if (status != MT_OK) return status;
    config->has_add_bos = mt_json_has(root, "add_bos_token");
    config->has_add_eos = mt_json_has(root, "add_eos_token");
    status = mt_json_optional_bool(root, "add_bos_token", &config->add_bos);
    if (status == MT_OK) status = mt_json_optional_bool(root, "add_eos_token", &config->add_eos);
    if (status == MT_OK) {
        status = mt_json_optional_real(root, "model_max_length", 0.0, 1e300, &config->model_max_length);
    }
    if (status == MT_OK) status = read_templates(config, root);
    return status;
}

/* From a document, if there is one; frees it. */
static enum mt_status build(struct mt_context *ctx, enum mt_status parsed, struct mt_json *json,
                            struct mt_hf_tokenizer_config *config)
{
    *config = (struct mt_hf_tokenizer_config){0};
    if (parsed != MT_OK) return parsed;
    mt_arena_init(&config->arena, ctx, ARENA_BLOCK_BYTES);
    struct mt_json_node root = mt_json_root(json);
    enum mt_status status = read_all(config, &root);
    mt_json_free(json);
    if (status != MT_OK) mt_hf_tokenizer_config_free(config);
    return status;
}

enum mt_status mt_hf_tokenizer_config_read(struct mt_context *ctx, const char *path, const void *text,
                                           size_t bytes, struct mt_hf_tokenizer_config *config)
{
    struct mt_json json;
    enum mt_status status = text != NULL ? mt_json_parse(ctx, path, text, bytes, &limits, &json)
                                         : mt_json_read(ctx, path, &limits, &json);
    return build(ctx, status, &json, config);
}

void mt_hf_tokenizer_config_free(struct mt_hf_tokenizer_config *config)
{
    if (config->arena.ctx != NULL) mt_arena_free(&config->arena);
    *config = (struct mt_hf_tokenizer_config){0};
}

const char *mt_hf_tokenizer_config_template(const struct mt_hf_tokenizer_config *config, const char *name)
{
    for (size_t i = 0; i < config->template_count; i++) {
        if (strcmp(config->templates[i].name, name) == 0) return config->templates[i].text;
    }
    return NULL;
}
