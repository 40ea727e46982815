/*
 * What metier objective prints: the answer for people and as JSON, whose keys are stable because scripts read
 * them; and the lists of methods and keys, straight from the library's tables.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "cli/objective/objective.h"
#include "cli/shared/json_out.h"
#include "cli/shared/table.h"

#define NUMBER_BYTES 32

const char *cli_objective_gradient_of(enum mt_term term)
{
    switch (mt_term_info(term)->path) {
    case MT_PATH_OUTPUTS: return "expert_outputs";
    case MT_PATH_ROUTER_WEIGHT: return "router_weight";
    case MT_PATH_INNER: return "activations";
    case MT_PATH_GATES: return "gate_projections";
    case MT_PATH_LOGITS: break;
    }
    return "logits";
}

static const char *number_text(double value, char text[NUMBER_BYTES])
{
    if (isnan(value)) return "-"; // not measured
    (void)snprintf(text, NUMBER_BYTES, "%.6g", value);
    return text;
}

static void print_heading(const struct objective_question *question, const struct objective_record *record,
                          const struct objective_answer *answer)
{
    const struct mt_objective_arrays *arrays = &record->arrays;
    printf("%s: %s", record->path, mt_counted((uint64_t)arrays->tokens, "token", "tokens").text);
    if (record->mask != NULL) printf(" (%" PRId64 " counted)", record->counted);
    printf(", %s, %d per token", mt_counted((uint64_t)arrays->experts, "expert", "experts").text,
           question->router.slots);
    if (arrays->width > 0) printf(", width %" PRId64, arrays->width);
    printf("\nmethod %s, router %s, %s\n\n", question->config.method, question->router_name, answer->device);
}

static enum mt_status print_terms(struct mt_context *ctx, const struct objective_question *question,
                                  const struct objective_answer *answer)
{
    static const struct cli_column columns[] = {
        {"term", false},        {"value", true},         {"weight", true},
        {"contribution", true}, {"gradient norm", true}, {"gradient in", false},
    };
    const struct mt_objective_results *results = &answer->results;
    struct cli_table table;
    char total[NUMBER_BYTES];
    cli_table_init(&table, ctx, columns, 6);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!mt_term_is_on(&question->config, (enum mt_term)term)) continue;
        char value[NUMBER_BYTES];
        char weight[NUMBER_BYTES];
        char contribution[NUMBER_BYTES];
        char gradient[NUMBER_BYTES];
        const char *cells[] = {mt_term_name((enum mt_term)term),
                               number_text(results->loss[term], value),
                               number_text(results->weight[term], weight),
                               number_text(results->loss[term] * results->weight[term], contribution),
                               number_text(results->report.gradient[term], gradient),
                               cli_objective_gradient_of((enum mt_term)term)};
        cli_table_row(&table, cells);
    }
    cli_table_add(&table, "total\t\t\t%s", number_text(results->total, total));
    return cli_table_print(&table, stdout);
}

static void print_load(const struct objective_question *question, const struct objective_record *record,
                       const struct objective_answer *answer)
{
    const struct mt_layer_report *report = &answer->results.report;
    double experts = record->arrays.experts;
    printf("\nMaxVio   %.4f  (largest load over the mean, less 1", report->max_violation);
    // Where slots are dropped the mean falls, and with it the bound.
    if (answer->dropped == 0) printf("; at most n/k - 1 = %.4f", experts / question->router.slots - 1.0);
    printf(")\n");
    printf("         %.4f  as the authors' code counts it: largest |load - mean| over the mean\n",
           report->max_violation_code);
    printf("entropy  %.4f  of the loads, in nats; ln n = %.4f when balanced\n", report->load_entropy,
           log(experts));
}

/* Each line of a text with a word before it. */
static void print_lines(FILE *stream, const char *before, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        (void)fprintf(stream, "%s%.*s\n", before, (int)length, text);
        text += length;
        if (*text == '\n') text++;
    }
}

enum mt_status cli_objective_print_text(struct mt_context *ctx, const struct objective_question *question,
                                        const struct objective_record *record,
                                        const struct objective_answer *answer)
{
    print_heading(question, record, answer);
    enum mt_status status = print_terms(ctx, question, answer);
    if (status != MT_OK) return status;
    print_load(question, record, answer);
    if (answer->notes[0] != '\0') printf("\n");
    print_lines(stdout, "note: ", answer->notes);
    if (question->out_path != NULL) printf("\nwritten: %s\n", question->out_path);
    (void)fflush(stdout); // so that warnings come after it on a terminal
    print_lines(stderr, "metier objective: warning: ", answer->warnings);
    return MT_OK;
}

// ------------------------------------------------------------------ the answer as JSON

static json_t *lines(const char *text)
{
    json_t *list = json_array();
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        (void)json_array_append_new(list, json_stringn(text, length));
        text += length;
        if (*text == '\n') text++;
    }
    return list;
}

static json_t *keys_json(const struct mt_objective_config *config)
{
    json_t *object = json_object();
    struct mt_objective_key key;
    for (int i = 0; mt_objective_key_listed(i, &key); i++) {
        char value[64];
        mt_objective_key_value(config, i, value, sizeof value);
        (void)json_object_set_new(object, key.name, json_string(value));
    }
    return object;
}

