/*
 * The stages of a step: forward reduces records to numbers, finish turns the numbers into values, weights and
 * the gradient of the numbers, coupling and backward bring the gradient back. Nothing here knows a term by
 * name.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/given.h"
#include "objective/loads.h"
#include "objective/objective.h"

double *mt_objective_numbers(double *numbers, const struct mt_objective *objective, int layer)
{
    return numbers + (size_t)layer * objective->stride;
}

struct mt_term_call mt_objective_call(struct mt_objective *objective, int layer, enum mt_term term,
                                      const struct mt_routing *record)
{
    size_t offset = objective->offset[term];
    double *numbers = mt_objective_numbers(objective->device_statistics, objective, layer);
    struct mt_term_call call = {
        .objective = objective,
        .layer = layer,
        .record = record,
        .loads = numbers,
        .tokens = numbers + objective->shape.experts,
        .statistics = numbers + offset,
        .gradient = mt_objective_numbers(objective->device_gradient, objective, layer) + offset,
        .host_gradient = mt_objective_numbers(objective->gradient, objective, layer) + offset,
    };
    if (objective->records == NULL) return call;
    if (layer > 0) call.before = &objective->records[layer - 1];
    if (layer + 1 == objective->shape.layers) return call;
    call.after = &objective->records[layer + 1];
    call.gradient_after = call.gradient + objective->stride;
    call.host_gradient_after = call.host_gradient + objective->stride;
    return call;
}

static enum mt_status check_layer(const struct mt_objective *objective, int layer)
{
    if (objective == NULL) return MT_ERR_USAGE;
    if (layer >= 0 && layer < objective->shape.layers) return MT_OK;
    return mt_fail(mt_device_context(objective->device), MT_ERR_USAGE,
                   "objective: there is no layer %d, expected 0 to %d", layer, objective->shape.layers - 1);
}

static enum mt_status check_record(const struct mt_objective *objective, const struct mt_routing *record)
{
    struct mt_context *ctx = mt_device_context(objective->device);
    const struct mt_objective_shape *shape = &objective->shape;
    if (record->experts != shape->experts || record->slots != shape->slots) {
        return mt_fail(ctx, MT_ERR_SHAPE,
                       "objective: the record has %d of %d experts per token, expected %d of %d",
                       record->slots, record->experts, shape->slots, shape->experts);
    }
    if (record->tokens < 0 || record->tokens > shape->tokens) {
        return mt_fail(ctx, MT_ERR_SHAPE,
                       "objective: the record has %" PRId64 " tokens, room is for %" PRId64, record->tokens,
                       shape->tokens);
    }
    int segments = mt_tensor_present(&record->segment) ? shape->segments : 1;
    if (record->segments < 1 || record->segments > segments) {
        return mt_fail(ctx, MT_ERR_SHAPE, "objective: the record has %d segments, expected 1 to %d",
                       record->segments, segments);
    }
    const struct {
        enum mt_term_needs need;
        bool present;
        const char *what;
    } parts[] = {
        {MT_NEEDS_GRAM, mt_tensor_present(&record->gram), "the Gram matrices of the expert outputs (gram)"},
        {MT_NEEDS_ROWS, mt_tensor_present(&record->rows), "the expert outputs (rows)"},
        {MT_NEEDS_ROWS, mt_tensor_present(&record->slot_of_row), "the order of the rows (slot_of_row)"},
        {MT_NEEDS_ROWS, mt_tensor_present(&record->row_of_slot), "the order of the rows (row_of_slot)"},
        {MT_NEEDS_ORTHO_MASK, mt_tensor_present(&record->ortho_mask), "first tokens marked (ortho_mask)"},
        {MT_NEEDS_ROUTER_WEIGHT, mt_tensor_present(&record->router_weight),
         "the router's weight (router_weight)"},
        {MT_NEEDS_INNER_GRAM, mt_tensor_present(&record->inner_gram),
         "the Gram matrices of the activations (inner_gram)"},
        {MT_NEEDS_PROXIES, mt_tensor_present(&record->proxy_squares),
         "what the experts make of the router's rows (proxy_squares)"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].present || !mt_terms_need(&objective->config, parts[i].need)) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "objective: the record lacks %s, which a term needs",
                       parts[i].what);
    }
    return MT_OK;
}

/* Loads and the number of tokens: what every report needs. */
static enum mt_status count_layer(struct mt_objective *objective, int layer, const struct mt_routing *record)
{
    int64_t experts = objective->shape.experts;
    double *numbers = mt_objective_numbers(objective->device_statistics, objective, layer);
    if (mt_tensor_present(&objective->rule_work)) {
        const struct mt_selection_numbers measured = {
            .numbers = numbers + experts + 1,
            .work = mt_tensor_2d(objective->rule_work.data, objective->dtype, experts, record->tokens)};
        enum mt_status status =
            mt_selection_measure(objective->device, &objective->config, record, &measured);
        if (status != MT_OK) return status;
    }
    struct mt_slot_stats_forward_args args = {
        .expert = record->expert,
        .weight = record->weight,
        .mask = record->mask,
        .count = mt_tensor_2d(numbers, MT_F64, 1, experts),
        .rows = mt_tensor_1d(numbers + experts, MT_F64, 1),
    };
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        if (objective->active[term] && kind->join_loads != NULL)
            kind->join_loads(objective, numbers + objective->offset[term], &args);
    }
    return mt_slot_stats_forward(objective->device, &args);
}

