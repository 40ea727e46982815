/* Keys of metier train in a comparison's file: maps become words. */
#include <stdio.h>
#include <string.h>

#include "compare/settings_parts.h"

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
    void *memory = NULL;
    char *copy = NULL;
    enum mt_status status = MT_OK;
    if (words->word == NULL) {
        status = mt_arena_allocate(arena, MOST_WORDS * sizeof *words->word, &memory);
        if (status != MT_OK) return status;
        words->word = memory;
    }
    status = mt_arena_copy_text(arena, word, strlen(word), &copy);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < words->count; i++) {
        if (!same_key(words->word[i], word)) continue;
        words->word[i] = copy;
        return MT_OK;
    }
    if (words->count == MOST_WORDS)
        return mt_fail(arena->ctx, MT_ERR_USAGE, "more than %d keys of training", MOST_WORDS);
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

enum mt_status mt_compare_check_word(const struct mt_compare_reader *reader, const struct mt_yaml_node *node,
                                     const char *word, bool of_method)
{
    const char *where = of_method ? "a method" : "training";
    for (size_t i = 0; i < sizeof decided / sizeof decided[0]; i++) {
        if (!same_key(word, decided[i].key)) continue;
        if (of_method && strcmp(decided[i].key, "method") == 0) continue;
        if (node != NULL)
            return mt_compare_fail(reader, node, "%s has %s, which it does not decide: %s", where,
                                   decided[i].key, decided[i].by);
        return mt_fail(reader->ctx, MT_ERR_USAGE, "training.%s: training does not decide %s: %s", word,
                       decided[i].key, decided[i].by);
    }
    return MT_OK;
}

/* Appends a scalar as YAML reads it back. False: no room. */
static bool append_scalar(char text[TEXT_BYTES], size_t *length, const struct mt_yaml_node *node)
{
    size_t at = *length;
    if (node->quoted && at + 1 < TEXT_BYTES) text[at++] = '\'';
    for (const char *c = node->text; *c != '\0'; c++) {
        if (at + 3 >= TEXT_BYTES) return false;
        text[at++] = *c;
        if (node->quoted && *c == '\'') text[at++] = '\'';
    }
    if (at + 2 >= TEXT_BYTES) return false;
    if (node->quoted) text[at++] = '\'';
    text[at] = '\0';
    *length = at;
    return true;
}

/* A scalar, or a list of them: "[a, b]". */
static enum mt_status value_text(const struct mt_compare_reader *reader, const struct mt_yaml_node *node,
                                 char text[TEXT_BYTES])
{
    size_t length = 0;
    bool fits = true;
    if (node->kind == MT_YAML_SCALAR) {
        fits = append_scalar(text, &length, node);
    } else {
        text[length++] = '[';
        for (const struct mt_yaml_node *child = node->first; child != NULL && fits; child = child->next) {
            if (child->kind != MT_YAML_SCALAR)
                return mt_compare_fail(reader, child, "%s in a list, expected plain values",
                                       mt_yaml_kind_text(child));
            if (child != node->first) text[length++] = ',';
            fits = append_scalar(text, &length, child) && length + 2 < TEXT_BYTES;
        }
        text[length++] = ']';
        text[length] = '\0';
    }
    return fits ? MT_OK : mt_compare_fail(reader, node, "longer than %d characters", TEXT_BYTES);
}

/* Recursion is as deep as the tree, which is bounded. */
enum mt_status mt_compare_take_words(const struct mt_compare_reader *reader, const char *prefix,
                                     const struct mt_yaml_node *map, bool of_method,
                                     struct mt_compare_words *words)
{
    enum mt_status status = MT_OK;
    for (const struct mt_yaml_node *child = map->first; child != NULL && status == MT_OK;
         child = child->next) {
        char name[NAME_BYTES];
        char text[TEXT_BYTES];
        int length = snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", child->key);
        if (length < 0 || (size_t)length >= sizeof name)
            return mt_compare_fail(reader, child, "a key of more than %d characters", NAME_BYTES);
        if (child->kind == MT_YAML_MAP) {
            status = mt_compare_take_words(reader, name, child, of_method, words);
            continue;
        }
        status = mt_compare_check_word(reader, child, name, of_method);
        if (status == MT_OK) status = value_text(reader, child, text);
        if (status == MT_OK) status = mt_compare_set_word(reader->arena, words, name, text);
    }
    return status;
}
