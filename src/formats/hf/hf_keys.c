/* Rows of keys. */
#include "formats/hf/hf_keys.h"

#include <string.h>

#include "formats/text/printable.h"

static enum mt_status read_word(const struct mt_json_node *object, const struct mt_hf_key *key, void *field)
{
    const char *text = NULL;
    enum mt_status status = mt_json_optional_string(object, key->name, &text);
    if (status != MT_OK || text == NULL) return status;
    for (const struct mt_hf_word *word = key->words; word->text != NULL; word++) {
        if (strcmp(word->text, text) != 0) continue;
        memcpy(field, &word->value, sizeof word->value); // enums are as large as int
        return MT_OK;
    }
    struct mt_json_node node;
    (void)mt_json_member(object, key->name, &node);
    (void)mt_json_fail(&node, "is \"%s\", which is not known here", mt_printable(text).text);
    return MT_ERR_UNSUPPORTED;
}

static enum mt_status read_integer(const struct mt_json_node *object, const struct mt_hf_key *key,
                                   int64_t *field)
{
    struct mt_json_node node;
    bool is_null = mt_json_member(object, key->name, &node) && mt_json_kind(&node) == MT_JSON_NULL;
    if (is_null && key->null != MT_HF_NULL_ABSENT) *field = key->null == MT_HF_NULL_ZERO ? 0 : -1;
    if (!key->required && !mt_json_has(object, key->name)) return MT_OK;
    return mt_json_get_integer(object, key->name, (int64_t)key->min, (int64_t)key->max, field);
}

static enum mt_status read_key(const struct mt_json_node *object, const struct mt_hf_key *key, void *field)
{
    switch (key->kind) {
    case MT_HF_KEY_INTEGER: return read_integer(object, key, field);
    case MT_HF_KEY_REAL: return mt_json_optional_real(object, key->name, key->min, key->max, field);
    case MT_HF_KEY_BOOL: return mt_json_optional_bool(object, key->name, field);
    case MT_HF_KEY_WORD: return read_word(object, key, field);
    }
    return MT_OK;
}

enum mt_status mt_hf_read_keys(const struct mt_json_node *object, const struct mt_hf_key *keys, size_t count,
                               void *fields)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = read_key(object, &keys[i], (char *)fields + keys[i].offset);
    }
    return status;
}

enum mt_status mt_hf_read_integers(const struct mt_json_node *object, const char *key, int64_t max,
                                   struct mt_arena *arena, const int64_t **list, size_t *count)
{
    struct mt_json_node node;
    *list = NULL;
    *count = 0;
    if (!mt_json_has(object, key)) return MT_OK;
    (void)mt_json_member(object, key, &node);
    bool single = mt_json_kind(&node) != MT_JSON_ARRAY;
    size_t items = single ? 1 : mt_json_count(&node);
    enum mt_status status = MT_OK;
    int64_t *values = mt_arena_array(arena, items, sizeof *values, &status);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < items; i++) {
        struct mt_json_node item = single ? node : mt_json_element(&node, i);
        status = mt_json_as_integer(&item, 0, max, &values[i]);
        if (status != MT_OK) return status;
    }
    *list = values;
    *count = items;
    return MT_OK;
}