enum mt_status mt_objective_forward(struct mt_objective *objective, int layer,
                                    const struct mt_routing *record)
{
    enum mt_status status = check_layer(objective, layer);
    if (status != MT_OK) return status;
    struct mt_context *ctx = mt_device_context(objective->device);
    status = mt_given(ctx, "mt_objective_forward", "record", record);
    if (status == MT_OK) status = check_record(objective, record);
    if (status != MT_OK) return status;
    if (objective->records != NULL) objective->records[layer] = *record;
    status = mt_scale_observe(objective, layer, record);
    if (status != MT_OK) return status;
    status = count_layer(objective, layer, record);
    if (status != MT_OK) return mt_fail_within(ctx, status, "objective, loads of layer %d", layer);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!objective->active[term]) continue;
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        struct mt_term_call call = mt_objective_call(objective, layer, (enum mt_term)term, record);
        status = kind->forward(&call);
        if (status != MT_OK) {
            return mt_fail_within(ctx, status, "objective, term %s of layer %d", kind->info.name, layer);
        }
    }
    objective->layers[layer].segments = record->segments;
    objective->layers[layer].forwarded = true;
    return MT_OK;
}

// ------------------------------------------------------------------ finish

static void report_loads(struct mt_objective *objective, int layer)
{
    struct mt_layer_report *report = &objective->layers[layer].report;
    int experts = objective->shape.experts;
    report->load = mt_objective_numbers(objective->statistics, objective, layer);
    report->measured = report->load + experts + 1;
    struct mt_load_figures figures;
    mt_load_judge(report->load, experts, &figures);
    report->max_violation = figures.max_violation;
    report->max_violation_code = figures.max_violation_code;
    report->load_entropy = figures.entropy;
}

void mt_objective_set_reduction(struct mt_objective *objective,
                                const struct mt_objective_reduction *reduction)
{
    objective->reduction = reduction != NULL ? *reduction : (struct mt_objective_reduction){0};
}

/* The parts of a layer's numbers that are sums over tokens: those at the beginning, then each term's. */
static struct mt_term_range additive_range(const struct mt_objective *objective, int part)
{
    if (part == 0) {
        size_t experts = (size_t)objective->shape.experts;
        size_t measured = mt_selection_measures(&objective->config, objective->shape.experts);
        return (struct mt_term_range){.count = experts + 1 + measured};
    }
    enum mt_term term = (enum mt_term)(part - 1);
    if (!objective->active[term]) return (struct mt_term_range){0};
    const struct mt_term_kind *kind = mt_term_kind(term);
    struct mt_term_range range = {.count = kind->replicated ? 0 : mt_term_numbers(objective, term)};
    if (kind->additive != NULL) range = kind->additive(objective);
    range.first += objective->offset[term];
    return range;
}

/* Copies what adds up of all layers to `packed`, or back; returns how many numbers that are. */
static size_t pack(struct mt_objective *objective, double *packed, bool back)
{
    size_t count = 0;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        double *numbers = mt_objective_numbers(objective->statistics, objective, layer);
        for (int part = 0; part <= MT_TERM_COUNT; part++) {
            struct mt_term_range range = additive_range(objective, part);
            double *source = back ? packed + count : numbers + range.first;
            double *target = back ? numbers + range.first : packed + count;
            memcpy(target, source, range.count * sizeof *numbers);
            count += range.count;
        }
    }
    return count;
}

/* Numbers made on the host, then the sums over all processes. */
static enum mt_status complete_statistics(struct mt_objective *objective)
{
    int experts = objective->shape.experts;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        double *numbers = mt_objective_numbers(objective->statistics, objective, layer);
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
            if (objective->active[term] && kind->summarise != NULL)
                kind->summarise(objective, objective->layers[layer].segments,
                                numbers + objective->offset[term]);
        }
    }
    double own = objective->statistics[experts];
    objective->own_share = own > 0.0 ? 1.0 : 0.0;
    if (objective->reduction.sum == NULL) return MT_OK;
    double *packed = objective->gradient; // nothing is in it yet
    size_t count = pack(objective, packed, false);
    enum mt_status status = objective->reduction.sum(objective->reduction.self, packed, count);
    if (status != MT_OK) return mt_fail_within(mt_device_context(objective->device), status, "objective");
    (void)pack(objective, packed, true);
    double all = objective->statistics[experts];
    objective->own_share = all > 0.0 ? own / all : 0.0;
    return MT_OK;
}

