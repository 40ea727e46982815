/* metier objective --methods and --keys: what there is to choose from, straight from the library's tables. */
#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/objective/objective.h"
#include "cli/shared/table.h"

// What a method does to the router.
static const struct mt_term_word router_words[MT_TERM_WORDS] = {
    {"bias_rule", "none"}, {"capacity", "0"}, {"drop_threshold", "0"}, {"jitter", "0"}};

/* The value of a key, which exists, as text. */
static void key_text(const struct mt_objective_config *config, const char *key, char *text, size_t bytes)
{
    struct mt_objective_key listed;
    int index = 0;
    while (mt_objective_key_listed(index, &listed) && strcmp(listed.name, key) != 0) index++;
    assert(mt_objective_key_listed(index, &listed));
    mt_objective_key_value(config, index, text, bytes);
}

/* "form=cosine exclude_first=true scale=once" */
static void describe(const struct mt_objective_config *config, const struct mt_term_word *words, char *text,
                     size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < MT_TERM_WORDS && words[i].key != NULL; i++) {
        char value[64];
        key_text(config, words[i].key, value, sizeof value);
        if (words[i].usual != NULL && strcmp(value, words[i].usual) == 0) continue;
        int written =
            snprintf(text + used, bytes - used, "%s%s=%s", used > 0 ? " " : "", words[i].key, value);
        used += (size_t)written;
        assert(used < bytes);
    }
}

/* One line of a method: what it is called, then its terms, its router policy and its source. */
static enum mt_status add_line(struct cli_table *table, const char *method, const char *part,
                               const char *number, const char *text)
{
    const char *cells[] = {method, part, number, text};
    return cli_table_row(table, cells);
}

static enum mt_status add_method(struct cli_table *table, const struct mt_method *method)
{
    char text[CLI_CELL_BYTES];
    enum mt_status status = add_line(table, method->name, NULL, NULL, method->summary);
    for (int term = 0; term < MT_TERM_COUNT && status == MT_OK; term++) {
        double coefficient = method->config.coefficient[term];
        if (!mt_term_is_on(&method->config, (enum mt_term)term)) continue;
        char number[32];
        (void)snprintf(number, sizeof number, "%g", coefficient);
        describe(&method->config, mt_term_info((enum mt_term)term)->shown, text, sizeof text);
        status = add_line(table, NULL, mt_term_name((enum mt_term)term), number, text);
    }
    describe(&method->config, router_words, text, sizeof text);
    if (status == MT_OK && text[0] != '\0') status = add_line(table, NULL, "router", NULL, text);
    if (status == MT_OK) status = add_line(table, NULL, "source", NULL, method->source);
    return status;
}

static enum mt_status print_methods_text(struct mt_context *ctx)
{
    static const struct cli_column columns[] = {
        {"method", false}, {"part", false}, {"coefficient", true}, {"what", false}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 4);
    enum mt_status status = MT_OK;
    for (int i = 0; mt_method_listed(i) != NULL && status == MT_OK; i++) {
        status = add_method(&table, mt_method_listed(i));
    }
    if (status == MT_OK) cli_table_print(&table, stdout);
    cli_table_free(&table);
    return status;
}

static enum mt_status print_keys_text(struct mt_context *ctx)
{
    static const struct cli_column columns[] = {{"key", false}, {"values", false}, {"meaning", false}};
    struct cli_table table;
    struct mt_objective_key key;
    cli_table_init(&table, ctx, columns, 3);
    enum mt_status status = MT_OK;
    for (int i = 0; mt_objective_key_listed(i, &key) && status == MT_OK; i++) {
        const char *cells[] = {key.name, key.values, key.meaning};
        status = cli_table_row(&table, cells);
    }
    if (status == MT_OK) cli_table_print(&table, stdout);
    cli_table_free(&table);
    return status;
}

/* Prints a list and gives it up. NULL: some piece could not be made. */
static enum mt_status print_list(struct mt_context *ctx, json_t *list)
{
    if (list == NULL) return mt_fail(ctx, MT_ERR_MEMORY, "out of memory for the JSON text");
    int failed = json_dumpf(list, stdout, JSON_INDENT(2));
    json_decref(list);
    if (failed != 0 || printf("\n") < 0) return mt_fail(ctx, MT_ERR_IO, "cannot write standard output");
    return MT_OK;
}

static json_t *method_json(const struct mt_method *method)
{
    json_t *coefficients = json_object();
    json_t *keys = json_object();
    struct mt_objective_key key;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!mt_term_is_on(&method->config, (enum mt_term)term)) continue;
        (void)json_object_set_new(coefficients, mt_term_name((enum mt_term)term),
                                  json_real(method->config.coefficient[term]));
    }
    for (int i = 0; mt_objective_key_listed(i, &key); i++) {
        char value[64];
        mt_objective_key_value(&method->config, i, value, sizeof value);
        (void)json_object_set_new(keys, key.name, json_string(value));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", method->name, "summary", method->summary, "source",
                     method->source, "coefficients", coefficients, "keys", keys);
}

enum mt_status objective_print_methods(struct mt_context *ctx, bool json)
{
    if (!json) return print_methods_text(ctx);
    json_t *list = json_array();
    for (int i = 0; mt_method_listed(i) != NULL; i++) {
        (void)json_array_append_new(list, method_json(mt_method_listed(i)));
    }
    return print_list(ctx, list);
}

enum mt_status objective_print_keys(struct mt_context *ctx, bool json)
{
    if (!json) return print_keys_text(ctx);
    json_t *list = json_array();
    struct mt_objective_key key;
    for (int i = 0; mt_objective_key_listed(i, &key); i++) {
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", key.name, "values", key.values,
                                                    "meaning", key.meaning));
    }
    return print_list(ctx, list);
}
