/* Reading tokenizer.json: its parts, each by its own reader, and the added tokens. */
#include "formats/text/printable.h"
#include "formats/tokenizer/parts.h"

// A vocabulary of a million tokens with its merges stays below these.
static const struct mt_json_limits limits = {
    .max_bytes = (size_t)256 * 1024 * 1024,
    .max_values = 6000000,
    .max_depth = 32,
};

#define MAX_ADDED_BYTES 1024    // of one added token
#define ADDED_BEYOND    1048576 // ids of added tokens past the vocabulary, at most

/* Settles the id of an added token: the vocabulary's where it is there, else the file's. */
static enum mt_status settle_id(const struct mt_tokenizer *t, const struct mt_json_node *node,
                                const char *content, int64_t id)
{
    int32_t known = mt_vocabulary_find(&t->bpe.vocabulary, content, strlen(content));
    size_t bytes = 0;
    if (known >= 0 && known != id) {
        return mt_json_fail(node, "gives '%s' the id %lld, but the vocabulary gives it %d",
                            mt_printable(content).text, (long long)id, (int)known);
    }
    if (known < 0 && mt_vocabulary_text(&t->bpe.vocabulary, (int32_t)id, &bytes) != NULL) {
        return mt_json_fail(node, "gives '%s' the id %lld, which is another token's",
                            mt_printable(content).text, (long long)id);
    }
    return MT_OK;
}

static enum mt_status read_added_token(struct mt_tokenizer *t, const struct mt_json_node *node)
{
    const char *content = NULL;
    int64_t id = 0;
    enum mt_status status = mt_json_expect_object(node);
    if (status == MT_OK) status = mt_json_get_string(node, "content", &content);
    int64_t most = (int64_t)t->bpe.vocabulary.limit + ADDED_BEYOND;
    if (status == MT_OK) status = mt_json_get_integer(node, "id", 0, most, &id);
    if (status != MT_OK) return status;
    size_t bytes = strlen(content);
    if (bytes == 0) return MT_OK; // the reference passes over these
    if (bytes > MAX_ADDED_BYTES)
        return mt_json_fail(node, "has a content of %zu bytes, at most %d are supported", bytes,
                            MAX_ADDED_BYTES);
    status = settle_id(t, node, content, id);
    struct mt_added_token *token = NULL;
    if (status == MT_OK) status = mt_added_tokens_add(&t->added, content, bytes, (int32_t)id, &token);
    if (status != MT_OK) return status;
    status = mt_json_get_bool(node, "single_word", &token->single_word);
    if (status == MT_OK) status = mt_json_get_bool(node, "lstrip", &token->lstrip);
    if (status == MT_OK) status = mt_json_get_bool(node, "rstrip", &token->rstrip);
    if (status == MT_OK) status = mt_json_get_bool(node, "normalized", &token->normalized);
    if (status == MT_OK) status = mt_json_get_bool(node, "special", &token->special);
    return status;
}

/* What each token is looked for as: its content, normalized where it asks for that. */
static enum mt_status normalize_added(struct mt_tokenizer *t)
{
    struct mt_context *ctx = t->ctx;
    struct mt_normalizer_scratch scratch = {.text.ctx = ctx, .other.ctx = ctx, .points.ctx = ctx};
    enum mt_status status = mt_regex_matcher_create(ctx, &scratch.matcher);
    for (size_t i = 0; status == MT_OK && i < t->added.count; i++) {
        struct mt_added_token *token = &t->added.tokens[i];
        const struct mt_byte_list *found_as = &token->content;
        if (token->normalized && t->normalizer.count != 0) {
            bool at_origin = true;
            status =
                mt_normalize(&t->normalizer, &scratch, token->content.data, token->content.count, &at_origin);
            found_as = &scratch.text;
        }
        if (status == MT_OK) status = mt_byte_list_append(&token->found_as, found_as->data, found_as->count);
    }
    mt_normalizer_scratch_free(&scratch);
    mt_regex_matcher_free(scratch.matcher);
    return status;
}

