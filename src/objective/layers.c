/*
 * metier/layers.h: the stages of a step on somebody else's arrays. Addresses become a routing record, and the
 * gradients of the terms come back apart from those of the layer's output: the caller knows what the terms
 * are multiplied with, and may know it on the device alone.
 */
#include "metier/layers.h"

#include "base/given.h"
#include "objective/objective.h"

struct mt_layers {
    struct mt_device *device; // borrowed
    struct mt_objective *objective;
    enum mt_layers_given given;
};

static enum mt_status read_method(struct mt_context *ctx, const struct mt_layers_options *options,
                                  struct mt_objective_config *config)
{
    enum mt_status status = mt_objective_config_method(ctx, options->method, config);
    for (size_t i = 0; options->settings != NULL && options->settings[i] != NULL; i += 2) {
        if (status != MT_OK) return status;
        if (options->settings[i + 1] == NULL)
            return mt_fail(ctx, MT_ERR_USAGE, "%s has no value", options->settings[i]);
        status = mt_objective_config_set(ctx, config, options->settings[i], options->settings[i + 1]);
    }
    return status;
}

enum mt_status mt_layers_create(struct mt_device *device, const struct mt_layers_options *options,
                                struct mt_layers **layers)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_objective_config config;
    void *memory = NULL;
    enum mt_status status = mt_given(ctx, "mt_layers_create", "layers", layers);
    if (status != MT_OK) return status;
    *layers = NULL;
    status = mt_given(NULL, "mt_layers_create", "device", device);
    if (status == MT_OK) status = mt_given(ctx, "mt_layers_create", "options", options);
    if (status != MT_OK) return status;
    if ((unsigned)options->given > MT_GIVEN_WEIGHTS)
        return mt_fail(ctx, MT_ERR_USAGE, "layers: there is no way number %d to give a choice",
                       (int)options->given);
    status = read_method(ctx, options, &config);
    if (status == MT_OK) status = mt_selection_check(ctx, &config, &options->shape.router);
    if (status != MT_OK) return status;
    status = mt_terms_check_alone(ctx, &config, "layers of somebody else's model do");
    if (status != MT_OK) return status;
    if (config.dense_router)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "method %s needs more of a model than mt_layers provides",
                       config.method);
    if (mt_selection_pools(&config))
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "method %s limits the experts a router may choose from, but this model's own router "
                       "has already chosen: train with metier, or set pool=false",
                       config.method);
    status = mt_allocate_array(ctx, 1, sizeof **layers, &memory);
    if (status != MT_OK) return status;
    struct mt_layers *made = memory;
    made->device = device;
    made->given = options->given;
    status = mt_objective_create(device, &config, &options->shape, &made->objective);
    if (status != MT_OK) {
        mt_release(ctx, made, sizeof *made);
        return status;
    }
    *layers = made;
    return MT_OK;
}

void mt_layers_destroy(struct mt_layers *layers)
{
    if (layers == NULL) return;
    mt_objective_destroy(layers->objective);
    mt_release(mt_device_context(layers->device), layers, sizeof *layers);
}

const struct mt_objective_config *mt_layers_config(const struct mt_layers *layers)
{
    return layers != NULL ? &layers->objective->config : NULL;
}

struct mt_objective *mt_layers_objective(struct mt_layers *layers)
{
    return layers != NULL ? layers->objective : NULL;
}

// ------------------------------------------------------------------ views

/* Absent for NULL, but not where there is nothing to view. What is only read is read, whatever its type says.
 */
static struct mt_tensor view(const void *data, struct mt_tensor shape)
{
    if (data == NULL && mt_tensor_count(&shape) > 0) return (struct mt_tensor){0};
    shape.data = (void *)data;
    return shape;
}

static struct mt_tensor of_slots(const struct mt_layers *layers, const struct mt_layer_arrays *arrays,
                                 const void *data, enum mt_dtype dtype)
{
    return view(data, mt_tensor_2d(NULL, dtype, arrays->tokens, layers->objective->shape.slots));
}

