/*
 * One layer of the objective, without a model around it. Expert outputs arrive in (token, slot) order; their
 * Gram matrices and the gradient C·X come from combine, a piece of tokens at a time.
 */
#include "objective/evaluation.h"

#include <inttypes.h>
#include <string.h>

#define PIECE_TOKENS 256

static struct mt_objective_shape shape_of(const struct mt_router_config *router,
                                          const struct mt_evaluation_sizes *sizes)
{
    return (struct mt_objective_shape){
        .layers = 1,
        .tokens = sizes->tokens,
        .experts = sizes->experts,
        .slots = router->slots,
        .segments = sizes->segments,
        .width = sizes->width,
        .router = *router,
    };
}

/* Hands out what is not the objective's own. */
static void lay_out(struct mt_evaluation *e, const struct mt_objective_config *config,
                    const struct mt_evaluation_sizes *sizes, struct mt_carver *carver)
{
    enum mt_dtype dtype = sizes->dtype;
    int64_t tokens = sizes->tokens;
    int64_t experts = sizes->experts;
    int64_t slots = e->router.slots;
    struct mt_tensor scores = mt_tensor_2d(NULL, dtype, tokens, experts);
    struct mt_tensor choices = mt_tensor_2d(NULL, MT_I32, tokens, slots);
    struct mt_tensor weights = mt_tensor_2d(NULL, dtype, tokens, slots);
    struct mt_tensor grams = mt_tensor_3d(NULL, dtype, tokens, slots, slots);
    int64_t piece = tokens < PIECE_TOKENS ? tokens : PIECE_TOKENS;
    struct mt_routing *record = &e->record;
    record->probs = mt_carve_tensor(carver, scores);
    record->chosen = mt_carve_tensor(carver, choices);
    record->weight = mt_carve_tensor(carver, weights);
    record->offsets = mt_carve_tensor(carver, mt_tensor_1d(NULL, MT_I32, experts + 1));
    record->row_of_slot = mt_carve_tensor(carver, choices);
    record->slot_of_row = mt_carve_tensor(carver, mt_tensor_1d(NULL, MT_I32, tokens * slots));
    record->gram = mt_carve_tensor(carver, grams);
    e->greedy = mt_carve_tensor(carver, choices);
    e->expert = mt_carve_tensor(carver, choices);
    e->ortho_mask = mt_carve_tensor(carver, mt_tensor_1d(NULL, MT_I32, tokens));
    if (mt_selection_pools(config)) {
        int64_t sequences = sizes->segments;
        e->logits = mt_carve_tensor(carver, scores);
        record->pool = mt_carve_tensor(carver, mt_tensor_2d(NULL, MT_I32, sequences, experts));
        record->pool_sums = mt_carve_tensor(carver, mt_tensor_1d(NULL, MT_F64, sequences * (experts + 1)));
    }
    e->sorted_row = mt_carve_tensor(carver, choices);
    e->coupling = mt_carve_tensor(carver, grams);
    e->dprobs = mt_carve_tensor(carver, scores);
    e->dweight = mt_carve_tensor(carver, weights);
    e->piece = mt_carve_tensor(carver, mt_tensor_2d(NULL, dtype, piece, sizes->width));
    e->piece_weight = mt_carve_tensor(carver, mt_tensor_2d(NULL, dtype, piece, slots));
    e->piece_dweight = mt_carve_tensor(carver, mt_tensor_2d(NULL, dtype, piece, slots));
}

size_t mt_evaluation_bytes(const struct mt_objective_config *config, const struct mt_router_config *router,
                           const struct mt_evaluation_sizes *sizes)
{
    struct mt_objective_shape shape = shape_of(router, sizes);
    struct mt_context unheard; // for messages nobody reads: the same checks speak up in place()
    mt_context_init(&unheard, NULL);
    if (mt_objective_config_check(&unheard, config) != MT_OK) return 0;
    if (mt_terms_check_alone(&unheard, config, "a single layer does") != MT_OK) return 0;
    if (mt_objective_shape_check(&unheard, config, &shape) != MT_OK) return 0;
    size_t host_bytes = 0;
    size_t device_bytes = 0;
    mt_objective_bytes(config, &shape, sizes->dtype, &host_bytes, &device_bytes);
    struct mt_evaluation counted = {.router = *router};
    struct mt_carver carver = {0};
    mt_carve(&carver, host_bytes);
    mt_carve(&carver, device_bytes);
    lay_out(&counted, config, sizes, &carver);
    return carver.used;
}

