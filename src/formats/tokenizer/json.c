/*
 * Reading tokenizer.json: the model (BPE only), the post-processor, the added tokens; normalizer,
 * pre-tokenizer and decoder have readers of their own.
 */
#include "formats/text/printable.h"
#include "formats/tokenizer/private.h"

// A vocabulary of a million tokens with its merges stays below these.
static const struct mt_json_limits limits = {
    .max_bytes = (size_t)256 * 1024 * 1024,
    .max_values = 6000000,
    .max_depth = 32,
};

#define MAX_ADDED_BYTES  1024    // of one added token
#define ADDED_BEYOND     1048576 // ids of added tokens past the vocabulary, at most
#define MAX_TEMPLATE_IDS 1024

// ------------------------------------------------------------------ the model

static enum mt_status read_options(const struct mt_json_node *model, struct mt_bpe *bpe)
{
    struct {
        const char *key;
        struct mt_byte_list *text;
    } texts[] = {
        {"unk_token", &bpe->unk_token},
        {"continuing_subword_prefix", &bpe->continuing_subword_prefix},
        {"end_of_word_suffix", &bpe->end_of_word_suffix},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *value = "";
        enum mt_status status = mt_json_optional_string(model, texts[i].key, &value);
        if (status == MT_OK) status = mt_byte_list_append_text(texts[i].text, value);
        if (status != MT_OK) return status;
    }
    double dropout = 0.0;
    enum mt_status status = mt_json_optional_bool(model, "fuse_unk", &bpe->fuse_unk);
    if (status == MT_OK) status = mt_json_optional_bool(model, "byte_fallback", &bpe->byte_fallback);
    if (status == MT_OK) status = mt_json_optional_bool(model, "ignore_merges", &bpe->ignore_merges);
    if (status == MT_OK) status = mt_json_optional_real(model, "dropout", 0.0, 1.0, &dropout);
    if (status != MT_OK) return status;
    if (dropout > 0.0) {
        return mt_fail(model->ctx, MT_ERR_UNSUPPORTED,
                       "%s: model.dropout is %g: ids drawn at random are not supported", model->file,
                       dropout);
    }
    return MT_OK;
}

static enum mt_status read_vocabulary(const struct mt_json_node *model, struct mt_bpe *bpe)
{
    struct mt_json_node vocab;
    struct mt_json_node entry;
    int64_t id = 0;
    int64_t highest = -1;
    enum mt_status status = mt_json_get_object(model, "vocab", &vocab);
    if (status != MT_OK) return status;
    void *position = NULL;
    while (mt_json_next(&vocab, &position, &entry)) {
        status = mt_json_as_integer(&entry, 0, MT_MAX_TOKENS - 1, &id);
        if (status != MT_OK) return status;
        if (id > highest) highest = id;
    }
    status = mt_vocabulary_init(bpe->ctx, mt_json_count(&vocab), (size_t)(highest + 1), &bpe->vocabulary);
    position = NULL;
    while (status == MT_OK && mt_json_next(&vocab, &position, &entry)) {
        status = mt_json_as_integer(&entry, 0, MT_MAX_TOKENS - 1, &id);
        if (status == MT_OK)
            status = mt_vocabulary_add(&bpe->vocabulary, entry.key, strlen(entry.key), (int32_t)id);
    }
    return status == MT_ERR_FORMAT ? mt_fail_within(bpe->ctx, status, "%s", model->file) : status;
}

struct merge_text {
    const char *left;
    size_t left_bytes;
    const char *right;
    size_t right_bytes;
};

/* One merge as the file has it: "left right", or ["left", "right"]. */
static enum mt_status read_merge(const struct mt_json_node *node, struct merge_text *merge)
{
    if (mt_json_kind(node) == MT_JSON_ARRAY && mt_json_count(node) == 2) {
        struct mt_json_node left = mt_json_element(node, 0);
        struct mt_json_node right = mt_json_element(node, 1);
        enum mt_status status = mt_json_as_string(&left, &merge->left);
        if (status == MT_OK) status = mt_json_as_string(&right, &merge->right);
        if (status != MT_OK) return status;
        merge->left_bytes = strlen(merge->left);
        merge->right_bytes = strlen(merge->right);
        return MT_OK;
    }
    const char *text = NULL;
    enum mt_status status = mt_json_as_string(node, &text);
    if (status != MT_OK) return status;
    const char *space = strchr(text, ' ');
    if (space == NULL || strchr(space + 1, ' ') != NULL) {
        return mt_json_fail(node, "is '%s', expected two tokens with one space between",
                            mt_printable(text).text);
    }
    *merge = (struct merge_text){text, (size_t)(space - text), space + 1, strlen(space + 1)};
    return MT_OK;
}

