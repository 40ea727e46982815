/* metier objective --json. Keys are stable: scripts read them. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/objective/objective.h"
#include "cli/shared/json_number.h"

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

static json_t *keys(const struct mt_objective_config *config)
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
                                  "gradient_in", objective_gradient_of((enum mt_term)term));
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

enum mt_status objective_print_json(struct mt_context *ctx, const struct objective_question *question,
                                    const struct objective_record *record,
                                    const struct objective_answer *answer)
{
    const struct mt_objective_arrays *arrays = &record->arrays;
    json_t *root = json_pack(
        "{s:s, s:I, s:I, s:i, s:i, s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}", "record",
        record->path, "tokens", (json_int_t)arrays->tokens, "counted", (json_int_t)record->counted, "experts",
        arrays->experts, "top_k", question->router.slots, "width", (json_int_t)arrays->width, "router",
        question->router_name, "method", question->config.method, "device", answer->device, "keys",
        keys(&question->config), "terms", terms(question, &answer->results), "total",
        cli_json_number(answer->results.total), "load", load(question, record, answer), "notes",
        lines(answer->notes), "warnings", lines(answer->warnings), "out", question->out_path);
    // json_pack gives NULL when any piece is NULL, be it for memory or for a path that is not UTF-8.
    if (root == NULL) {
        return mt_fail(ctx, MT_ERR_MEMORY, "%s: cannot be put into JSON (out of memory, or not UTF-8)",
                       record->path);
    }
    int failed = json_dumpf(root, stdout, JSON_INDENT(2));
    json_decref(root);
    if (failed != 0 || printf("\n") < 0) return mt_fail(ctx, MT_ERR_IO, "cannot write standard output");
    return MT_OK;
}