enum mt_status mt_evaluation_place(struct mt_device *device, const struct mt_objective_config *config,
                                   const struct mt_router_config *router,
                                   const struct mt_evaluation_sizes *sizes, void *memory,
                                   struct mt_evaluation *evaluation)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_objective_shape shape = shape_of(router, sizes);
    enum mt_status status = mt_objective_config_check(ctx, config);
    if (status == MT_OK) status = mt_terms_check_alone(ctx, config, "a single layer does");
    if (status != MT_OK) return status;
    status = mt_objective_shape_check(ctx, config, &shape);
    if (status != MT_OK) return status;
    size_t host_bytes = 0;
    size_t device_bytes = 0;
    mt_objective_bytes(config, &shape, sizes->dtype, &host_bytes, &device_bytes);
    struct mt_carver carver = {.memory = memory};
    void *host = mt_carve(&carver, host_bytes);
    void *device_memory = mt_carve(&carver, device_bytes);
    *evaluation = (struct mt_evaluation){
        .device = device,
        .router = *router,
        .record = {.tokens = sizes->tokens, .experts = sizes->experts, .slots = router->slots},
    };
    lay_out(evaluation, config, sizes, &carver);
    status =
        mt_objective_place(device, config, &shape, sizes->dtype, host, device_memory, &evaluation->objective);
    if (status != MT_OK) return status;
    const struct mt_objective_config *own = &evaluation->objective->config;
    evaluation->policy = mt_objective_policy(own, mt_selection_drops(own) || mt_selection_pools(own), 0);
    return MT_OK;
}

// ------------------------------------------------------------------ forward

static int64_t count_unmasked(const struct mt_tensor *mask, int64_t tokens)
{
    if (!mt_tensor_present(mask)) return tokens;
    int64_t count = 0;
    for (int64_t i = 0; i < tokens; i++) count += ((const int32_t *)mask->data)[i] != 0;
    return count;
}

static enum mt_status route(struct mt_evaluation *e, const struct mt_evaluation_inputs *inputs)
{
    struct mt_routing *record = &e->record;
    record->segments = inputs->segments;
    record->unmasked = count_unmasked(&inputs->mask, record->tokens);
    record->mask = inputs->mask;
    record->segment = inputs->segment;
    record->logits = inputs->logits;
    record->bias = inputs->bias;
    record->router_weight = inputs->router_weight;
    record->rows = inputs->expert_outputs;
    bool plain = mt_routing_is_plain(&e->router, &e->policy, mt_tensor_present(&inputs->bias));
    record->greedy = plain ? record->chosen : e->greedy;
    record->expert = plain ? record->chosen : e->expert;
    if (mt_tensor_present(&e->logits)) {
        record->logits = e->logits;
        enum mt_status status =
            mt_copy(e->device, &(struct mt_copy_args){.x = inputs->logits, .y = record->logits});
        if (status != MT_OK) return status;
    }
    record->ortho_mask = e->ortho_mask;
    mt_routing_ortho_mask(inputs->mask.data, inputs->segment.data, record->tokens, e->ortho_mask.data);
    return mt_routing_forward(e->device, &e->router, &e->policy, record);
}

/* Rows lie in slot order: a slot's row is its own number, unless it was dropped. */
static void number_rows(struct mt_evaluation *e)
{
    const int32_t *expert = e->record.expert.data;
    int32_t *row = e->record.row_of_slot.data;
    int64_t pairs = e->record.tokens * e->record.slots;
    for (int64_t i = 0; i < pairs; i++) row[i] = expert[i] < 0 ? -1 : (int32_t)i;
}

static enum mt_status clear(const struct mt_evaluation *e, const struct mt_tensor *tensor)
{
    return mt_fill(e->device, &(struct mt_fill_args){.y = *tensor, .value = 0.0f});
}

static enum mt_status find_grams(struct mt_evaluation *e)
{
    const struct mt_routing *record = &e->record;
    enum mt_status status = clear(e, &e->piece_weight);
    for (int64_t start = 0; start < record->tokens && status == MT_OK; start += PIECE_TOKENS) {
        int64_t left = record->tokens - start;
        int64_t count = left < PIECE_TOKENS ? left : PIECE_TOKENS;
        status = mt_combine_forward(e->device,
                                    &(struct mt_combine_forward_args){
                                        .rows = record->rows,
                                        .row_of_slot = mt_tensor_rows(&record->row_of_slot, start, count),
                                        .weight = mt_tensor_rows(&e->piece_weight, 0, count),
                                        .y = mt_tensor_rows(&e->piece, 0, count),
                                        .gram = mt_tensor_rows(&record->gram, start, count),
                                    });
    }
    return status;
}

