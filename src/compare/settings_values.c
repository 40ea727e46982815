/* Values of a comparison's keys: lists of methods, seeds, domains; numbers. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/settings_parts.h"
#include "formats/text/printable.h"
#include "synth/synth.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"
#define MOST_NAME       64

enum mt_status mt_compare_fail(const struct mt_compare_reader *reader, const struct mt_yaml_node *node,
                               const char *format, ...)
{
    char what[MT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return mt_fail(reader->ctx, MT_ERR_USAGE, "%s:%d: %.900s", reader->settings->file, node->line, what);
}

static enum mt_status read_text(const struct mt_compare_reader *reader, const char *key,
                                const struct mt_yaml_node *node, const char **text)
{
    char *copy = NULL;
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node))
        return mt_compare_fail(reader, node, "%s is %s, expected a text", key, mt_yaml_kind_text(node));
    enum mt_status status = mt_arena_copy_text(reader->arena, node->text, strlen(node->text), &copy);
    *text = copy;
    return status;
}

/* A text that names files. */
static enum mt_status read_name(const struct mt_compare_reader *reader, const char *key,
                                const struct mt_yaml_node *node, const char **name)
{
    enum mt_status status = read_text(reader, key, node, name);
    if (status != MT_OK) return status;
    size_t length = strlen(*name);
    if (length <= MOST_NAME && strspn(*name, NAME_CHARACTERS) == length && (*name)[0] != '.') return MT_OK;
    return mt_compare_fail(reader, node, "%s is '%s', expected letters, digits and . _ + -, at most %d", key,
                           mt_printable(*name).text, MOST_NAME);
}

static enum mt_status read_whole(const struct mt_compare_reader *reader, const char *key,
                                 const struct mt_yaml_node *node, int64_t low, int64_t high, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    long long number = node->kind == MT_YAML_SCALAR && !node->quoted ? strtoll(node->text, &end, 10) : 0;
    if (end == NULL || end == node->text || *end != '\0')
        return mt_compare_fail(reader, node, "%s is not a whole number", key);
    if (errno != 0 || number < low || number > high)
        return mt_compare_fail(reader, node, "%s is %s, expected %" PRId64 " to %" PRId64, key,
                               mt_printable(node->text).text, low, high);
    *value = number;
    return MT_OK;
}

/* Visits the elements of a list, or a single value as a list of one. */
static const struct mt_yaml_node *first_of(const struct mt_yaml_node *node)
{
    return node->kind == MT_YAML_LIST ? node->first : node;
}

static const struct mt_yaml_node *next_of(const struct mt_yaml_node *list, const struct mt_yaml_node *node)
{
    return list->kind == MT_YAML_LIST ? node->next : NULL;
}

// ------------------------------------------------------------------ methods

static const struct mt_yaml_node *member(const struct mt_yaml_node *map, const char *key)
{
    const struct mt_yaml_node *child = map->first;
    while (child != NULL && strcmp(child->key, key) != 0) child = child->next;
    return child;
}

/* A map's other keys are those of metier train. */
static enum mt_status read_method_map(const struct mt_compare_reader *reader, const struct mt_yaml_node *map,
                                      struct mt_compare_method *method)
{
    const struct mt_yaml_node *name = member(map, "name");
    struct mt_compare_words words = {0};
    if (name == NULL) return mt_compare_fail(reader, map, "a method without a name");
    enum mt_status status = read_name(reader, "name", name, &method->name);
    if (status == MT_OK) status = mt_compare_set_word(reader->arena, &words, "method", method->name);
    if (status == MT_OK) status = mt_compare_take_words(reader, "", map, true, &words);
    for (size_t i = 0; status == MT_OK && i < words.count; i++) {
        if (strncmp(words.word[i], "name=", 5) == 0) continue;
        status = mt_compare_add_word(reader->arena, &method->words, words.word[i]);
    }
    return status;
}

static enum mt_status add_method(const struct mt_compare_reader *reader, const struct mt_yaml_node *node)
{
    struct mt_compare_settings *settings = reader->settings;
    struct mt_compare_method method = {0};
    enum mt_status status = MT_OK;
    if (settings->methods == MT_COMPARE_MOST_METHODS)
        return mt_compare_fail(reader, node, "more than %d methods", MT_COMPARE_MOST_METHODS);
    if (node->kind == MT_YAML_MAP) {
        status = read_method_map(reader, node, &method);
    } else {
        status = read_name(reader, "a method", node, &method.name);
        if (status == MT_OK)
            status = mt_compare_set_word(reader->arena, &method.words, "method", method.name);
    }
    if (status != MT_OK) return status;
    for (size_t i = 0; i < settings->methods; i++) {
        if (strcmp(settings->method[i].name, method.name) == 0)
            return mt_compare_fail(reader, node, "the method %s comes twice", method.name);
    }
    settings->method[settings->methods++] = method;
    return MT_OK;
}

// ------------------------------------------------------------------ domains

static enum mt_status read_domain_map(const struct mt_compare_reader *reader, const struct mt_yaml_node *map,
                                      struct mt_compare_domain *domain)
{
    enum mt_status status = MT_OK;
    for (const struct mt_yaml_node *child = map->first; child != NULL && status == MT_OK;
         child = child->next) {
        if (strcmp(child->key, "name") == 0) {
            status = read_name(reader, "name", child, &domain->name);
        } else if (strcmp(child->key, "train") == 0 && domain->trained) {
            status = read_text(reader, "train", child, &domain->train);
        } else if (strcmp(child->key, "test") == 0) {
            status = read_text(reader, "test", child, &domain->test);
        } else {
            status = mt_compare_fail(reader, child, "a domain has no key '%s'; expected name, %stest",
                                     mt_printable(child->key).text, domain->trained ? "train, " : "");
        }
    }
    if (status != MT_OK) return status;
    bool whole = domain->test != NULL && (domain->train != NULL || !domain->trained);
    if (domain->name != NULL && whole) return MT_OK;
    return mt_compare_fail(reader, map, "a domain of files needs name, %stest",
                           domain->trained ? "train, " : "");
}