static enum mt_status unknown_token(const struct mt_json_node *node, const struct merge_text *merge)
{
    return mt_json_fail(node, "merges '%s' and '%s', which the vocabulary lacks, or lacks the result of",
                        mt_printable_bytes(merge->left, merge->left_bytes).text,
                        mt_printable_bytes(merge->right, merge->right_bytes).text);
}

/* Adds a merge whose tokens, and whose result, must be in the vocabulary. */
static enum mt_status add_merge(const struct mt_json_node *node, struct mt_bpe *bpe, uint32_t rank,
                                struct mt_byte_list *joined)
{
    struct merge_text merge;
    enum mt_status status = read_merge(node, &merge);
    if (status != MT_OK) return status;
    int32_t left = mt_vocabulary_find(&bpe->vocabulary, merge.left, merge.left_bytes);
    int32_t right = mt_vocabulary_find(&bpe->vocabulary, merge.right, merge.right_bytes);
    size_t prefix = bpe->continuing_subword_prefix.count;
    if (left < 0 || right < 0 || merge.right_bytes < prefix) return unknown_token(node, &merge);
    joined->count = 0;
    status = mt_byte_list_append(joined, merge.left, merge.left_bytes);
    if (status == MT_OK)
        status = mt_byte_list_append(joined, merge.right + prefix, merge.right_bytes - prefix);
    if (status != MT_OK) return status;
    int32_t id = mt_vocabulary_find(&bpe->vocabulary, joined->data, joined->count);
    if (id < 0) return unknown_token(node, &merge);
    mt_bpe_add_merge(bpe, left, right, rank, id);
    return MT_OK;
}

static bool is_version_line(const struct mt_json_node *node)
{
    const char *text = NULL;
    if (mt_json_kind(node) != MT_JSON_STRING || mt_json_as_string(node, &text) != MT_OK) return false;
    return strncmp(text, "#version", 8) == 0;
}

static enum mt_status read_merges(const struct mt_json_node *model, struct mt_bpe *bpe)
{
    struct mt_json_node merges;
    enum mt_status status = mt_json_get_array(model, "merges", &merges);
    if (status != MT_OK) return status;
    size_t count = mt_json_count(&merges);
    if (count >= UINT32_MAX) return mt_json_fail(&merges, "has too many entries");
    status = mt_bpe_reserve_merges(bpe, count);
    struct mt_byte_list joined = {.ctx = bpe->ctx};
    uint32_t rank = 0;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        struct mt_json_node merge = mt_json_element(&merges, i);
        if (is_version_line(&merge)) continue;
        status = add_merge(&merge, bpe, rank, &joined);
        rank++;
    }
    mt_byte_list_free(&joined);
    return status;
}

static enum mt_status read_model(const struct mt_json_node *model, struct mt_bpe *bpe)
{
    const char *type = "BPE";
    enum mt_status status = mt_json_optional_string(model, "type", &type);
    if (status != MT_OK) return status;
    if (strcmp(type, "BPE") != 0) {
        return mt_fail(model->ctx, MT_ERR_UNSUPPORTED,
                       "%s: the model type '%s' is not supported, only BPE is", model->file,
                       mt_printable(type).text);
    }
    status = read_options(model, bpe);
    if (status == MT_OK) status = read_vocabulary(model, bpe);
    if (status == MT_OK) status = read_merges(model, bpe);
    return status == MT_OK ? mt_bpe_finish(bpe) : status;
}

// ------------------------------------------------------------------ the post-processor: the ids put around
// those of the text

