/*
 * Mixture of experts, forward:
 *   logits = router(x); record = routing(logits); rows = x sorted by expert;
 *   outputs = down(silu(gate(rows)) · up(rows)); y = shared(x) + residual + Σ_s weight_s · outputs_s
 * The Gram matrix of a token's outputs, which L_o needs, falls out of that sum. Backward: moe_backward.c.
 */
#include "model/moe.h"

#include "model/moe_router.h"

bool mt_moe_learns(const struct mt_layer_params *params)
{
    return mt_linear_learns(&params->router) || mt_expert_linear_learns(&params->gate) ||
           mt_expert_linear_learns(&params->up) || mt_expert_linear_learns(&params->down) ||
           mt_mlp_learns(&params->shared);
}

/* The record's own tensors; rows and gram lie with what the experts leave behind. */
static void plan_record(struct mt_routing *record, const struct mt_pass *pass,
                        const struct mt_layer_params *params, const struct mt_moe_planners *planners)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t tokens = pass->tokens;
    int64_t slots = desc->router.slots;
    *record = (struct mt_routing){.tokens = tokens,
                                  .experts = desc->experts,
                                  .slots = (int)slots,
                                  .segments = (int)pass->sequences,
                                  .unmasked = pass->unmasked,
                                  .mask = pass->mask,
                                  .ortho_mask = pass->ortho_mask,
                                  .segment = pass->segment,
                                  .bias = params->correction};
    record->logits = mt_plan_2d(planners->routing, pass->exact, tokens, desc->experts);
    record->probs = mt_plan_2d(planners->routing, pass->exact, tokens, desc->experts);
    record->weight = mt_plan_2d(planners->routing, pass->exact, tokens, slots);
    record->chosen = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    record->greedy = record->chosen;
    record->expert = record->chosen;
    // Memory is the same in training and evaluation: room for what training may need.
    struct mt_router_policy policy = {.training = true};
    if (pass->method != NULL) policy = mt_objective_policy(pass->method, true, 0);
    if (!mt_routing_is_plain(&desc->router, &policy, mt_tensor_present(&params->correction))) {
        record->greedy = mt_plan_2d(planners->index, MT_I32, tokens, slots);
        record->expert = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    }
    record->offsets = mt_plan_1d(planners->index, MT_I32, desc->experts + 1);
    record->row_of_slot = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    record->slot_of_row = mt_plan_1d(planners->index, MT_I32, tokens * slots);
    bool gram = pass->method != NULL && pass->method->coefficient[MT_TERM_O] != 0.0 &&
                pass->method->grouping == MT_GROUPING_TOKEN;
    if (gram) record->gram = mt_plan_3d(planners->routing, pass->exact, tokens, slots, slots);
}

static void plan_backward(struct mt_moe *moe, const struct mt_pass *pass, struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t tokens = pass->tokens;
    int64_t slots = desc->router.slots;
    // Grouping in expert order reads the outputs after the combine's backward: they must survive it.
    bool apart = pass->method != NULL && pass->method->coefficient[MT_TERM_O] != 0.0 &&
                 pass->method->grouping == MT_GROUPING_EXPERT_CONCAT;
    moe->drows = apart ? mt_plan_2d(work, pass->type, tokens * slots, desc->width) : moe->record.rows;
    if (mt_tensor_present(&moe->record.gram))
        moe->coupling = mt_plan_3d(work, pass->exact, tokens, slots, slots);
    moe->dweight = mt_plan_2d(work, pass->exact, tokens, slots);
    moe->dprobs = mt_plan_2d(work, pass->exact, tokens, desc->experts);
    moe->dlogits = mt_plan_2d(work, pass->exact, tokens, desc->experts);
    if (mt_tensor_present(&moe->router_input))
        moe->drouter_input = mt_plan_2d(work, pass->type, tokens, desc->width);
    if (mt_tensor_present(&moe->router_sum))
        moe->drouter_sum = mt_plan_2d(work, pass->exact, desc->experts, desc->width);
}