static json_t *terms(const struct objective_question *question, const struct mt_objective_results *results)
{
    json_t *object = json_object();
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!mt_term_is_on(&question->config, (enum mt_term)term)) continue;
        json_t *entry = json_pack("{s:o, s:o, s:o, s:o, s:s}", "loss", cli_json_number(results->loss[term]),
                                  "weight", cli_json_number(results->weight[term]), "contribution",
                                  cli_json_number(results->loss[term] * results->weight[term]),
                                  "gradient_norm", cli_json_number(results->report.gradient[term]),
                                  "gradient_in", cli_objective_gradient_of((enum mt_term)term));
        (void)json_object_set_new(object, mt_term_name((enum mt_term)term), entry);
    }
    return object;
}

static json_t *load(const struct objective_question *question, const struct objective_record *record,
                    const struct objective_answer *answer)
{
    const struct mt_layer_report *report = &answer->results.report;
    json_t *slots = json_array();
    for (int j = 0; j < record->arrays.experts; j++) {
        (void)json_array_append_new(slots, cli_json_number(answer->results.load[j]));
    }
    double experts = record->arrays.experts;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "max_violation",
                     cli_json_number(report->max_violation), "max_violation_bound",
                     cli_json_number(experts / question->router.slots - 1.0), "max_violation_code",
                     cli_json_number(report->max_violation_code), "entropy",
                     cli_json_number(report->load_entropy), "entropy_balanced", cli_json_number(log(experts)),
                     "dropped", (json_int_t)answer->dropped, "slots", slots);
}

enum mt_status cli_objective_print_json(struct mt_context *ctx, const struct objective_question *question,
                                        const struct objective_record *record,
                                        const struct objective_answer *answer)
{
    const struct mt_objective_arrays *arrays = &record->arrays;
    json_t *root = json_pack(
        "{s:s, s:I, s:I, s:i, s:i, s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}", "record",
        record->path, "tokens", (json_int_t)arrays->tokens, "counted", (json_int_t)record->counted, "experts",
        arrays->experts, "top_k", question->router.slots, "width", (json_int_t)arrays->width, "router",
        question->router_name, "method", question->config.method, "device", answer->device, "keys",
        keys_json(&question->config), "terms", terms(question, &answer->results), "total",
        cli_json_number(answer->results.total), "load", load(question, record, answer), "notes",
        lines(answer->notes), "warnings", lines(answer->warnings), "out", question->out_path);
    return cli_print_json(ctx, root, record->path);
}

// ------------------------------------------------------------------ --methods and --keys

// What a method does to the router.
static const struct mt_term_word router_words[MT_TERM_WORDS] = {{"bias_rule", "none"},     {"capacity", "0"},
                                                                {"drop_threshold", "0"},   {"jitter", "0"},
                                                                {"dense_router", "false"}, {"pool", "false"}};

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

/* Lines of a method: what it is called, then its terms, its router policy and its source. */
static void add_method(struct cli_table *table, const struct mt_method *method)
{
    char text[CLI_CELL_BYTES];
    cli_table_add(table, "%s\t\t\t%s", method->name, method->summary);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!mt_term_is_on(&method->config, (enum mt_term)term)) continue;
        describe(&method->config, mt_term_info((enum mt_term)term)->shown, text, sizeof text);
        cli_table_add(table, "\t%s\t%g\t%s", mt_term_name((enum mt_term)term),
                      method->config.coefficient[term], text);
    }
    describe(&method->config, router_words, text, sizeof text);
    if (text[0] != '\0') cli_table_add(table, "\trouter\t\t%s", text);
    cli_table_add(table, "\tsource\t\t%s", method->source);
}

static enum mt_status print_methods_text(struct mt_context *ctx)
{
    static const struct cli_column columns[] = {
        {"method", false}, {"part", false}, {"coefficient", true}, {"what", false}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 4);
    for (int i = 0; mt_method_listed(i) != NULL; i++) add_method(&table, mt_method_listed(i));
    return cli_table_print(&table, stdout);
}

static enum mt_status print_keys_text(struct mt_context *ctx)
{
    static const struct cli_column columns[] = {{"key", false}, {"values", false}, {"meaning", false}};
    struct cli_table table;
    struct mt_objective_key key;
    cli_table_init(&table, ctx, columns, 3);
    for (int i = 0; mt_objective_key_listed(i, &key); i++)
        cli_table_row(&table, (const char *[]){key.name, key.values, key.meaning});
    return cli_table_print(&table, stdout);
}

static json_t *method_json(const struct mt_method *method)
{
    json_t *coefficients = json_object();
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!mt_term_is_on(&method->config, (enum mt_term)term)) continue;
        (void)json_object_set_new(coefficients, mt_term_name((enum mt_term)term),
                                  json_real(method->config.coefficient[term]));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", method->name, "summary", method->summary, "source",
                     method->source, "coefficients", coefficients, "keys", keys_json(&method->config));
}

enum mt_status cli_objective_print_methods(struct mt_context *ctx, bool json)
{
    if (!json) return print_methods_text(ctx);
    json_t *list = json_array();
    for (int i = 0; mt_method_listed(i) != NULL; i++) {
        (void)json_array_append_new(list, method_json(mt_method_listed(i)));
    }
    return cli_print_json(ctx, list, "the list");
}

enum mt_status cli_objective_print_keys(struct mt_context *ctx, bool json)
{
    if (!json) return print_keys_text(ctx);
    json_t *list = json_array();
    struct mt_objective_key key;
    for (int i = 0; mt_objective_key_listed(i, &key); i++) {
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", key.name, "values", key.values,
                                                    "meaning", key.meaning));
    }
    return cli_print_json(ctx, list, "the list");
}
