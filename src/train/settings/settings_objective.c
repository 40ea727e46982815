/* The method and its keys: the row first, then the keys in the order of their table, which alpha leads. */
#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"
#include "train/settings/settings_parts.h"

bool mt_settings_objective_key_counts(const char *name)
{
    return strcmp(name, "c_o") != 0 && strcmp(name, "c_v") != 0;
}

/* The last failure's message, with the place of an entry before it. */
static enum mt_status fail_again(const struct mt_settings_reader *reader,
                                 const struct mt_settings_entry *entry)
{
    char problem[MT_MESSAGE_BYTES];
    (void)snprintf(problem, sizeof problem, "%s", reader->ctx->message);
    return mt_settings_fail(reader, entry, "%s", problem);
}

static enum mt_status store_method(const struct mt_settings_reader *reader)
{
    const struct mt_settings_entry *entry = mt_settings_given(reader, "method");
    const char *name = mt_settings_row_named("method")->standard;
    if (entry != NULL && (entry->node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(entry->node))) {
        return mt_settings_fail(reader, entry, "method is %s, expected the name of one",
                                mt_yaml_kind_text(entry->node));
    }
    if (entry != NULL) name = entry->node->text;
    struct mt_printable shown = mt_printable(name);
    if (mt_objective_config_method(reader->ctx, shown.text, &reader->settings->objective) == MT_OK) {
        return MT_OK;
    }
    return fail_again(reader, entry);
}

/* The text of a value as the objective reads it; NULL: of the wrong type. */
static const char *value_text(const struct mt_objective_key *key, const struct mt_yaml_node *node)
{
    bool number = strstr(key->values, "NUMBER") != NULL;
    bool flag = strcmp(key->values, "false|true") == 0;
    bool automatic = strncmp(key->values, "auto|", 5) == 0 && strcmp(node->text, "auto") == 0;
    if (number && !automatic && (node->quoted || !mt_settings_is_number(node->text))) return NULL;
    if (flag && node->quoted) return NULL;
    if (flag && strcmp(node->text, "yes") == 0) return "true";
    if (flag && strcmp(node->text, "no") == 0) return "false";
    return node->text;
}

static enum mt_status store_key(const struct mt_settings_reader *reader,
                                const struct mt_settings_entry *entry, const struct mt_objective_key *key)
{
    const struct mt_yaml_node *node = entry->node;
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node)) {
        return mt_settings_fail(reader, entry, "%s is %s, expected %s", entry->name, mt_yaml_kind_text(node),
                                key->values);
    }
    const char *text = value_text(key, node);
    if (text != NULL &&
        mt_objective_config_set(reader->ctx, &reader->settings->objective, key->name, text) == MT_OK) {
        return MT_OK;
    }
    struct mt_printable shown = mt_printable(node->text);
    if (node->quoted) {
        return mt_settings_fail(reader, entry, "%s is the text \"%s\", expected %s", entry->name, shown.text,
                                key->values);
    }
    return mt_settings_fail(reader, entry, "%s is %s, expected %s", entry->name, shown.text, key->values);
}

/* The first given key of the objective, the one to name when they contradict each other. */
static const struct mt_settings_entry *first_key(const struct mt_settings_reader *reader)
{
    const struct mt_settings_entry *entry = reader->entries;
    while (entry != NULL && mt_settings_objective_key(entry->name) < 0) entry = entry->next;
    return entry != NULL ? entry : mt_settings_given(reader, "method");
}

/* True when the task's loss is all there is. */
static bool does_nothing(const struct mt_objective_config *config)
{
    bool nothing = config->bias_rule == MT_BIAS_NONE && config->capacity_factor == 0.0 &&
                   config->drop_threshold == 0.0 && config->jitter == 0.0;
    nothing = nothing && !mt_objective_has_terms(config);
    return nothing;
}

/* A method or strength given as a word over a file is meant: keys of the file that it makes idle are void. */
static bool is_meant(const struct mt_settings_reader *reader, const struct mt_settings_entry *idle)
{
    static const char *const causes[] = {"method",          "objective.alpha",     "objective.beta",
                                         "objective.gamma", "objective.bias_rule", "objective.capacity"};
    bool meant = false;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        const struct mt_settings_entry *cause = mt_settings_given(reader, causes[i]);
        meant = meant || (cause != NULL && cause->word != NULL && idle->word == NULL);
    }
    return meant;
}

/* Refuses a key that changes nothing, unless it says what the method says anyway. */
static enum mt_status check_idle(const struct mt_settings_reader *reader,
                                 const struct mt_settings_entry *entry, const struct mt_objective_key *key,
                                 int index)
{
    struct mt_objective_config *config = &reader->settings->objective;
    struct mt_objective_config plain;
    char methods[MT_SETTINGS_NAME_BYTES];
    char given[MT_SETTINGS_NAME_BYTES];
    const char *why = mt_objective_key_idle(config, key->name);
    if (why == NULL) return MT_OK;
    enum mt_status status = mt_objective_config_method(reader->ctx, config->method, &plain);
    if (status != MT_OK) return status;
    mt_objective_key_value(&plain, index, methods, sizeof methods);
    mt_objective_key_value(config, index, given, sizeof given);
    if (strcmp(methods, given) == 0) return MT_OK;
    if (is_meant(reader, entry)) return mt_objective_config_set(reader->ctx, config, key->name, methods);
    return mt_settings_fail(reader, entry, "%s means nothing here: %s", entry->name, why);
}

static enum mt_status check_keys(const struct mt_settings_reader *reader)
{
    struct mt_objective_key key;
    enum mt_status status = MT_OK;
    for (int i = 0; mt_objective_key_listed(i, &key) && status == MT_OK; i++) {
        char name[MT_SETTINGS_NAME_BYTES];
        (void)snprintf(name, sizeof name, "objective.%s", key.name);
        const struct mt_settings_entry *entry = mt_settings_given(reader, name);
        if (entry != NULL) status = check_idle(reader, entry, &key, i);
    }
    return status;
}

enum mt_status mt_settings_store_objective(const struct mt_settings_reader *reader)
{
    struct mt_train_settings *settings = reader->settings;
    struct mt_objective_key key;
    enum mt_status status = store_method(reader);
    settings->objective.seed = settings->seed;
    for (int i = 0; mt_objective_key_listed(i, &key) && status == MT_OK; i++) {
        char name[MT_SETTINGS_NAME_BYTES];
        (void)snprintf(name, sizeof name, "objective.%s", key.name);
        const struct mt_settings_entry *entry = mt_settings_given(reader, name);
        if (entry != NULL) status = store_key(reader, entry, &key);
    }
    if (status != MT_OK) return status;
    settings->task_only = does_nothing(&settings->objective);
    if (mt_objective_config_check(reader->ctx, &settings->objective) == MT_OK) return check_keys(reader);
    return fail_again(reader, first_key(reader));
}