static enum mt_status add_domain(const struct mt_compare_reader *reader, const struct mt_yaml_node *node,
                                 bool trained)
{
    struct mt_compare_settings *settings = reader->settings;
    struct mt_compare_domain domain = {.trained = trained};
    enum mt_task_domain known;
    enum mt_status status = MT_OK;
    if (settings->domains == MT_COMPARE_MOST_DOMAINS)
        return mt_compare_fail(reader, node, "more than %d domains", MT_COMPARE_MOST_DOMAINS);
    if (node->kind == MT_YAML_MAP) {
        status = read_domain_map(reader, node, &domain);
    } else {
        status = read_name(reader, "a domain", node, &domain.name);
        if (status == MT_OK && !mt_synth_domain(domain.name, &known))
            status = mt_compare_fail(reader, node,
                                     "there is no built-in domain '%s': language, reasoning, science, math, "
                                     "code; or give {name: N, %stest: FILE}",
                                     domain.name, trained ? "train: FILE, " : "");
    }
    if (status != MT_OK) return status;
    for (size_t i = 0; i < settings->domains; i++) {
        if (strcmp(settings->domain[i].name, domain.name) == 0)
            return mt_compare_fail(reader, node, "the domain %s comes twice", domain.name);
    }
    settings->domain[settings->domains++] = domain;
    if (trained) settings->trained++;
    return MT_OK;
}

// ------------------------------------------------------------------ numbers

static enum mt_status add_seed(const struct mt_compare_reader *reader, const struct mt_yaml_node *node)
{
    struct mt_compare_settings *settings = reader->settings;
    int64_t seed = 0;
    if (settings->seeds == MT_COMPARE_MOST_SEEDS)
        return mt_compare_fail(reader, node, "more than %d seeds", MT_COMPARE_MOST_SEEDS);
    enum mt_status status = read_whole(reader, "a seed", node, 0, INT64_MAX, &seed);
    for (size_t i = 0; status == MT_OK && i < settings->seeds; i++) {
        if (settings->seed[i] == (uint64_t)seed)
            status = mt_compare_fail(reader, node, "the seed %" PRId64 " comes twice", seed);
    }
    if (status == MT_OK) settings->seed[settings->seeds++] = (uint64_t)seed;
    return status;
}

static enum mt_status add_grid_value(const struct mt_compare_reader *reader, const struct mt_compare_row *row,
                                     const struct mt_yaml_node *node)
{
    double *values = (double *)(void *)((char *)reader->settings + row->offset);
    size_t *count = (size_t *)(void *)((char *)reader->settings + row->count);
    char *end = NULL;
    double value = node->kind == MT_YAML_SCALAR && !node->quoted ? strtod(node->text, &end) : 0.0;
    if (end == NULL || end == node->text || *end != '\0' || !isfinite(value) || value < 0.0)
        return mt_compare_fail(reader, node, "%s is not a number of 0 or more", row->key.name);
    if (*count == MT_COMPARE_MOST_GRID)
        return mt_compare_fail(reader, node, "%s has more than %d values", row->key.name,
                               MT_COMPARE_MOST_GRID);
    for (size_t i = 0; i < *count; i++) {
        if (values[i] == value) return mt_compare_fail(reader, node, "%s has %g twice", row->key.name, value);
    }
    values[(*count)++] = value;
    return MT_OK;
}

static enum mt_status store_list(const struct mt_compare_reader *reader, const struct mt_compare_row *row,
                                 const struct mt_yaml_node *list)
{
    enum mt_status status = MT_OK;
    if (list->kind == MT_YAML_LIST && list->count == 0) return MT_OK;
    for (const struct mt_yaml_node *node = first_of(list); node != NULL && status == MT_OK;
         node = next_of(list, node)) {
        if (row->kind == MT_KEY_METHODS) status = add_method(reader, node);
        if (row->kind == MT_KEY_SEEDS) status = add_seed(reader, node);
        if (row->kind == MT_KEY_DOMAINS) status = add_domain(reader, node, true);
        if (row->kind == MT_KEY_OTHERS) status = add_domain(reader, node, false);
        if (row->kind == MT_KEY_AXIS) status = add_grid_value(reader, row, node);
    }
    return status;
}

enum mt_status mt_compare_store(const struct mt_compare_reader *reader, const struct mt_compare_row *row,
                                const struct mt_yaml_node *node)
{
    void *field = (char *)reader->settings + row->offset;
    switch (row->kind) {
    case MT_KEY_TEXT: return read_text(reader, row->key.name, node, field);
    case MT_KEY_WHOLE: return read_whole(reader, row->key.name, node, row->low, row->high, field);
    case MT_KEY_GRID_METHOD: return read_name(reader, row->key.name, node, &reader->settings->grid.method);
    case MT_KEY_TRAINING:
        if (mt_yaml_is_nothing(node)) return MT_OK;
        if (node->kind != MT_YAML_MAP)
            return mt_compare_fail(reader, node, "training is %s, expected keys of metier train",
                                   mt_yaml_kind_text(node));
        return mt_compare_take_words(reader, "", node, false, &reader->settings->training);
    case MT_KEY_METHODS:
    case MT_KEY_SEEDS:
    case MT_KEY_DOMAINS:
    case MT_KEY_OTHERS:
    case MT_KEY_AXIS: return store_list(reader, row, node);
    }
    return MT_OK;
}