/* What only experts spread over ranks need. */
static void plan_ranks(struct mt_moe *moe, const struct mt_pass *pass, const struct mt_moe_planners *planners)
{
    int64_t room = pass->ranks->room;
    int64_t width = pass->desc->width;
    moe->own_offsets = mt_plan_1d(planners->index, MT_I32, pass->ranks->owned + 1);
    moe->order = mt_plan_1d(planners->index, MT_I32, room);
    moe->travel = mt_plan_2d(planners->work, pass->type, room, width);
    moe->arrived = mt_plan_2d(planners->work, pass->type, room, width);
    moe->second = mt_plan_2d(planners->work, pass->type, room, width);
}

void mt_moe_plan(struct mt_moe *moe, const struct mt_pass *pass, const struct mt_layer_params *params,
                 bool backward, const struct mt_moe_planners *planners)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t own_rows = pass->tokens * desc->router.slots;
    int64_t rows = pass->ranks != NULL ? pass->ranks->room : own_rows;
    *moe = (struct mt_moe){.layer = moe->layer, .number = moe->number};
    plan_record(&moe->record, pass, params, planners);
    moe->record.rows = mt_plan_2d(planners->saved, pass->type, own_rows, desc->width);
    moe->gate = mt_plan_2d(planners->saved, pass->type, rows, desc->expert_width);
    moe->up = mt_plan_2d(planners->saved, pass->type, rows, desc->expert_width);
    struct mt_tensor bits = {0}; // of `rows`
    moe->gate_lora = mt_expert_linear_plan_lora(planners->saved, pass, &params->gate, rows, &bits);
    moe->up_lora = mt_expert_linear_plan_lora(planners->saved, pass, &params->up, rows, &bits);
    moe->down_lora = mt_expert_linear_plan_lora(planners->saved, pass, &params->down, rows, NULL);
    moe->inner = mt_plan_2d(planners->work, pass->type, rows, desc->expert_width);
    if (pass->ranks != NULL) {
        moe->rows = mt_plan_2d(planners->work, pass->type, own_rows, desc->width);
        plan_ranks(moe, pass, planners);
    }
    if (mt_moe_router_shakes(pass))
        moe->router_input = mt_plan_2d(planners->work, pass->type, pass->tokens, desc->width);
    if (mt_moe_router_needs_sum(pass, params))
        moe->router_sum = mt_plan_2d(planners->work, pass->exact, desc->experts, desc->width);
    // The shared experts read what the router reads, unless that is shaken: one draw, the router's.
    moe->router_lora = mt_linear_plan_lora(planners->shared, pass, &params->router, NULL);
    if (desc->shared_width > 0) {
        struct mt_tensor drawn = {0};
        if (!mt_moe_router_shakes(pass)) drawn = moe->router_lora.bits;
        mt_mlp_plan(&moe->shared, pass, &params->shared, &drawn, planners->shared, planners->work);
    }
    if (backward) plan_backward(moe, pass, planners->work);
}

enum mt_status mt_moe_jitter(const struct mt_pass *pass, const struct mt_moe *moe, const struct mt_tensor *x)
{
    if (!pass->training || pass->desc->input_jitter <= 0.0f) return MT_OK;
    return mt_random_multiply(pass->device,
                              &(struct mt_random_multiply_args){
                                  .x = *x,
                                  .y = *x,
                                  .kind = MT_RANDOM_JITTER,
                                  .amount = pass->desc->input_jitter,
                                  .seed = pass->seed,
                                  .stream = mt_pass_layer_stream(pass, MT_STREAM_INPUT_JITTER, moe->layer)});
}

static enum mt_status sort_by_expert(const struct mt_pass *pass, const struct mt_routing *record)
{
    return mt_dispatch_plan(pass->device,
                            &(struct mt_dispatch_plan_args){.expert = record->expert,
                                                            .offsets = record->offsets,
                                                            .row_of_slot = record->row_of_slot,
                                                            .slot_of_row = record->slot_of_row});
}

enum mt_status mt_moe_gather(const struct mt_pass *pass, const struct mt_moe *moe, const struct mt_tensor *x)
{
    return mt_dispatch_forward(pass->device, &(struct mt_dispatch_forward_args){
                                                 .x = *x,
                                                 .slot_of_row = moe->record.slot_of_row,
                                                 .row_of_slot = moe->record.row_of_slot,
                                                 .rows = moe->rows,
                                                 .slots = moe->record.slots,
                                             });
}