static struct mt_tensor of_experts(const struct mt_layers *layers, const struct mt_layer_arrays *arrays,
                                   const void *data)
{
    return view(data, mt_tensor_2d(NULL, MT_F32, arrays->tokens, layers->objective->shape.experts));
}

static struct mt_tensor of_tokens(const struct mt_layer_arrays *arrays, const int32_t *data)
{
    return data != NULL ? mt_tensor_1d((void *)data, MT_I32, arrays->tokens) : (struct mt_tensor){0};
}

static struct mt_tensor of_router(const struct mt_layers *layers, const void *data)
{
    const struct mt_objective_shape *shape = &layers->objective->shape;
    return view(data, mt_tensor_2d(NULL, MT_F32, shape->experts, shape->width));
}

/* [rows,d] in the type of the outputs. */
static struct mt_tensor of_width(const struct mt_layers *layers, const struct mt_layer_arrays *arrays,
                                 const void *data, int64_t rows)
{
    return view(data, mt_tensor_2d(NULL, arrays->dtype, rows, layers->objective->shape.width));
}

static struct mt_tensor of_pairs(const struct mt_layers *layers, const struct mt_layer_arrays *arrays,
                                 const float *data)
{
    int slots = layers->objective->shape.slots;
    return view(data, mt_tensor_3d(NULL, MT_F32, arrays->tokens, slots, slots));
}

static struct mt_routing record_of(const struct mt_layers *layers, const struct mt_layer_arrays *arrays)
{
    const struct mt_objective_shape *shape = &layers->objective->shape;
    int64_t pairs = arrays->tokens * shape->slots;
    return (struct mt_routing){
        .tokens = arrays->tokens,
        .experts = shape->experts,
        .slots = shape->slots,
        .segments = arrays->segments > 0 ? (int)arrays->segments : 1,
        .unmasked = arrays->unmasked,
        .mask = of_tokens(arrays, arrays->mask),
        .ortho_mask = of_tokens(arrays, arrays->ortho_mask),
        .segment = of_tokens(arrays, arrays->segment),
        .logits = of_experts(layers, arrays, arrays->logits),
        .bias = view(arrays->bias, mt_tensor_1d(NULL, MT_F32, shape->experts)),
        .probs = of_experts(layers, arrays, arrays->probs),
        .greedy = of_slots(layers, arrays, arrays->greedy, MT_I32),
        .chosen = of_slots(layers, arrays, arrays->chosen, MT_I32),
        .expert = of_slots(layers, arrays, arrays->expert, MT_I32),
        .weight = of_slots(layers, arrays, arrays->weight, MT_F32),
        .offsets = view(arrays->offsets, mt_tensor_1d(NULL, MT_I32, shape->experts + 1)),
        .row_of_slot = of_slots(layers, arrays, arrays->row_of_slot, MT_I32),
        .slot_of_row = view(arrays->slot_of_row, mt_tensor_1d(NULL, MT_I32, pairs)),
        .rows = of_width(layers, arrays, arrays->outputs, pairs),
        .gram = of_pairs(layers, arrays, arrays->gram),
        .router_weight = of_router(layers, arrays->router_weight),
    };
}

static enum mt_status check_arrays(const struct mt_layers *layers, const struct mt_layer_arrays *arrays)
{
    if (layers == NULL) return MT_ERR_USAGE;
    struct mt_context *ctx = mt_device_context(layers->device);
    if (arrays == NULL) return mt_given(ctx, "layers", "arrays", arrays);
    if (arrays->tokens < 0 || arrays->tokens > layers->objective->shape.tokens)
        return mt_fail(ctx, MT_ERR_SHAPE, "layers: %lld tokens, but there is room for %lld",
                       (long long)arrays->tokens, (long long)layers->objective->shape.tokens);
    if (arrays->dtype != MT_F32 && arrays->dtype != MT_BF16)
        return mt_fail(ctx, MT_ERR_USAGE, "layers: expert outputs must be f32 or bf16");
    if (arrays->segments < 0 || arrays->segments > layers->objective->shape.segments)
        return mt_fail(ctx, MT_ERR_SHAPE, "layers: segments is %lld, expected 0 to %d",
                       (long long)arrays->segments, layers->objective->shape.segments);
    if (arrays->unmasked < 0 || arrays->unmasked > arrays->tokens)
        return mt_fail(ctx, MT_ERR_USAGE, "layers: unmasked is %lld, expected 0 to %lld",
                       (long long)arrays->unmasked, (long long)arrays->tokens);
    return mt_device_enter(layers->device);
}