/* Appends the ids of a special token the template names. */
static enum mt_status append_special(const struct mt_json_node *template_node,
                                     const struct mt_json_node *piece, struct mt_id_list *ids)
{
    const char *name = NULL;
    struct mt_json_node tokens;
    struct mt_json_node token;
    struct mt_json_node list;
    enum mt_status status = mt_json_get_string(piece, "id", &name);
    if (status == MT_OK) status = mt_json_get_object(template_node, "special_tokens", &tokens);
    if (status == MT_OK) status = mt_json_get_object(&tokens, name, &token);
    if (status == MT_OK) status = mt_json_get_array(&token, "ids", &list);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&list); i++) {
        struct mt_json_node element = mt_json_element(&list, i);
        int64_t id = 0;
        status = mt_json_as_integer(&element, 0, MT_MAX_TOKENS - 1, &id);
        if (status == MT_OK && ids->count >= MAX_TEMPLATE_IDS) {
            return mt_json_fail(template_node, "has more than %d ids", MAX_TEMPLATE_IDS);
        }
        if (status == MT_OK) status = mt_id_list_append(ids, (int32_t)id);
    }
    return status;
}

static enum mt_status read_template(const struct mt_json_node *node, struct mt_id_list *ids)
{
    struct mt_json_node single;
    enum mt_status status = mt_json_get_array(node, "single", &single);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&single); i++) {
        struct mt_json_node element = mt_json_element(&single, i);
        struct mt_json_node piece;
        status = mt_json_expect_object(&element);
        if (status != MT_OK) return status;
        if (mt_json_has(&element, "SpecialToken")) {
            status = mt_json_get_object(&element, "SpecialToken", &piece);
            if (status == MT_OK) status = append_special(node, &piece, ids);
            continue;
        }
        const char *name = NULL;
        status = mt_json_get_object(&element, "Sequence", &piece);
        if (status == MT_OK) status = mt_json_get_string(&piece, "id", &name);
        if (status != MT_OK) return status;
        if (strcmp(name, "A") != 0)
            return mt_json_fail(&piece, "names the sequence '%s', expected 'A'", mt_printable(name).text);
        if (ids->count >= MAX_TEMPLATE_IDS)
            return mt_json_fail(node, "has more than %d ids", MAX_TEMPLATE_IDS);
        status = mt_id_list_append(ids, MT_TEMPLATE_TEXT);
    }
    return status;
}

struct template_reading {
    struct mt_id_list *ids;
    bool found; // a TemplateProcessing
};

static enum mt_status read_processor(const struct mt_json_node *node, const char *type, void *self)
{
    struct template_reading *reading = self;
    if (strcmp(type, "ByteLevel") == 0) return MT_OK; // concerns offsets, which we do not have
    if (strcmp(type, "TemplateProcessing") != 0)
        return mt_fail(node->ctx, MT_ERR_UNSUPPORTED, "%s: the post_processor type '%s' is not supported",
                       node->file, mt_printable(type).text);
    if (reading->found) return mt_json_fail(node, "is a second TemplateProcessing; one is supported");
    reading->found = true;
    return read_template(node, reading->ids);
}

static enum mt_status read_post_processor(const struct mt_json_node *node, struct mt_id_list *ids)
{
    struct template_reading reading = {.ids = ids};
    enum mt_status status = mt_component_walk(node, "processors", read_processor, &reading);
    if (status == MT_OK && !reading.found) status = mt_id_list_append(ids, MT_TEMPLATE_TEXT);
    return status;
}

// ------------------------------------------------------------------ added tokens

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

// ------------------------------------------------------------------ the file

static enum mt_status read_root(struct mt_tokenizer *t, const struct mt_json_node *root)
{
    struct mt_json_node part;
    const char *version = "1.0";
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_optional_string(root, "version", &version);
    if (status == MT_OK && strcmp(version, "1.0") != 0) {
        return mt_json_fail(root, "has version '%s', expected '1.0'", mt_printable(version).text);
    }
    if (status == MT_OK) status = mt_json_get_object(root, "model", &part);
    if (status == MT_OK) status = read_model(&part, &t->bpe);
    if (status != MT_OK) return status;
    (void)mt_json_member(root, "normalizer", &part);
    status = mt_normalizer_read(&part, &t->normalizer);
    if (status != MT_OK) return status;
    (void)mt_json_member(root, "pre_tokenizer", &part);
    status = mt_splitter_read(&part, &t->splitter);
    if (status != MT_OK) return status;
    (void)mt_json_member(root, "post_processor", &part);
    status = read_post_processor(&part, &t->template_ids);
    if (status != MT_OK) return status;
    (void)mt_json_member(root, "decoder", &part);
    status = mt_decoder_read(&part, &t->decoder);
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