/* A few of a layer's maps, from the first of this rank on. */
static struct mt_expert_linear some_of(const struct mt_expert_linear *all, int first, int count)
{
    struct mt_expert_linear some = *all;
    some.experts = count;
    some.weight = all->weight + first;
    if (all->dweight != NULL) some.dweight = all->dweight + first;
    if (all->a == NULL) return some;
    some.a = all->a + first;
    some.b = all->b + first;
    if (all->da != NULL) some.da = all->da + first;
    if (all->db != NULL) some.db = all->db + first;
    if (all->rounded_a != NULL) some.rounded_a = all->rounded_a + first;
    if (all->rounded_b != NULL) some.rounded_b = all->rounded_b + first;
    return some;
}

struct mt_expert_maps mt_moe_maps(const struct mt_pass *pass, const struct mt_layer_params *params)
{
    int first = pass->ranks != NULL ? pass->ranks->first : 0;
    int count = pass->ranks != NULL ? pass->ranks->owned : params->gate.experts;
    return (struct mt_expert_maps){.gate = some_of(&params->gate, first, count),
                                   .up = some_of(&params->up, first, count),
                                   .down = some_of(&params->down, first, count)};
}

/* The first rows of a tensor that may be absent. */
static struct mt_tensor some_rows(const struct mt_tensor *tensor, int64_t rows)
{
    return mt_tensor_present(tensor) ? mt_tensor_rows(tensor, 0, rows) : (struct mt_tensor){0};
}

struct mt_moe mt_moe_arrived(const struct mt_pass *pass, const struct mt_moe *moe)
{
    struct mt_moe seen = *moe;
    if (pass->ranks == NULL) return seen;
    int64_t rows = pass->ranks->rows[moe->number];
    seen.record.offsets = moe->own_offsets;
    seen.gate = some_rows(&moe->gate, rows);
    seen.up = some_rows(&moe->up, rows);
    seen.inner = some_rows(&moe->inner, rows);
    seen.gate_lora = mt_lora_trace_rows(&moe->gate_lora, rows);
    seen.up_lora = mt_lora_trace_rows(&moe->up_lora, rows);
    seen.down_lora = mt_lora_trace_rows(&moe->down_lora, rows);
    return seen;
}

/* record.rows = the experts of `rows`. */
static enum mt_status run_experts(const struct mt_pass *pass, const struct mt_expert_maps *maps,
                                  const struct mt_moe *moe)
{
    const struct mt_tensor *offsets = &moe->record.offsets;
    const struct mt_map_output gate = {.linear = &maps->gate, .trace = &moe->gate_lora, .y = &moe->gate};
    const struct mt_map_output up = {.linear = &maps->up, .trace = &moe->up_lora, .y = &moe->up};
    const struct mt_map_output down = {
        .linear = &maps->down, .trace = &moe->down_lora, .y = &moe->record.rows};
    enum mt_status status = mt_expert_linear_swiglu(pass, &gate, &up, offsets, &moe->rows, &moe->inner);
    if (status != MT_OK) return status;
    return mt_expert_linear_forward(pass, &down, 1, offsets, &moe->inner, false);
}

/* The shared experts, in two parts, each done while rows travel: y = shared(x). */
struct beside {
    const struct mt_mlp_params *params;
    const struct mt_tensor *x, *y;
};

static enum mt_status run_inner(const struct mt_pass *pass, const struct mt_moe *moe,
                                const struct beside *beside)
{
    if (beside == NULL) return MT_OK;
    if (pass->ranks != NULL) mt_expert_ranks_progress(pass->ranks);
    return mt_mlp_forward_inner(pass, beside->params, &moe->shared, beside->x);
}

static enum mt_status run_down(const struct mt_pass *pass, const struct mt_moe *moe,
                               const struct beside *beside)
{
    if (beside == NULL) return MT_OK;
    if (pass->ranks != NULL) mt_expert_ranks_progress(pass->ranks);
    return mt_mlp_forward_down(pass, beside->params, &moe->shared, false, beside->y);
}