// ------------------------------------------------------------------ forward

static enum mt_score_kind score_kind(const struct mt_layers *layers)
{
    return layers->objective->shape.router.kind == MT_ROUTER_SIGMOID ? MT_SCORE_SIGMOID : MT_SCORE_SOFTMAX;
}

/* Scores, what balance counts, and the weights of a choice that was made elsewhere. */
static enum mt_status follow_choice(struct mt_layers *layers, const struct mt_router_policy *policy,
                                    struct mt_routing *record)
{
    const struct mt_router_config *router = &layers->objective->shape.router;
    struct mt_device *device = layers->device;
    enum mt_status status = mt_router_score_forward(
        device, &(struct mt_router_score_forward_args){
                    .logits = record->logits, .probs = record->probs, .kind = score_kind(layers)});
    if (status == MT_OK && record->greedy.data != record->chosen.data)
        status = mt_topk(device, &(struct mt_topk_args){.probs = record->probs, .expert = record->greedy});
    if (status == MT_OK && layers->given == MT_GIVEN_CHOICE) {
        status = mt_topk_weights_forward(device, &(struct mt_topk_weights_forward_args){
                                                     .probs = record->probs,
                                                     .expert = record->chosen,
                                                     .weight = record->weight,
                                                     .normalise = router->normalise,
                                                     .epsilon = router->epsilon,
                                                     .scale = router->scale == 0.0f ? 1.0f : router->scale,
                                                 });
    }
    return status == MT_OK ? mt_selection_serve(device, policy, record) : status;
}

enum mt_status mt_layers_route(struct mt_layers *layers, uint64_t stream,
                               const struct mt_layer_arrays *arrays)
{
    enum mt_status status = check_arrays(layers, arrays);
    if (status != MT_OK) return status;
    const struct mt_objective_config *config = &layers->objective->config;
    struct mt_router_policy policy = mt_objective_policy(config, mt_selection_drops(config), stream);
    struct mt_routing record = record_of(layers, arrays);
    if (layers->given == MT_GIVEN_LOGITS) {
        status = mt_routing_forward(layers->device, &layers->objective->shape.router, &policy, &record);
    } else {
        status = follow_choice(layers, &policy, &record);
    }
    if (status != MT_OK || !mt_terms_need(config, MT_NEEDS_ROWS)) return status;
    return mt_dispatch_plan(layers->device,
                            &(struct mt_dispatch_plan_args){
                                .expert = record.expert,
                                .offsets = record.offsets,
                                .row_of_slot = of_slots(layers, arrays, arrays->sorted_row, MT_I32),
                                .slot_of_row = record.slot_of_row,
                            });
}

enum mt_status mt_layers_forward(struct mt_layers *layers, int layer, const struct mt_layer_arrays *arrays,
                                 bool look)
{
    enum mt_status status = check_arrays(layers, arrays);
    if (status != MT_OK) return status;
    struct mt_routing record = record_of(layers, arrays);
    struct mt_objective *objective = layers->objective;
    objective->device_statistics = arrays->numbers != NULL ? arrays->numbers : objective->own_statistics;
    if (arrays->y != NULL || arrays->gram != NULL) {
        status =
            mt_combine_forward(layers->device, &(struct mt_combine_forward_args){
                                                   .rows = record.rows,
                                                   .row_of_slot = record.row_of_slot,
                                                   .weight = record.weight,
                                                   .y = of_width(layers, arrays, arrays->y, arrays->tokens),
                                                   .gram = record.gram,
                                               });
    }
    if (status != MT_OK || !look) return status;
    return mt_objective_forward(objective, layer, &record);
}