enum mt_status mt_evaluation_forward(struct mt_evaluation *evaluation,
                                     const struct mt_evaluation_inputs *inputs, double *total)
{
    struct mt_device *device = evaluation->device;
    const struct mt_objective_config *config = &evaluation->objective->config;
    bool needs_gram = mt_terms_need(config, MT_NEEDS_GRAM);
    bool needs_order = mt_terms_need(config, MT_NEEDS_ROWS);
    if ((needs_gram || needs_order) && !mt_tensor_present(&inputs->expert_outputs)) {
        return mt_fail(mt_device_context(device), MT_ERR_USAGE,
                       "L_o needs the expert outputs: give them, or set beta=0");
    }
    enum mt_status status = route(evaluation, inputs);
    if (status != MT_OK) return status;
    number_rows(evaluation);
    if (needs_gram) {
        status = find_grams(evaluation);
        if (status != MT_OK) return status;
    }
    if (needs_order) {
        status = mt_dispatch_plan(device, &(struct mt_dispatch_plan_args){
                                              .expert = evaluation->record.expert,
                                              .offsets = evaluation->record.offsets,
                                              .row_of_slot = evaluation->sorted_row,
                                              .slot_of_row = evaluation->record.slot_of_row,
                                          });
        if (status != MT_OK) return status;
    }
    status = mt_objective_forward(evaluation->objective, 0, &evaluation->record);
    if (status != MT_OK) return status;
    const struct mt_objective_step step = {.progress = 1.0, .loss_scale = 1.0};
    return mt_objective_finish(evaluation->objective, &step, total);
}

// ------------------------------------------------------------------ backward

/* dexpert_outputs = C·X of every token. */
static enum mt_status couple_rows(struct mt_evaluation *e, const struct mt_tensor *dexpert_outputs)
{
    const struct mt_routing *record = &e->record;
    enum mt_status status = mt_objective_coupling(e->objective, 0, record, &e->coupling);
    if (status != MT_OK) return status;
    status = clear(e, &e->piece);
    for (int64_t start = 0; start < record->tokens && status == MT_OK; start += PIECE_TOKENS) {
        int64_t left = record->tokens - start;
        int64_t count = left < PIECE_TOKENS ? left : PIECE_TOKENS;
        status = mt_combine_backward(e->device,
                                     &(struct mt_combine_backward_args){
                                         .dy = mt_tensor_rows(&e->piece, 0, count),
                                         .rows = record->rows,
                                         .row_of_slot = mt_tensor_rows(&record->row_of_slot, start, count),
                                         .weight = mt_tensor_rows(&e->piece_weight, 0, count),
                                         .coupling = mt_tensor_rows(&e->coupling, start, count),
                                         .drows = *dexpert_outputs,
                                         .dweight = mt_tensor_rows(&e->piece_dweight, 0, count),
                                     });
    }
    return status;
}

enum mt_status mt_evaluation_backward(struct mt_evaluation *evaluation,
                                      const struct mt_evaluation_inputs *inputs,
                                      const struct mt_evaluation_gradients *gradients)
{
    const struct mt_tensor *drows = &gradients->dexpert_outputs;
    bool wants_rows = mt_tensor_present(drows);
    bool couples = wants_rows && mt_terms_need(&evaluation->objective->config, MT_NEEDS_GRAM);
    // Coupling writes the row of every slot that was served; the largest array need not be cleared for it.
    bool all_served = !evaluation->policy.training;
    const struct {
        const struct mt_tensor *tensor;
        bool overwritten;
    } sums[] = {
        {&gradients->dlogits, false},        {&evaluation->dprobs, false},   {&evaluation->dweight, false},
        {&gradients->drouter_weight, false}, {drows, couples && all_served},
    };
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof sums / sizeof sums[0] && status == MT_OK; i++) {
        if (mt_tensor_present(sums[i].tensor) && !sums[i].overwritten)
            status = clear(evaluation, sums[i].tensor);
    }
    if (status != MT_OK) return status;
    struct mt_routing_gradient gradient = {
        .dlogits = gradients->dlogits,
        .dprobs = evaluation->dprobs,
        .dweight = evaluation->dweight,
        .drouter_weight = gradients->drouter_weight,
    };
    if (couples) {
        status = couple_rows(evaluation, drows);
        if (status != MT_OK) return status;
    }
    evaluation->record.rows = inputs->expert_outputs;
    status = mt_objective_add_gradients(evaluation->objective, 0, &evaluation->record, &gradient,
                                        wants_rows ? drows : NULL);
    if (status != MT_OK) return status;
    return mt_routing_backward(evaluation->device, &evaluation->router, &evaluation->record, &gradient);
}
