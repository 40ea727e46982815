/*
 * Post-processors: the ids put around those of the text. TemplateProcessing is kept as a list of ids with a
 * mark for the text; ByteLevel only concerns offsets, which we do not have.
 */
#include "formats/text/printable.h"
#include "formats/tokenizer/parts.h"

#define MAX_NESTING      8
#define MAX_TEMPLATE_IDS 1024

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

static enum mt_status read_node(const struct mt_json_node *node, int depth, struct mt_id_list *ids,
                                bool *seen)
{
    const char *type = NULL;
    if (mt_json_kind(node) == MT_JSON_NULL) return MT_OK;
    enum mt_status status = mt_json_expect_object(node);
    if (status == MT_OK) status = mt_json_get_string(node, "type", &type);
    if (status != MT_OK) return status;
    if (strcmp(type, "ByteLevel") == 0) return MT_OK;
    if (strcmp(type, "TemplateProcessing") == 0) {
        if (*seen) return mt_json_fail(node, "is a second TemplateProcessing; one is supported");
        *seen = true;
        return read_template(node, ids);
    }
    if (strcmp(type, "Sequence") != 0) {
        return mt_fail(node->ctx, MT_ERR_UNSUPPORTED, "%s: the post_processor type '%s' is not supported",
                       node->file, mt_printable(type).text);
    }
    if (depth == MAX_NESTING) return mt_json_fail(node, "nests too deeply");
    struct mt_json_node list;
    status = mt_json_get_array(node, "processors", &list);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&list); i++) {
        struct mt_json_node element = mt_json_element(&list, i);
        status = read_node(&element, depth + 1, ids, seen);
    }
    return status;
}

enum mt_status mt_template_read(const struct mt_json_node *node, struct mt_id_list *ids)
{
    bool seen = false;
    enum mt_status status = read_node(node, 0, ids, &seen);
    if (status == MT_OK && !seen) status = mt_id_list_append(ids, MT_TEMPLATE_TEXT);
    return status;
}