size_t mt_layers_numbers(const struct mt_layers *layers)
{
    if (layers == NULL) return 0;
    return (size_t)layers->objective->shape.layers * layers->objective->stride;
}

enum mt_status mt_layers_finish(struct mt_layers *layers, const struct mt_objective_step *step, float *total,
                                bool *waited)
{
    if (layers == NULL) return MT_ERR_USAGE;
    struct mt_context *ctx = mt_device_context(layers->device);
    enum mt_status status = mt_given(ctx, "mt_layers_finish", "total", total);
    if (status == MT_OK) status = mt_given(ctx, "mt_layers_finish", "waited", waited);
    if (status == MT_OK) status = mt_device_enter(layers->device);
    struct mt_tensor sum = mt_tensor_1d(total, MT_F32, 1);
    return status == MT_OK ? mt_values_issue(layers->objective, step, &sum, waited) : status;
}

enum mt_status mt_layers_read(struct mt_layers *layers, const double *numbers)
{
    if (layers == NULL) return MT_ERR_USAGE;
    enum mt_status status = mt_given(mt_device_context(layers->device), "mt_layers_read", "numbers", numbers);
    if (status == MT_OK) status = mt_device_enter(layers->device);
    return status == MT_OK ? mt_objective_read(layers->objective, numbers) : status;
}

// ------------------------------------------------------------------ backward

enum mt_status mt_layers_coupling(struct mt_layers *layers, int layer, const struct mt_layer_arrays *arrays)
{
    enum mt_status status = check_arrays(layers, arrays);
    if (status != MT_OK) return status;
    struct mt_routing record = record_of(layers, arrays);
    struct mt_tensor coupling = of_pairs(layers, arrays, arrays->coupling);
    return mt_objective_coupling(layers->objective, layer, &record, &coupling);
}

/* What y and, times a factor [1], the coupling say of the rows. */
static enum mt_status combine_backward(struct mt_layers *layers, const struct mt_layer_arrays *arrays,
                                       void *doutputs, const float *factor)
{
    if (doutputs == NULL) return MT_OK;
    struct mt_routing record = record_of(layers, arrays);
    int64_t pairs = arrays->tokens * layers->objective->shape.slots;
    return mt_combine_backward(layers->device,
                               &(struct mt_combine_backward_args){
                                   .dy = of_width(layers, arrays, arrays->dy, arrays->tokens),
                                   .rows = record.rows,
                                   .row_of_slot = record.row_of_slot,
                                   .weight = record.weight,
                                   .coupling = of_pairs(layers, arrays, arrays->coupling),
                                   .drows = of_width(layers, arrays, doutputs, pairs),
                                   .dweight = of_slots(layers, arrays, arrays->dweight, MT_F32),
                                   .factor = view(factor, mt_tensor_1d(NULL, MT_F32, 1)),
                               });
}

static enum mt_status clear(struct mt_layers *layers, const struct mt_tensor *sums)
{
    if (!mt_tensor_present(sums)) return MT_OK;
    return mt_fill(layers->device, &(struct mt_fill_args){.y = *sums, .value = 0.0f});
}