/* The same where rows have to travel to their experts; beside: what is done meanwhile, or NULL. */
static enum mt_status run_ranks(const struct mt_pass *pass, const struct mt_expert_maps *maps,
                                const struct mt_moe *moe, const struct beside *beside)
{
    struct mt_expert_ranks *ranks = pass->ranks;
    int64_t rows = ranks->rows[moe->number];
    struct mt_expert_transfer there = {
        .own = moe->rows, .space = moe->travel, .sorted = moe->arrived, .order = moe->order};
    enum mt_status status = mt_expert_ranks_send_start(ranks, moe->number, &there);
    if (status == MT_OK) status = run_inner(pass, moe, beside);
    if (status == MT_OK) status = mt_expert_ranks_send_finish(ranks, moe->number, &there);
    if (status == MT_OK) status = mt_expert_ranks_offsets(ranks, moe->number, &moe->own_offsets);
    if (status == MT_OK && rows > 0) {
        struct mt_moe seen = mt_moe_arrived(pass, moe);
        seen.rows = some_rows(&moe->arrived, rows);
        seen.record.rows = some_rows(&moe->second, rows);
        status = run_experts(pass, maps, &seen);
    }
    if (status != MT_OK) return status;
    struct mt_expert_transfer back = {
        .own = moe->record.rows, .space = moe->travel, .sorted = moe->second, .order = moe->order};
    status = mt_expert_ranks_return_start(ranks, moe->number, &back);
    if (status == MT_OK) status = run_down(pass, moe, beside);
    return status == MT_OK ? mt_expert_ranks_return_finish(ranks, moe->number, &back) : status;
}

/* gate, up and record.rows of x. */
static enum mt_status run_routed(const struct mt_pass *pass, const struct mt_layer_params *params,
                                 const struct mt_moe *moe, const struct mt_tensor *x,
                                 const struct beside *beside)
{
    struct mt_expert_maps maps = mt_moe_maps(pass, params);
    struct mt_moe seen = *moe;
    // `inner` is made while rows are read: they lie where the outputs will, which are made of `inner` alone.
    if (pass->ranks == NULL) seen.rows = moe->record.rows;
    enum mt_status status = mt_moe_gather(pass, &seen, x);
    if (status != MT_OK) return status;
    return pass->ranks != NULL ? run_ranks(pass, &maps, moe, beside) : run_experts(pass, &maps, &seen);
}

enum mt_status mt_moe_repeat_experts(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_moe *moe, const struct mt_tensor *x)
{
    return run_routed(pass, params, moe, x, NULL);
}

/* y = residual + the weighted outputs, and with shared experts what y has of them already. */
static enum mt_status combine(const struct mt_pass *pass, const struct mt_moe *moe,
                              const struct mt_tensor *residual, const struct mt_tensor *y)
{
    return mt_combine_forward(pass->device, &(struct mt_combine_forward_args){
                                                .rows = moe->record.rows,
                                                .row_of_slot = moe->record.row_of_slot,
                                                .weight = moe->record.weight,
                                                .base = *residual,
                                                .y = *y,
                                                .gram = moe->record.gram,
                                                .accumulate = pass->desc->shared_width > 0,
                                            });
}

enum mt_status mt_moe_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                              struct mt_moe *moe, const struct mt_tensor *x, const struct mt_tensor *residual,
                              const struct mt_tensor *y)
{
    const struct beside beside = {.params = &params->shared, .x = x, .y = y};
    bool shared = pass->desc->shared_width > 0;
    enum mt_status status = mt_moe_jitter(pass, moe, x);
    if (status != MT_OK) return status;
    status = mt_moe_router_forward(pass, params, moe, x);
    if (status != MT_OK) return status;
    status = sort_by_expert(pass, &moe->record);
    if (status == MT_OK && pass->ranks != NULL)
        status = mt_expert_ranks_route(pass->ranks, moe->number, &moe->record.offsets);
    if (status != MT_OK) return status;
    status = run_routed(pass, params, moe, x, shared ? &beside : NULL);
    if (status == MT_OK && shared && pass->ranks == NULL) {
        status = run_inner(pass, moe, &beside);
        if (status == MT_OK) status = run_down(pass, moe, &beside);
    }
    if (status != MT_OK) return status;
    return combine(pass, moe, residual, y);
}
