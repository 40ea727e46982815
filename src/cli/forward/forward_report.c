/* The summary of metier forward. */
#include <inttypes.h>
#include <stdio.h>

#include "base/amount.h"
#include "cli/forward/forward.h"
#include "cli/shared/json_out.h"

/* (largest load - mean) / mean of a layer's served slots; 0 when nothing was served. offsets [experts+1] */
static double max_violation(const int32_t *offsets, int experts)
{
    int32_t largest = 0;
    for (int e = 0; e < experts; e++) {
        int32_t load = offsets[e + 1] - offsets[e];
        if (load > largest) largest = load;
    }
    double mean = (double)offsets[experts] / experts;
    return mean > 0.0 ? ((double)largest - mean) / mean : 0.0;
}

/* MaxVio of every MoE layer, in order: [moe_layers] in the arena. */
static enum mt_status find_violations(struct mt_arena *arena, const struct forward_results *results,
                                      double **violations)
{
    const struct mt_model_desc *desc = mt_model_description(results->model);
    struct mt_device *device = mt_model_params(results->model)->device;
    size_t bytes = ((size_t)desc->experts + 1) * sizeof(int32_t);
    enum mt_status status = MT_OK;
    *violations = mt_arena_array(arena, (size_t)results->moe_layers, sizeof **violations, &status);
    int32_t *offsets = mt_arena_array(arena, bytes, 1, &status);
    if (status != MT_OK) return status;
    int found = 0;
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        const struct mt_routing *routing = mt_model_routing(results->model, layer);
        if (routing == NULL) continue;
        status = mt_device_download(device, offsets, routing->offsets.data, bytes);
        if (status != MT_OK) return status;
        (*violations)[found++] = max_violation(offsets, desc->experts);
    }
    return MT_OK;
}

/* A term's value summed over layers, and its mean weight; false for a term that is off. */
static bool term_of(const struct forward_results *results, enum mt_term term, double *loss, double *weight)
{
    const struct mt_objective *objective = mt_model_objective(results->model);
    if (objective == NULL) return false;
    *loss = 0.0;
    *weight = 0.0;
    for (int layer = 0; layer < results->moe_layers; layer++) {
        const struct mt_layer_report *report = mt_objective_layer(objective, layer);
        *loss += report->loss[term];
        *weight += report->weight[term] / results->moe_layers;
    }
    return *weight != 0.0;
}

static void print_losses(const struct forward_results *results)
{
    const struct mt_model_loss *loss = &results->loss;
    printf("%-14s %.6f\n", "loss", loss->task + loss->terms);
    printf("  %-12s %.6f   mean over %s\n", "h", loss->task,
           mt_counted((uint64_t)loss->labels, "label", "labels").text);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        double value = 0.0;
        double weight = 0.0;
        if (!term_of(results, (enum mt_term)term, &value, &weight)) continue;
        printf("  %-12s %.6f   weight %.3e, summed over layers\n", mt_term_name((enum mt_term)term), value,
               weight);
    }
}

static void print_text(const struct forward_settings *settings, const struct forward_ids *ids,
                       const struct forward_results *results, const double *violations)
{
    const struct mt_model_desc *desc = mt_model_description(results->model);
    const struct mt_params *params = mt_model_params(results->model);
    printf("%-14s %zu in %s\n", "tokens", ids->ids.count,
           mt_counted(ids->offsets.count - 1, "sequence", "sequences").text);
    printf("%-14s %.3f s\n", "time", results->seconds);
    if (settings->grads) {
        printf("%-14s %" PRId64 " in %s\n", "trained", params->trained_elements,
               mt_counted(params->trained_count, "tensor", "tensors").text);
        print_losses(results);
    }
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        if (!mt_model_layer_is_moe(desc, layer)) continue;
        printf("%-14s %.4f   layer %" PRId64 "\n", "MaxVio", *violations++, layer);
    }
    if (settings->out != NULL) printf("%-14s %s\n", "written", settings->out);
}

static json_t *terms_json(const struct forward_results *results)
{
    json_t *object = json_object();
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        double value = 0.0;
        double weight = 0.0;
        if (!term_of(results, (enum mt_term)term, &value, &weight)) continue;
        (void)json_object_set_new(
            object, mt_term_name((enum mt_term)term),
            json_pack("{s:o, s:o}", "loss", cli_json_number(value), "mean_weight", cli_json_number(weight)));
    }
    return object;
}

static json_t *violations_json(const struct forward_results *results, const double *violations)
{
    json_t *list = json_array();
    const struct mt_model_desc *desc = mt_model_description(results->model);
    size_t found = 0;
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        if (!mt_model_layer_is_moe(desc, layer)) continue;
        (void)json_array_append_new(list, json_pack("{s:I, s:o}", "layer", (json_int_t)layer, "max_violation",
                                                    cli_json_number(violations[found++])));
    }
    return list;
}

static enum mt_status print_json(struct mt_context *ctx, const struct forward_settings *settings,
                                 const struct forward_ids *ids, const struct forward_results *results,
                                 const double *violations)
{
    const struct mt_params *params = mt_model_params(results->model);
    json_t *root =
        json_pack("{s:I, s:I, s:o, s:o}", "tokens", (json_int_t)ids->ids.count, "sequences",
                  (json_int_t)(ids->offsets.count - 1), "seconds", cli_json_number(results->seconds),
                  "layers", violations_json(results, violations));
    if (root != NULL && settings->grads) {
        json_t *losses =
            json_pack("{s:o, s:o, s:I, s:o, s:I, s:I}", "loss",
                      cli_json_number(results->loss.task + results->loss.terms), "loss_h",
                      cli_json_number(results->loss.task), "labels", (json_int_t)results->loss.labels,
                      "terms", terms_json(results), "trained", (json_int_t)params->trained_elements,
                      "trained_tensors", (json_int_t)params->trained_count);
        bool whole = losses != NULL && json_object_update(root, losses) == 0;
        json_decref(losses);
        if (!whole) {
            json_decref(root);
            root = NULL;
        }
    }
    return cli_print_json(ctx, root, settings->directory);
}

enum mt_status cli_forward_report(struct mt_context *ctx, const struct forward_settings *settings,
                                  const struct forward_ids *ids, const struct forward_results *results)
{
    struct mt_arena arena;
    double *violations = NULL;
    mt_arena_init(&arena, ctx, 4096);
    enum mt_status status = find_violations(&arena, results, &violations);
    if (status == MT_OK && settings->json) status = print_json(ctx, settings, ids, results, violations);
    if (status == MT_OK && !settings->json) print_text(settings, ids, results, violations);
    mt_arena_free(&arena);
    return status;
}