/* The gradients found are of the bare losses: weight and loss scale come in here. */
static void weigh_gradients(struct mt_objective *objective, int layer)
{
    const struct mt_layer_report *report = &objective->layers[layer].report;
    double *gradient = mt_objective_numbers(objective->gradient, objective, layer);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!objective->active[term]) continue;
        double factor = report->weight[term] * objective->loss_scale;
        // What does not add up is the same everywhere: each process brings its share of it.
        if (additive_range(objective, term + 1).count == 0) factor *= objective->own_share;
        size_t count = mt_term_numbers(objective, (enum mt_term)term);
        for (size_t i = 0; i < count; i++) gradient[objective->offset[term] + i] *= factor;
    }
}

enum mt_status mt_objective_check_step(const struct mt_objective *objective,
                                       const struct mt_objective_step *step)
{
    if (objective == NULL) return MT_ERR_USAGE;
    struct mt_context *ctx = mt_device_context(objective->device);
    if (step == NULL) return mt_given(ctx, "mt_objective_finish", "step", step);
    if (!(step->progress >= 0.0) || !isfinite(step->progress)) {
        return mt_fail(ctx, MT_ERR_USAGE, "objective: progress is %g, expected 0 or more", step->progress);
    }
    if (step->loss_scale == 0.0 || !isfinite(step->loss_scale)) {
        return mt_fail(ctx, MT_ERR_USAGE, "objective: loss_scale is %g, expected a number other than 0",
                       step->loss_scale);
    }
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        if (objective->layers[layer].forwarded) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "objective: finish was called before layer %d was seen", layer);
    }
    return MT_OK;
}

/* The statistics of all layers and processes. */
static enum mt_status gather(struct mt_objective *objective, const double *statistics)
{
    size_t bytes = (size_t)objective->shape.layers * objective->stride * sizeof(double);
    enum mt_status status = mt_device_download(objective->device, objective->statistics, statistics, bytes);
    return status == MT_OK ? complete_statistics(objective) : status;
}

static void find_values(struct mt_objective *objective)
{
    int layers = objective->shape.layers;
    memset(objective->gradient, 0, (size_t)layers * objective->stride * sizeof(double));
    for (int layer = 0; layer < layers; layer++) {
        const double *numbers = mt_objective_numbers(objective->statistics, objective, layer);
        objective->layers[layer].tokens = numbers[objective->shape.experts];
        report_loads(objective, layer);
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (objective->active[term]) mt_values_find(objective, (enum mt_term)term);
    }
}

enum mt_status mt_objective_read(struct mt_objective *objective, const double *statistics)
{
    enum mt_status status = gather(objective, statistics);
    if (status == MT_OK) find_values(objective);
    return status;
}

static void add_counts(struct mt_objective *objective)
{
    for (int layer = 0; layer < objective->shape.layers; layer++)
        mt_aux_count(objective, layer, mt_objective_numbers(objective->statistics, objective, layer));
}

enum mt_status mt_objective_finish(struct mt_objective *objective, const struct mt_objective_step *step,
                                   double *total)
{
    if (objective == NULL) return MT_ERR_USAGE;
    enum mt_status status =
        mt_given(mt_device_context(objective->device), "mt_objective_finish", "total", total);
    if (status == MT_OK) status = mt_objective_check_step(objective, step);
    if (status == MT_OK) status = gather(objective, objective->device_statistics);
    if (status != MT_OK) return status;
    if (objective->counting) {
        *total = 0.0;
        add_counts(objective);
        return MT_OK;
    }
    find_values(objective);
    int layers = objective->shape.layers;
    bool has_tokens = false;
    for (int layer = 0; layer < layers; layer++) {
        if (objective->layers[layer].tokens > 0.0) has_tokens = true;
    }
    objective->loss_scale = step->loss_scale;
    mt_scale_weigh(objective, has_tokens, step->progress);
    *total = 0.0;
    for (int layer = 0; layer < layers; layer++) {
        struct mt_layer_report *report = &objective->layers[layer].report;
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            if (report->weight[term] != 0.0) *total += report->weight[term] * report->loss[term];
            report->gradient[term] = NAN;
        }
        weigh_gradients(objective, layer);
    }
    size_t bytes = (size_t)layers * objective->stride * sizeof(double);
    return mt_device_upload(objective->device, objective->device_gradient, objective->gradient, bytes);
}

