/* Keys of metier train in a comparison's file: maps become words. */
#include "compare/settings/words.h"

#include <string.h>

#define MOST_WORDS 128
#define NAME_BYTES 128
#define TEXT_BYTES 4096

static bool same_key(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return length == strcspn(b, "=") && memcmp(a, b, length) == 0;
}

enum mt_status mt_compare_add_word(struct mt_arena *arena, struct mt_compare_words *words, const char *word)
{
    const char *copy = NULL;
    enum mt_status status = MT_OK;
    if (words->word == NULL) {
        words->word = mt_arena_array(arena, MOST_WORDS, sizeof *words->word, &status);
        if (status != MT_OK) return status;
    }
    status = mt_arena_copy_text(arena, word, strlen(word), &copy);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < words->count; i++) {
        if (!same_key(words->word[i], word)) continue;
        words->word[i] = copy;
        return MT_OK;
    }
    if (words->count == MOST_WORDS)
        return mt_fail(arena->ctx, MT_ERR_USAGE, "more than %d keys under training", MOST_WORDS);
    words->word[words->count++] = copy;
    return MT_OK;
}

enum mt_status mt_compare_set_word(struct mt_arena *arena, struct mt_compare_words *words, const char *key,
                                   const char *value)
{
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof text, "%s=%s", key, value);
    if (length < 0 || (size_t)length >= sizeof text)
        return mt_fail(arena->ctx, MT_ERR_USAGE, "%s is longer than %d characters", key, TEXT_BYTES);
    return mt_compare_add_word(arena, words, text);
}

/* Keys of metier train that a comparison decides for every cell, and by what. */
static const struct {
    const char *key, *by;
} decided[] = {
    {"model", "its own key model does"},       {"out", "its own key out does"},
    {"data.path", "its own key domains does"}, {"data.sources", "its own key domains does"},
    {"seed", "its own key seeds does"},        {"device", "its own key device does"},
    {"threads", "its own key threads does"},   {"log.every", "every step is logged, for the curves"},
    {"method", "its own key methods does"},
};

enum mt_status mt_compare_check_word(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     const struct mt_yaml_node *node, const char *word, bool of_method)
{
    for (size_t i = 0; i < sizeof decided / sizeof decided[0]; i++) {
        if (!same_key(word, decided[i].key)) continue;
        if (of_method && strcmp(decided[i].key, "method") == 0) continue;
        return mt_key_fail(reader, entry, node, "%s has %s, which it does not decide: %s",
                           of_method ? "a method" : "training", decided[i].key, decided[i].by);
    }
    return MT_OK;
}

/* Appends a scalar as YAML reads it back: "a, b" in a line of its own is one text, within brackets two. */
static enum mt_status append_scalar(struct mt_byte_list *text, const struct mt_yaml_node *node)
{
    const char *unsigned_text = node->text + (node->text[0] == '-' || node->text[0] == '+');
    bool as_is = !node->quoted && (mt_yaml_is_nothing(node) || mt_key_is_plain(unsigned_text));
    return as_is ? mt_byte_list_append_text(text, node->text) : mt_key_append_quoted(node->text, text);
}

/* A scalar, or a list of them: "[a,b]". */
static enum mt_status append_value(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   const struct mt_yaml_node *node, struct mt_byte_list *text)
{
    if (node->kind == MT_YAML_SCALAR) return append_scalar(text, node);
    enum mt_status status = mt_byte_list_append_text(text, "[");
    for (const struct mt_yaml_node *child = node->first; child != NULL && status == MT_OK;
         child = child->next) {
        if (child->kind != MT_YAML_SCALAR)
            return mt_key_fail(reader, entry, child, "%s in a list, expected plain values",
                               mt_yaml_kind_text(child));
        if (child != node->first) status = mt_byte_list_append_text(text, ",");
        if (status == MT_OK) status = append_scalar(text, child);
    }
    return status == MT_OK ? mt_byte_list_append_text(text, "]") : status;
}

/* Recursion is as deep as the tree, which is bounded. */
static enum mt_status take_map(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                               const char *prefix, const struct mt_yaml_node *map, bool of_method,
                               struct mt_compare_words *words)
{
    enum mt_status status = MT_OK;
    for (const struct mt_yaml_node *child = map->first; child != NULL && status == MT_OK;
         child = child->next) {
        char name[NAME_BYTES];
        int length = snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", child->key);
        if (length < 0 || (size_t)length >= sizeof name)
            return mt_key_fail(reader, entry, child, "a key of more than %d characters", NAME_BYTES);
        if (of_method && strcmp(name, "name") == 0) continue;
        if (child->kind == MT_YAML_MAP) {
            status = take_map(reader, entry, name, child, of_method, words);
            continue;
        }
        struct mt_byte_list text = {.ctx = reader->ctx};
        status = mt_compare_check_word(reader, entry, child, name, of_method);
        if (status == MT_OK) status = mt_byte_list_append_text(&text, name);
        if (status == MT_OK) status = mt_byte_list_append_text(&text, "=");
        if (status == MT_OK) status = append_value(reader, entry, child, &text);
        if (status == MT_OK) status = mt_byte_list_append(&text, "", 1);
        if (status == MT_OK) status = mt_compare_add_word(reader->arena, words, (const char *)text.data);
        mt_byte_list_free(&text);
    }
    return status;
}

enum mt_status mt_compare_take_words(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     bool of_method, struct mt_compare_words *words)
{
    return take_map(reader, entry, "", entry->node, of_method, words);
}