/* The reference asks whether a token is special by the text it decodes to. */
static enum mt_status mark_special(struct mt_added_tokens *added)
{
    struct mt_vocabulary specials = {0};
    enum mt_status status = mt_vocabulary_init(added->ctx, added->count, added->count, &specials);
    for (size_t i = 0; status == MT_OK && i < added->count; i++) {
        const struct mt_added_token *token = &added->tokens[i];
        if (!token->special) continue;
        if (mt_vocabulary_find(&specials, token->content.data, token->content.count) >= 0) continue;
        status = mt_vocabulary_add(&specials, token->content.data, token->content.count, (int32_t)i);
    }
    for (size_t i = 0; status == MT_OK && i < added->count; i++) {
        struct mt_added_token *token = &added->tokens[i];
        token->decodes_as_special =
            mt_vocabulary_find(&specials, token->found_as.data, token->found_as.count) >= 0;
    }
    mt_vocabulary_free(&specials);
    return status;
}

static enum mt_status read_added(struct mt_tokenizer *t, const struct mt_json_node *root)
{
    struct mt_json_node list;
    bool present = false;
    enum mt_status status = mt_json_optional_array(root, "added_tokens", &list, &present);
    for (size_t i = 0; status == MT_OK && present && i < mt_json_count(&list); i++) {
        struct mt_json_node element = mt_json_element(&list, i);
        status = read_added_token(t, &element);
    }
    if (status == MT_OK) status = normalize_added(t);
    return status == MT_OK ? mark_special(&t->added) : status;
}

/* A member that may be absent, which is the same as null. */
static struct mt_json_node part_of(const struct mt_json_node *root, const char *key, bool *present)
{
    struct mt_json_node node;
    *present = mt_json_member(root, key, &node);
    return node;
}

static enum mt_status read_root(struct mt_tokenizer *t, const struct mt_json_node *root)
{
    struct mt_json_node model;
    const char *version = "1.0";
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_optional_string(root, "version", &version);
    if (status == MT_OK && strcmp(version, "1.0") != 0) {
        return mt_json_fail(root, "has version '%s', expected '1.0'", mt_printable(version).text);
    }
    if (status == MT_OK) status = mt_json_get_object(root, "model", &model);
    if (status == MT_OK) status = mt_bpe_read(&model, &t->bpe);
    if (status != MT_OK) return status;
    bool present = false;
    struct mt_json_node part = part_of(root, "normalizer", &present);
    if (present) status = mt_normalizer_read(&part, &t->normalizer);
    if (status != MT_OK) return status;
    part = part_of(root, "pre_tokenizer", &present);
    if (present) status = mt_splitter_read(&part, &t->splitter);
    if (status != MT_OK) return status;
    part = part_of(root, "post_processor", &present);
    status = present ? mt_template_read(&part, &t->template_ids)
                     : mt_id_list_append(&t->template_ids, MT_TEMPLATE_TEXT);
    if (status != MT_OK) return status;
    part = part_of(root, "decoder", &present);
    if (present) {
        status = mt_decoder_read(&part, &t->decoder);
    } else {
        t->decoder.steps[0] = (struct mt_decoder_step){.kind = MT_DECODER_JOIN_SPACES, .content.ctx = t->ctx};
        t->decoder.count = 1;
    }
    return status == MT_OK ? read_added(t, root) : status;
}

enum mt_status mt_tokenizer_load_json(struct mt_context *ctx, const char *name, const void *text,
                                      size_t bytes, struct mt_tokenizer **tokenizer)
{
    struct mt_json json = {0};
    struct mt_tokenizer *made = NULL;
    *tokenizer = NULL;
    enum mt_status status = mt_json_parse(ctx, name, text, bytes, &limits, &json);
    if (status != MT_OK) return status;
    status = mt_tokenizer_create(ctx, &made);
    if (status == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        status = read_root(made, &root);
    }
    if (status == MT_OK) status = mt_tokenizer_finish(made);
    mt_json_free(&json);
    if (status != MT_OK) {
        mt_tokenizer_free(made);
        return status;
    }
    *tokenizer = made;
    return MT_OK;
}