// ------------------------------------------------------------------ coupling and backward

enum mt_status mt_objective_coupling(struct mt_objective *objective, int layer,
                                     const struct mt_routing *record, const struct mt_tensor *coupling)
{
    enum mt_status status = check_layer(objective, layer);
    if (status != MT_OK) return status;
    struct mt_context *ctx = mt_device_context(objective->device);
    status = mt_given(ctx, "mt_objective_coupling", "record", record);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_coupling", "coupling", coupling);
    if (status != MT_OK) return status;
    const struct mt_layer_report *report = &objective->layers[layer].report;
    const struct mt_term_kind *found = NULL;
    struct mt_term_call call;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        if (report->weight[term] == 0.0 || kind->coupling == NULL) continue;
        if (found != NULL) {
            return mt_fail(
                ctx, MT_ERR_UNSUPPORTED,
                "objective: the terms %s and %s both couple a token's outputs; use only one of them",
                found->info.name, kind->info.name);
        }
        found = kind;
        call = mt_objective_call(objective, layer, (enum mt_term)term, record);
    }
    if (found != NULL) return found->coupling(&call, coupling);
    return mt_fill(objective->device, &(struct mt_fill_args){.y = *coupling, .value = 0.0f});
}

enum mt_status mt_objective_add_gradients(struct mt_objective *objective, int layer,
                                          const struct mt_routing *record,
                                          struct mt_routing_gradient *gradient, const struct mt_tensor *drows)
{
    const struct mt_layer_report *report = &objective->layers[layer].report;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (report->weight[term] == 0.0) continue;
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        struct mt_term_call call = mt_objective_call(objective, layer, (enum mt_term)term, record);
        call.drows = drows;
        enum mt_status status = kind->backward(&call, gradient);
        if (status != MT_OK) {
            return mt_fail_within(mt_device_context(objective->device), status,
                                  "objective, gradient of term %s in layer %d", kind->info.name, layer);
        }
    }
    return MT_OK;
}

enum mt_status mt_objective_backward(struct mt_objective *objective, int layer,
                                     const struct mt_routing *record, struct mt_routing_gradient *gradient,
                                     const struct mt_tensor *drows,
                                     const struct mt_objective_backward_options *options)
{
    enum mt_status status = check_layer(objective, layer);
    if (status != MT_OK) return status;
    struct mt_context *ctx = mt_device_context(objective->device);
    status = mt_given(ctx, "mt_objective_backward", "record", record);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_backward", "gradient", gradient);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_backward", "options", options);
    if (status != MT_OK) return status;
    bool has_drows = drows != NULL && mt_tensor_present(drows);
    if (!has_drows && mt_terms_need(&objective->config, MT_NEEDS_ROWS)) {
        return mt_fail(ctx, MT_ERR_USAGE, "objective: a term adds to drows, which is missing");
    }
    if (options->measure) {
        status = mt_measure_layer(objective, layer, record);
        if (status != MT_OK) return status;
    }
    return mt_objective_add_gradients(objective, layer, record, gradient, has_drows ? drows : NULL);
}

const struct mt_layer_report *mt_objective_layer(const struct mt_objective *objective, int layer)
{
    if (objective == NULL || layer < 0 || layer >= objective->shape.layers) return NULL;
    return &objective->layers[layer].report;
}

void mt_objective_count_begin(struct mt_objective *objective)
{
    size_t count = 0;
    double *counts = mt_objective_counts(objective, &count);
    if (count > 0) memset(counts, 0, count * sizeof *counts);
    objective->counting = count > 0;
}

void mt_objective_count_end(struct mt_objective *objective)
{
    objective->counting = false;
}

double *mt_objective_counts(struct mt_objective *objective, size_t *count)
{
    size_t layers = (size_t)objective->shape.layers;
    *count = objective->counts != NULL ? layers * ((size_t)objective->shape.experts + 1) : 0;
    return objective->counts;
}

double *mt_objective_state(struct mt_objective *objective, size_t *count)
{
    size_t layers = (size_t)objective->shape.layers;
    *count = (sizeof *objective->state + layers * sizeof *objective->layer_state) / sizeof(double) +
             layers * mt_selection_memory(&objective->config, objective->shape.experts);
    return (double *)(void *)objective->state;
}

double *mt_objective_rule_memory(struct mt_objective *objective, int layer)
{
    if (objective == NULL || layer < 0 || layer >= objective->shape.layers) return NULL;
    size_t numbers = mt_selection_memory(&objective->config, objective->shape.experts);
    return objective->rule_memory + (size_t)layer * numbers;
}
