/* Reading the "model" of a tokenizer.json: BPE only. */
#include "formats/text/printable.h"
#include "formats/tokenizer/parts.h"

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

enum mt_status mt_bpe_read(const struct mt_json_node *model, struct mt_bpe *bpe)
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