enum mt_status mt_layers_backward(struct mt_layers *layers, int layer, const struct mt_layer_arrays *arrays)
{
    enum mt_status status = check_arrays(layers, arrays);
    if (status == MT_OK) status = combine_backward(layers, arrays, arrays->doutputs, NULL);
    if (status != MT_OK || arrays->dlogits == NULL) return status;
    struct mt_routing record = record_of(layers, arrays);
    int64_t pairs = arrays->tokens * layers->objective->shape.slots;
    struct mt_tensor drows = of_width(layers, arrays, arrays->doutputs_terms, pairs);
    struct mt_routing_gradient gradient = {
        .dlogits = of_experts(layers, arrays, arrays->dlogits),
        .dprobs = of_experts(layers, arrays, arrays->dprobs),
        .dweight = of_slots(layers, arrays, arrays->dweight_terms, MT_F32),
        .drouter_weight = of_router(layers, arrays->drouter_weight),
        .dlogits_empty = true,
        .dprobs_empty = true,
        .dweight_empty = true,
    };
    status = clear(layers, &gradient.drouter_weight);
    if (status == MT_OK) status = clear(layers, &drows);
    if (status != MT_OK) return status;
    status = mt_objective_add_gradients(layers->objective, layer, &record, &gradient,
                                        mt_tensor_present(&drows) ? &drows : NULL);
    if (status != MT_OK) return status;
    const struct mt_router_config *router = &layers->objective->shape.router;
    if (layers->given != MT_GIVEN_WEIGHTS)
        return mt_routing_backward(layers->device, router, &record, &gradient);
    if (gradient.dweight_empty) status = clear(layers, &gradient.dweight);
    return status == MT_OK ? mt_scores_backward(layers->device, router, &record, &gradient) : status;
}

// ------------------------------------------------------------------ all layers at once

enum mt_status mt_layers_step(struct mt_layers *layers, const struct mt_layer_arrays *const *arrays,
                              const struct mt_objective_step *step, float *total, bool *waited)
{
    if (layers == NULL) return MT_ERR_USAGE;
    int count = layers->objective->shape.layers;
    enum mt_status status = mt_given(mt_device_context(layers->device), "mt_layers_step", "arrays", arrays);
    for (int layer = 0; layer < count && status == MT_OK; layer++)
        status = mt_layers_forward(layers, layer, arrays[layer], true);
    if (status == MT_OK) status = mt_layers_finish(layers, step, total, waited);
    for (int layer = 0; layer < count && status == MT_OK; layer++) {
        if (arrays[layer]->coupling != NULL) status = mt_layers_coupling(layers, layer, arrays[layer]);
        if (status == MT_OK) status = mt_layers_backward(layers, layer, arrays[layer]);
    }
    return status;
}

/* y = factor · x, all of them [count]. */
static enum mt_status scale(struct mt_layers *layers, const float *factor, struct mt_tensor x, void *y)
{
    if (y == NULL) return MT_OK;
    if (!mt_tensor_present(&x))
        return mt_fail(mt_device_context(layers->device), MT_ERR_USAGE,
                       "layers: a requested gradient needs memory that mt_layers_step was not given");
    int64_t count = mt_tensor_count(&x);
    return mt_axpby(layers->device, &(struct mt_axpby_args){
                                        .x = mt_tensor_1d(x.data, x.dtype, count),
                                        .y = mt_tensor_1d(y, x.dtype, count),
                                        .alpha = 1.0f,
                                        .factor = mt_tensor_1d((void *)factor, MT_F32, 1),
                                    });
}

enum mt_status mt_layers_chain(struct mt_layers *layers, const struct mt_layer_arrays *arrays,
                               const struct mt_layer_chain *chain)
{
    enum mt_status status = check_arrays(layers, arrays);
    if (status == MT_OK)
        status = mt_given(mt_device_context(layers->device), "mt_layers_chain", "chain", chain);
    if (status == MT_OK)
        status = mt_given(mt_device_context(layers->device), "mt_layers_chain", "factor", chain->factor);
    if (status != MT_OK) return status;
    int64_t pairs = arrays->tokens * layers->objective->shape.slots;
    if (status == MT_OK)
        status = scale(layers, chain->factor, of_experts(layers, arrays, arrays->dlogits), chain->dlogits);
    if (status == MT_OK)
        status =
            scale(layers, chain->factor, of_router(layers, arrays->drouter_weight), chain->drouter_weight);
    if (status != MT_OK) return status;
    if (arrays->doutputs_terms == NULL)
        return combine_backward(layers, arrays, chain->doutputs, chain->factor);
    return scale(layers, chain->factor, of_width(layers, arrays, arrays->doutputs_terms, pairs),
                 chain->doutputs);
}
